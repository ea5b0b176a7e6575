"""What is said when a driven run stops."""

from __future__ import annotations

import asyncio

import pytest

from asterism.bootstrap import MACHINES
from asterism.cli.driving import tell_end
from asterism.cli.telling import story_for
from asterism.runtime.ports import RunRow
from asterism.stores.memory import MemoryStore


@pytest.mark.parametrize("machine", MACHINES)
def test_a_run_of_any_machine_that_was_paused_says_how_it_goes_on(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    story, row = story_for(MACHINES[machine], "r"), RunRow(run="r", machine=machine, title="t", state="", status="paused")
    asyncio.run(tell_end(MemoryStore(), story, row, as_json=False, result_file=None))
    assert capsys.readouterr().out == "paused; go on with: asterism resume r\n"
