"""The history class of each machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.view.history import ConstellationHistory
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.view.history import FlowHistory
from asterism.engine.kernel.machine import Machine
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.view.history import LoopHistory
from asterism.views.registry import unread_view
from asterism.views.text.history import RunHistory
from asterism.views.view import RunView

_HISTORIES: Mapping[str, type[RunHistory]] = {
    CONSTELLATION_AGENT.name: ConstellationHistory,
    ORCHESTRATION_LOOP.name: LoopHistory,
    FLOW_AGENT.name: FlowHistory,
}


def unread_history(machine: Machine[Any], run_id: str, own: Mapping[str, type[RunView]] = {}) -> RunHistory:
    """Return the history of a run before its first entry.

    Args:
        machine: machine of the run.
        run_id: id of the run.
        own: views of registered machines, by machine name (``Driver.views``).
    """
    return _HISTORIES.get(machine.name, RunHistory)(unread_view(machine, run_id, own))
