"""A process that drives a SQLite store by commands, one per line, and replies with each result.

Lines in: ``claim RUN``, ``append RUN EPOCH SEQ``. Lines out: ``ready``, then one word or sentence for each.
"""

from __future__ import annotations

import asyncio
import sys

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.store import Commit
from asterism.errors import AsterismError
from asterism.stores.sqlite import SqliteStore


async def obey(store: SqliteStore, verb: str, run_id: str, *numbers: str) -> str:
    if verb == "claim":
        return str(await store.acquire(run_id, newest=0))
    epoch, seq = map(int, numbers)
    record = Record(run_id=run_id, seq=seq + 1, at=0.0, actor="other", kind="Done", state="CONTINUE", body="{}")
    await store.append(Commit(run_id=run_id, epoch=epoch, expected_seq=seq, records=(record,), state="CONTINUE", status="active"))
    return "appended"


async def main(path: str) -> None:
    store = SqliteStore.open(path, create=True)
    try:
        print("ready", flush=True)
        for line in sys.stdin:
            try:
                said = await obey(store, *line.split())
            except AsterismError as refusal:
                said = f"{type(refusal).__name__}: {refusal}"
            print(said, flush=True)
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
