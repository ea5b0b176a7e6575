"""The form of the runs of a conversation."""

from __future__ import annotations

from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.runtime.form import Form

FORM = Form(FLOW_AGENT, view="asterism.conversation.view.view:FlowRunView", history="asterism.conversation.view.history:FlowHistory")
