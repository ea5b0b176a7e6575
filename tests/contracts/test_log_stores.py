"""Contract of the logs of stores: order, positions, bounds and pruning, on each of them."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from asterism.engine.ports import logs as port
from asterism.engine.ports.logs import LogChunk
from asterism.stores import sqlite_logs
from tests.contracts.test_stores import Play, World, commit, play, record, row

__all__ = ["play"]
KILO = bytes(1024)


def chunk(data: bytes, *, run: str = "r1", key: str = "r1:2.0", stream: port.Stream = "stdout", skipped: int = 0) -> LogChunk:
    return LogChunk(run_id=run, key=key, task="a", stream=stream, at=1.0, data=data, skipped=skipped)


def test_chunks_have_an_order_over_all_runs_and_a_position_in_their_stream(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for run in ("r1", "r2"):
            await store.submit(row(run), record(run))
        await store.add_logs([chunk(b"one"), chunk(b"err", stream="stderr"), chunk(b"other", run="r2", key="r2:2.0")])
        await store.add_logs([chunk(b"two"), chunk(b"three", skipped=10), chunk(b"lost", run="r3")])
        found = await store.logs(["r1", "r2"])
        assert [(it.run_id, it.stream, it.position, it.data) for it in found] == [
            ("r1", "stdout", 0, b"one"),
            ("r1", "stderr", 0, b"err"),
            ("r2", "stdout", 0, b"other"),
            ("r1", "stdout", 3, b"two"),
            ("r1", "stdout", 16, b"three"),
        ]
        assert [it.seq for it in found] == sorted({it.seq for it in found})
        assert await store.logs(["r1"], after=found[0].seq, limit=1) == [found[1]]
        assert await store.logs(["r3"]) == await store.logs([]) == []
        second = await world.open()
        assert await second.logs(["r2"]) == [found[2]]

    play(scenario)


def test_output_is_found_by_task_and_attempt_and_its_end_by_bytes(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        again = {"key": "r1:3.0", "number": 2}
        printed = [
            chunk(b"first"),
            msgspec.structs.replace(chunk(b"other"), task="b", key="r1:4.0"),
            msgspec.structs.replace(chunk(b"again"), **again),
            msgspec.structs.replace(chunk(b"error", stream="stderr"), **again),
        ]
        await store.add_logs(printed)

        async def found(query: port.LogQuery, *, after: int = 0, limit: int = 256) -> list[bytes]:
            return [it.data for it in await store.logs(["r1"], query, after=after, limit=limit)]

        assert await found(port.LogQuery(task="a")) == [b"first", b"again", b"error"]
        assert await found(port.LogQuery(task="a", number=2)) == [b"again", b"error"]
        assert await found(port.LogQuery(number=1)) == [b"first", b"other"]
        assert await found(port.LogQuery(task="c")) == []
        assert await found(port.LogQuery(tail_bytes=5)) == [b"error"]
        assert await found(port.LogQuery(tail_bytes=6)) == [b"again", b"error"]
        assert await found(port.LogQuery(task="a", tail_bytes=11)) == [b"first", b"again", b"error"]
        assert await found(port.LogQuery(task="a", tail_bytes=1000), limit=2) == [b"again", b"error"]
        last = (await store.logs(["r1"]))[-1].seq
        assert await found(port.LogQuery(tail_bytes=1000), after=last - 1) == [b"error"]
        assert await found(port.LogQuery(tail_bytes=1000), after=last) == []

    play(scenario)


def test_of_a_long_stream_the_beginning_and_the_end_are_stored(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        part = 64 * KILO
        await store.add_logs([chunk(b"short", stream="stderr")])
        for number in range(3 * port.STREAM_BYTES // len(part) // 8):
            await store.add_logs([msgspec.structs.replace(chunk(part), number=number)] * 8)
        found = [it for it in await store.logs(["r1"], limit=10_000) if it.stream == "stdout"]
        sizes = sum(len(it.data) for it in found)
        assert port.STREAM_BYTES <= sizes <= port.STREAM_BYTES + 2 * len(part)
        assert found[0].position == 0
        assert found[-1].position + len(part) == 3 * port.STREAM_BYTES
        (gap,) = [
            after.position - it.position - len(part) for it, after in itertools.pairwise(found) if after.position > it.position + len(part)
        ]
        assert gap + sizes == 3 * port.STREAM_BYTES
        assert [it.data for it in await store.logs(["r1"], limit=1)] == [b"short"]

    play(scenario)


def test_of_a_run_that_prints_very_much_the_beginning_and_the_end_are_stored(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = port.RUN_BYTES // 16  # less, for the disk
    monkeypatch.setattr(sqlite_logs, "RUN_BYTES", bound)

    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        part, added = 128 * KILO, 0
        for number in range(bound // len(part) // 4 + 10):
            await store.add_logs([chunk(part, key=f"r1:{number}.0")] * 4)
            added += 4 * len(part)
        found = await store.logs(["r1"], limit=10_000)
        (note,) = [it for it in found if not it.key]
        stored = sum(len(it.data) for it in found)
        assert stored + note.position == added
        assert bound * 7 // 8 <= stored <= bound
        assert found[0].key == "r1:0.0"
        assert found[-1].key == f"r1:{number}.0"
        assert 0 < found.index(note) < len(found) - 1
        assert await store.logs(["r1"], port.LogQuery(task="of none")) == [note]

    play(scenario)


def test_logs_are_pruned_with_their_run(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for run in ("r1", "r2"):
            await store.submit(row(run), record(run))
        await store.add_logs([chunk(b"one"), chunk(b"two", run="r2", key="r2:2.0")])
        epoch = await store.acquire("r1", newest=1)
        await store.append(msgspec.structs.replace(commit(epoch=epoch), status="ended", outcome="finished"))
        await store.release("r1", epoch)
        assert await store.prune(outcomes=("finished",)) == 1
        assert [it.data for it in await store.logs(["r1", "r2"])] == [b"two"]

    play(scenario)
