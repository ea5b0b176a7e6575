"""How the runs of each machine are told: one row for each, so that no command asks which one it has before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec
from rich.text import Text

from asterism.cli.comparing import standings
from asterism.cli.flow_story import FlowStory
from asterism.cli.loop_story import LoopStory
from asterism.cli.picture import count_words, status_lines
from asterism.cli.story import Happening, Story
from asterism.kernel.machine import Machine
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP


class Telling(NamedTuple):
    """How the runs of one machine are told.

    Attributes:
        story: reads their journals.
        picture: how one stands, in at most so many lines; given also the time and the number of the picture.
        counted: the same in one line.
        outcome: what it has come to, for programs.
        standing: what each of its parts has come to, by id; to set two runs side by side.
        sections: what ``show`` tells beside the states; None for what it tells of a constellation.
    """

    story: Callable[[Machine[Any], str], Story]
    picture: Callable[[Story, float, int, int], list[Text]]
    counted: Callable[[Story], str]
    outcome: Callable[[Story], dict[str, Any]]
    standing: Callable[[Story], Mapping[str, str]]
    sections: Callable[[Story, list[Happening], float], list[Text]] | None = None


def _tasks(story: Story) -> dict[str, Any]:
    tasks = {
        task.task_id: {
            "name": task.name,
            "device": task.device,
            "status": str(task.status),
            "result": task.result,
            "error": msgspec.to_builtins(task.error),
        }
        for task in story.constellation.in_order()
    }
    return {"tasks": tasks}


_TELLINGS: Mapping[str, Telling] = {
    CONSTELLATION_AGENT.name: Telling(
        story=Story,
        picture=lambda story, now, limit, frame: status_lines(story, now, limit=limit, frame=frame) if story.constellation.tasks else [],
        counted=lambda story: count_words(story.constellation),
        outcome=_tasks,
        standing=standings,
    ),
    ORCHESTRATION_LOOP.name: Telling(
        story=LoopStory,
        picture=lambda story, _, limit, __: cast("LoopStory", story).lines(limit),
        counted=lambda story: cast("LoopStory", story).counted(),
        outcome=lambda story: cast("LoopStory", story).outcome(),
        standing=lambda story: cast("LoopStory", story).standing(),
        sections=lambda story, happenings, now: cast("LoopStory", story).sections(happenings, now),
    ),
    FLOW_AGENT.name: Telling(
        story=FlowStory,
        picture=lambda story, _, limit, __: cast("FlowStory", story).lines(limit),
        counted=lambda story: cast("FlowStory", story).counted(),
        outcome=lambda story: cast("FlowStory", story).outcome(),
        standing=lambda story: cast("FlowStory", story).standing(),
        sections=lambda story, happenings, now: cast("FlowStory", story).sections(happenings, now),
    ),
}


def story_for(machine: Machine[Any], run: str) -> Story:
    """An unread story of a run."""
    return _TELLINGS[machine.name].story(machine, run)


def telling_of(story: Story) -> Telling:
    """How this story is told."""
    return _TELLINGS[story.run.machine.name]


def differences(fork: Story, origin: Story) -> list[str]:
    """One line for each part that has come to something else, or is on one side only."""
    here, there = telling_of(fork).standing(fork), telling_of(origin).standing(origin)
    lines = []
    for part in dict.fromkeys((*here, *there)):
        ours, theirs = here.get(part, "absent"), there.get(part, "absent")
        if ours != theirs:
            lines.append(f"{part}  {ours} here, {theirs} there")
    return lines
