"""A golden journal of a loop: as it was written once, it replays on today's table to the end it had.

``python -m tests.journals.test_golden_loop --anew`` writes it anew. That is a decision, not a repair.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from asterism.kernel.journal import Record
from asterism.kernel.run import Run, packer
from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.simulation.people import Crash, everyone_says
from asterism.simulation.world import World
from tests.simulation.test_loops import research_and_write

PATH = Path(__file__).with_name("loop.jsonl")


def golden() -> list[Record]:
    return [msgspec.json.decode(line, type=Record) for line in PATH.read_bytes().splitlines()]


def test_a_golden_journal_of_a_loop_replays_to_its_end() -> None:
    run: Run[LoopMemory] = Run(ORCHESTRATION_LOOP, golden()[0].run)
    run.replay(packer(ORCHESTRATION_LOOP).unpack(record) for record in golden())
    assert run.ended
    assert (str(run.state), run.memory.outcome(), run.memory.answer["better"]) == ("COMPLETE", "finished", "longer, please")
    assert [finding.step_id for finding in run.memory.findings] == ["look", "left", "right", "text"]


def test_packing_what_was_unpacked_changes_nothing() -> None:
    pack = packer(ORCHESTRATION_LOOP)
    assert [pack.pack(pack.unpack(record)) for record in golden()] == golden()


def test_it_holds_what_a_loop_can_go_through() -> None:
    kinds = {record.kind for record in golden()}
    assert {"LoopSubmitted", "Claimed", "PlanMade", "WorkerEnded", "Answered", "Reflected", "Synthesized", "Critiqued"} <= kinds
    assert {"PLANNING", "EXECUTING", "OBSERVING", "REFLECTING", "WAITING", "PARALLEL", "COMPLETE"} == {record.state for record in golden()}


def main() -> int:
    if sys.argv[1:] != ["--anew"]:
        print(__doc__)
        return 2
    deaths = [*(Crash(during=name, after_s=0.5) for name in ("look", "dig")), Crash(entry=9)]
    ending = World(1, crashes=deaths, people=everyone_says("approve")).run_loop(research_and_write(idempotent=False), "go")
    assert ending.outcome == "finished"
    PATH.write_bytes(ending.journal)
    return 0


if __name__ == "__main__":
    sys.exit(main())
