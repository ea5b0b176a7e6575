"""A conversation as it was written once, replayed on today's code.

``python -m tests.journals.test_flow`` writes it anew. That is a decision, not a repair.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from asterism.kernel.journal import Record
from asterism.kernel.run import Run, packer, state_history
from asterism.machines.flow_agent.memory import FlowMemory
from asterism.machines.flow_agent.table import FLOW_AGENT
from tests.simulation.conversations import Conversation, hold

GOLDEN = Path(__file__).with_name("flow.jsonl")
LINES = ["pizza", "medium", "small", "3", "skip", "!pause lunch", "!resume", "make it 4", "maybe", "yes"]


def golden() -> list[Record]:
    return [msgspec.json.decode(line, type=Record) for line in GOLDEN.read_bytes().splitlines()]


def test_a_golden_conversation_replays_to_its_end() -> None:
    run: Run[FlowMemory] = Run(FLOW_AGENT, golden()[0].run)
    run.replay(packer(FLOW_AGENT).unpack(record) for record in golden())
    assert run.ended
    assert (run.memory.outcome(), run.memory.prompt) == ("finished", "4 small on the way.")
    assert [it["state"] for it in state_history(golden())] == [
        "INITIALIZING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "PAUSED", "WAITING_FOR_APPROVAL", "RUNNING", "COMPLETED",
    ]  # fmt: skip


def test_packing_what_was_unpacked_changes_nothing() -> None:
    pack = packer(FLOW_AGENT)
    assert [pack.pack(pack.unpack(record)) for record in golden()] == golden()


if __name__ == "__main__":
    stage, _ = hold(Conversation("golden", "Pizza", LINES, ""))
    GOLDEN.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in stage.records))
    print(f"wrote {GOLDEN.name}")
