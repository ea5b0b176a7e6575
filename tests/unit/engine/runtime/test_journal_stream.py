"""A journal is followed in batches, from any entry on, until its run has ended."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from asterism.engine.kernel.journal import JournalMismatch, Record
from asterism.engine.ports.store import Commit, RunRow, RunStatus
from asterism.engine.runtime import journal_stream
from asterism.engine.runtime.journal_stream import follow, follow_entries
from asterism.stores.memory import MemoryStore
from tests.journals.test_golden import MACHINE_OF, golden

JOURNAL = golden("flow")
RUN = JOURNAL[0].run_id
ROW = RunRow(run_id=RUN, machine="flow agent", title="t", state=JOURNAL[0].state, seq=1)


class GrowingStore(MemoryStore):
    """Writes three records whenever its follower has all that there are; the last of them ends the run."""

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        found = await super().records(run_id, after=after, limit=limit)
        first = len(self.database.records[RUN])
        if not found and (batch := JOURNAL[first : first + 3]):
            status: RunStatus = "ended" if first + len(batch) == len(JOURNAL) else "active"
            await self.append(Commit(run_id=RUN, epoch=0, expected_seq=first, records=batch, state=batch[-1].state, status=status))
        return found


@pytest.mark.parametrize("after", [0, 1, 5])
def test_every_record_after_an_entry_comes_once_and_in_order(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_stream, "POLL_S", 0)

    async def main() -> list[Record]:
        store = GrowingStore()
        await store.submit(ROW, JOURNAL[0])
        return [it async for batch in follow(store, RUN, after) for it in batch]

    assert asyncio.run(main()) == JOURNAL[after:]


def test_a_long_journal_comes_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_stream, "MAX_RECORDS", 4)

    async def main() -> list[int]:
        store = MemoryStore()
        await store.submit(ROW, *JOURNAL)
        return [len(batch) async for batch in follow(store, RUN, until_now=True)]

    sizes = asyncio.run(main())
    assert sum(sizes) == len(JOURNAL)
    assert max(sizes) == 4


def test_entries_are_followed_as_a_view_reads_them() -> None:
    async def main() -> list[int]:
        store = MemoryStore()
        await store.submit(msgspec.structs.replace(ROW, status="ended"), *JOURNAL)
        return [entry.seq async for batch in follow_entries(store, MACHINE_OF["flow"], RUN, 2) for entry in batch]

    assert asyncio.run(main()) == list(range(3, len(JOURNAL) + 1))


def test_a_journal_that_ends_before_the_seq_of_its_row_is_rejected() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.submit(ROW, *JOURNAL)
        store.database.connection.execute("DELETE FROM entries WHERE run = ? AND seq = ?", (RUN, len(JOURNAL)))
        async for _ in follow(store, RUN, until_now=True):
            pass

    with pytest.raises(JournalMismatch, match="it is missing"):
        asyncio.run(main())
