from __future__ import annotations

import pytest

from asterism.errors import InvalidInput
from asterism.kernel.journal import Record
from asterism.kernel.run import Run, packer
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.runtime.ports import RunRow
from asterism.runtime.transplant import journal_lines, read_journals, renamed
from tests.agents import Agent
from tests.stars import plan

ROW = RunRow(
    run="r", machine="constellation agent", title="t", state="FINISH", session="r", actor="me", seq=1, created_at=1.0, updated_at=1.0
)


def records() -> list[Record]:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a", {"note": "r:1.0 is only mentioned here"})
    agent.plans()
    return [packer(CONSTELLATION_AGENT).pack(entry) for entry in agent.entries]


def test_a_journal_goes_into_a_file_and_comes_back() -> None:
    assert read_journals(journal_lines([(ROW, records())])) == [(ROW, records())]


def test_a_journal_under_another_id_replays_there() -> None:
    moved = renamed(records(), "r", "copy")
    assert not any('"r:' in record.body.replace('"r:1.0 is', "") for record in moved)
    run: Run[AgentMemory] = Run(CONSTELLATION_AGENT, "copy")
    run.replay(map(packer(CONSTELLATION_AGENT).unpack, moved))
    assert run.memory.constellation.tasks["b"].status == "RUNNING"
    assert all(effect.startswith("copy:") for effect in run.outstanding)


def test_what_only_mentions_an_effect_is_left_alone() -> None:
    assert any("r:1.0 is only mentioned here" in record.body for record in renamed(records(), "r", "copy"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: [lines[0].replace("FINISH", "FAILED"), *lines[1:]], "line 1: its sum does not fit"),
        (lambda lines: [*lines[:2], lines[2].replace("system", "nobody"), *lines[3:]], "line 3"),
        (lambda lines: [*lines[:2], *lines[3:]], "line 3: its sum does not fit"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 2: its sum does not fit"),
        (lambda lines: lines[:-1], "it is cut short; the end is missing"),
        (lambda lines: [*lines, lines[-1]], "its sum does not fit"),
        (lambda lines: ["not json\n", *lines[1:]], "line 1: not a line of a journal file"),
        (lambda lines: [], "it is cut short"),
    ],
)
def test_a_line_that_was_changed_lost_moved_or_added_is_named(change: object, told: str) -> None:
    lines = list(journal_lines([(ROW, records())]))
    with pytest.raises(InvalidInput, match=told):
        read_journals(change(lines))  # type: ignore[operator]
