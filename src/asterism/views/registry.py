"""The view of each machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.view.view import ConstellationRunView
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.view.view import FlowRunView
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.run import Run
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.view.view import LoopRunView
from asterism.views.view import BaseView, RunView

VIEWS: Mapping[str, type[BaseView]] = {
    CONSTELLATION_AGENT.name: ConstellationRunView,
    ORCHESTRATION_LOOP.name: LoopRunView,
    FLOW_AGENT.name: FlowRunView,
}
"""Views by machine name; other machines have ``BaseView``."""


def view_of(run: Run[Any], own: Mapping[str, type[RunView]] = {}) -> RunView:
    """Return the view of a run in its current state; the view advances the run from now on.

    Args:
        run: the loaded run.
        own: views of registered machines, by machine name (``Driver.views``).
    """
    return (own.get(run.machine.name) or VIEWS.get(run.machine.name, BaseView)).at(run)


def unread_view(machine: Machine[Any], run_id: str, own: Mapping[str, type[RunView]] = {}) -> RunView:
    """Return the view of a run before its first entry."""
    return view_of(Run(machine, run_id, performs=False), own)
