"""Output on its way to the store: in order, bounded while it waits, and masked."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from asterism.devices.attempts.log_relay import LogReader, RateLimit
from asterism.devices.attempts.logged_performers import log_of, printed_to_logs
from asterism.devices.attempts.task_log import BATCH_BYTES, CHUNK_BYTES, FULL_BYTES, MOST_BYTES, AttemptLog, AttemptLogWriter, print_trace
from asterism.engine.kernel.machine import EffectResult
from asterism.engine.ports.logs import ALL_OUTPUT, LogChunk, LogQuery
from asterism.errors import StoreUnavailable

CHUNK = LogChunk(run_id="r", key="r:1.0", task="a", stream="stdout", at=0.0, data=b"")


class FakeStore:
    """A log store that notes the batches, and waits for ``gate`` before each."""

    def __init__(self) -> None:
        self.batches: list[list[LogChunk]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures = 0

    async def add_logs(self, chunks: Sequence[LogChunk]) -> None:
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the disk is full")
        self.batches.append(list(chunks))

    async def logs(self, runs: Sequence[str], query: LogQuery = ALL_OUTPUT, *, after: int = 0, limit: int = 256) -> list[LogChunk]:
        raise AssertionError

    def data(self) -> bytes:
        return b"".join(chunk.data for batch in self.batches for chunk in batch)


def play(scenario: Callable[[AttemptLogWriter, FakeStore], Awaitable[None]]) -> None:
    async def whole() -> None:
        store = FakeStore()
        async with AttemptLogWriter(store, lambda: 1.0, lambda: {"NAME": "hunter2-and-more"}) as writer:
            await scenario(writer, store)
            store.gate.set()

    asyncio.run(whole())


def test_output_is_written_in_order_and_in_small_batches() -> None:
    async def scenario(writer: AttemptLogWriter, store: FakeStore) -> None:
        log = AttemptLog(writer, CHUNK)
        parts = [bytes([number]) * (CHUNK_BYTES // 2) for number in range(20)]
        for part in parts:
            log.write("stdout", part)
        await log.close()
        assert store.data() == b"".join(parts)
        assert max(sum(len(chunk.data) for chunk in batch) for batch in store.batches) <= BATCH_BYTES
        assert max(len(chunk.data) for batch in store.batches for chunk in batch) <= CHUNK_BYTES

    play(scenario)


def test_a_pipe_is_not_read_while_the_store_is_slow() -> None:
    async def scenario(writer: AttemptLogWriter, store: FakeStore) -> None:
        read, write = os.pipe()
        reader, log = LogReader(read), AttemptLog(writer, CHUNK)
        store.gate.clear()
        reader.begin(RateLimit(lambda *_: None, asyncio.get_running_loop().time, "line"), log, ())
        size, written = 3 * FULL_BYTES, []
        thread = threading.Thread(target=lambda: written.append(sum(os.write(write, b"x" * 4096) for _ in range(size // 4096))))
        thread.start()
        while not writer.is_full:  # noqa: ASYNC110 - a thread fills it
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not written
        assert writer._bytes <= FULL_BYTES + CHUNK_BYTES
        store.gate.set()
        while not written:  # noqa: ASYNC110 - a thread writes
            await asyncio.sleep(0.01)
        thread.join()
        reader.end()
        await log.close()
        assert len(store.data()) == size
        os.close(write)
        reader.close()

    play(scenario)


def test_code_that_cannot_wait_loses_the_middle_and_the_gap_is_counted() -> None:
    async def scenario(writer: AttemptLogWriter, store: FakeStore) -> None:
        log = AttemptLog(writer, CHUNK)
        for _ in range(MOST_BYTES // CHUNK_BYTES + 3):
            log.print("stdout", "x" * CHUNK_BYTES)
        await log.close()
        log.print("stdout", "after")
        await log.close()
        chunks = [chunk for batch in store.batches for chunk in batch]
        assert [chunk.skipped for chunk in chunks if chunk.skipped] == [3 * CHUNK_BYTES]
        assert (chunks[-1].data, chunks[-1].skipped) == (b"after", 3 * CHUNK_BYTES)

    play(scenario)


def test_output_that_the_store_cannot_take_is_a_gap() -> None:
    async def scenario(writer: AttemptLogWriter, store: FakeStore) -> None:
        log = AttemptLog(writer, CHUNK)
        store.failures = 1
        log.write("stdout", b"lost")
        await log.close()
        log.write("stdout", b"there")
        await log.close()
        assert [(chunk.data, chunk.skipped) for chunk in store.batches[0]] == [(b"there", 4)]

    play(scenario)


def test_what_code_of_an_effect_prints_is_stored_masked_before_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    class Printing:
        async def perform(self, effect_id: str, request: object, report: object) -> EffectResult:
            print("in the loop, hunter2-and", end="")
            await asyncio.to_thread(print, "-more in a thread")
            print("to the other", file=sys.stderr)
            print_trace("Traceback hunter2-and-more\n")
            return EffectResult(effect_id=effect_id)

    async def scenario(writer: AttemptLogWriter, store: FakeStore) -> None:
        with printed_to_logs():
            print("no effect")
            async with log_of(writer, lambda _: ("task", 3), "r:4.0", None):
                await Printing().perform("r:4.0", None, None)
        chunks = [chunk for batch in store.batches for chunk in batch]
        by_stream = {name: b"".join(it.data for it in chunks if it.stream == name) for name in ("stdout", "stderr")}
        assert by_stream == {"stdout": b"in the loop, [secret] in a thread\n", "stderr": b"to the other\nTraceback [secret]\n"}
        assert {(it.run_id, it.key, it.task, it.number) for it in chunks} == {("r", "r:4.0", "task", 3)}

    play(scenario)
    assert capsys.readouterr().out == "no effect\nin the loop, hunter2-and-more in a thread\n"
