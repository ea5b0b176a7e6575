"""What is said when a driven run stops."""

from __future__ import annotations

import asyncio

import pytest

from asterism.bootstrap import MACHINES
from asterism.cli.driving import tell_end
from asterism.cli.stories.loop_story import LoopStory
from asterism.cli.stories.telling import story_for
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.runtime.ports.store import RunRow
from asterism.stores.memory import MemoryStore
from tests.loops import Loop, steps


@pytest.mark.parametrize("machine", MACHINES)
def test_a_run_of_any_machine_that_was_paused_says_how_it_goes_on(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    story, row = story_for(MACHINES[machine], "r"), RunRow(run_id="r", machine=machine, title="t", state="", status="paused")
    asyncio.run(tell_end(MemoryStore(), story, row, as_json=False, result_file=None))
    assert capsys.readouterr().out == "paused; go on with: asterism resume r\n"


@pytest.mark.parametrize("answer", [None, {"seen": 2}])
def test_a_loop_without_an_answer_in_words_says_what_its_steps_have_come_to(answer: object, capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(*steps("a", "b"))
    loop.ends("a")
    loop.says()
    loop.fails("b")
    loop.says("done")
    loop.answers_with(answer)
    story = LoopStory(ORCHESTRATION_LOOP, loop.run.id)
    story.read(loop.entries)
    row = RunRow(run_id=loop.run.id, machine=ORCHESTRATION_LOOP.name, title="t", state="COMPLETE", status="ended", outcome="finished")
    asyncio.run(tell_end(MemoryStore(), story, row, as_json=False, result_file=None))
    assert capsys.readouterr().out.splitlines()[1:-1] == ["2 steps: 1 ok, 1 failed"]
