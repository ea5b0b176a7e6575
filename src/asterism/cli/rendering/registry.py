"""The renderer of each machine, so that no command depends on the machine of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asterism.cli.rendering.constellation import ConstellationRenderer
from asterism.cli.rendering.flow import FlowRenderer
from asterism.cli.rendering.loop import LoopRenderer
from asterism.cli.rendering.renderer import RunRenderer
from asterism.kernel.machine import Machine
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP

_RENDERERS: Mapping[str, type[RunRenderer]] = {
    CONSTELLATION_AGENT.name: ConstellationRenderer,
    ORCHESTRATION_LOOP.name: LoopRenderer,
    FLOW_AGENT.name: FlowRenderer,
}


def renderer_for(machine: Machine[Any], run_id: str) -> RunRenderer:
    """Return a renderer that has not yet read an entry of the run."""
    return _RENDERERS[machine.name](machine, run_id)


def differences(fork: RunRenderer, origin: RunRenderer) -> list[str]:
    """Return a line for each part whose status differs, or which only one of the runs has."""
    here, there = fork.part_status(), origin.part_status()
    lines = []
    for part in dict.fromkeys((*here, *there)):
        ours, theirs = here.get(part, "absent"), there.get(part, "absent")
        if ours != theirs:
            lines.append(f"{part}  {ours} here, {theirs} there")
    return lines
