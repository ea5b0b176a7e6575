"""What is said when a driven run stops."""

from __future__ import annotations

import asyncio

import pytest

from asterism.app.bootstrap import FORMS
from asterism.cli.foreground import print_end
from asterism.engine.ports.store import RunRow
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.stores.memory import MemoryStore
from asterism.views.text.history import unread_history
from tests.support.loop_harness import Loop, steps


@pytest.mark.parametrize("machine", FORMS)
def test_a_paused_run_of_any_machine_prints_how_to_resume_it(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    history, row = unread_history(FORMS[machine], "r"), RunRow(run_id="r", machine=machine, title="t", state="", status="paused")
    asyncio.run(print_end(MemoryStore(), history, row))
    assert capsys.readouterr().out == "paused; resume with: asterism resume r\n"


@pytest.mark.parametrize("answer", [None, {"seen": 2}])
def test_a_loop_without_an_answer_prints_the_status_of_its_steps(answer: object, capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(*steps("a", "b"))
    loop.ends("a")
    loop.says()
    loop.fails("b")
    loop.says("done")
    loop.answers_with(answer)
    history = unread_history(FORMS[ORCHESTRATION_LOOP.name], loop.run.id)
    history.read(loop.entries)
    row = RunRow(run_id=loop.run.id, machine=ORCHESTRATION_LOOP.name, title="t", state="COMPLETE", status="ended", outcome="finished")
    asyncio.run(print_end(MemoryStore(), history, row))
    assert capsys.readouterr().out.splitlines()[1:-1] == ["2 steps: 1 ok, 1 failed"]
