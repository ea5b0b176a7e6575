"""The form of the runs of a loop."""

from __future__ import annotations

from asterism.engine.runtime.form import Form
from asterism.loop.machine.table import ORCHESTRATION_LOOP

FORM = Form(ORCHESTRATION_LOOP, view="asterism.loop.view.view:LoopRunView", history="asterism.loop.view.history:LoopHistory")
