"""How the runs of each machine are told: the kind of story that each has, so that no command asks which machine it has before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asterism.cli.stories.constellation_story import ConstellationStory
from asterism.cli.stories.flow_story import FlowStory
from asterism.cli.stories.loop_story import LoopStory
from asterism.cli.stories.story import Story
from asterism.kernel.machine import Machine
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP

_STORIES: Mapping[str, type[Story]] = {
    CONSTELLATION_AGENT.name: ConstellationStory,
    ORCHESTRATION_LOOP.name: LoopStory,
    FLOW_AGENT.name: FlowStory,
}


def story_for(machine: Machine[Any], run_id: str) -> Story:
    """An unread story of a run."""
    return _STORIES[machine.name](machine, run_id)


def differences(fork: Story, origin: Story) -> list[str]:
    """One line for each part that has come to something else, or is on one side only."""
    here, there = fork.standing(), origin.standing()
    lines = []
    for part in dict.fromkeys((*here, *there)):
        ours, theirs = here.get(part, "absent"), there.get(part, "absent")
        if ours != theirs:
            lines.append(f"{part}  {ours} here, {theirs} there")
    return lines
