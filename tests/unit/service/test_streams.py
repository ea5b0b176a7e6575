"""Streams that are cut: nothing is missed and nothing repeated."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import asterism
from asterism.constellation.model.documents import parse_plan
from asterism.service import listener
from asterism.service.api import feeds
from asterism.service.http_connection import HttpConnection
from asterism.service.listener import listening_socket
from asterism.service.remote_app import RemoteApp
from asterism.views.delta import Delta, Rows, fold, is_story
from tests.support import api_server
from tests.support.api_server import ASKS, Server, plan, serving
from tests.support.http_runs import at_once
from tests.unit.service.test_resources import play


@contextlib.asynccontextmanager
async def cutting_proxy(port: int, cut_s: float) -> AsyncIterator[str]:
    """A proxy that cuts each connection after a time; its URL."""

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other: asyncio.StreamWriter | None = None
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(cut_s):
                answers, other = await asyncio.open_connection("127.0.0.1", port)
                async with asyncio.TaskGroup() as group:
                    group.create_task(passed(reader, other))
                    group.create_task(passed(answers, writer))
        for end in (writer, other):
            if end:
                end.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def follow(app: RemoteApp, received: dict[str, list[Delta]]) -> None:
    """Collect what a program receives of some runs."""
    async for it in app.follow(dict.fromkeys(received, 0)):
        assert (it.reset, it.problem) == (None, "")
        received[it.run_id] += it.deltas


async def check_whole(server: Server, received: Mapping[str, list[Delta]]) -> None:
    """Check that the fold of what was received equals the view, at every seq."""
    http = await server.client("viewer")
    for run_id, deltas in received.items():
        seq = (await server.store.run(run_id)).seq
        assert [it.seq for it in deltas] == list(range(1, seq + 1)), run_id
        rows: Rows = {}
        for delta in deltas:
            fold([delta], rows)
            view = (await http.get(f"/api/runs/{run_id}/view", params={"at": delta.seq})).json()["rows"]
            assert {name: row for name, row in rows.items() if not is_story(name)} == view


async def restarted(folder: Path, runs: int, cut_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs follow live runs through a proxy that cuts, while the server is restarted three times."""
    monkeypatch.setattr(feeds, "POLL_S", 0.05)

    async def work(attempt: Any) -> Any:
        await asyncio.sleep(0.05)
        return await at_once(attempt)

    async with asyncio.timeout(300), contextlib.AsyncExitStack() as stack:
        opened = stack.enter_async_context
        async with serving(folder, work=work) as server:
            port, token = int(server.url.rpartition(":")[2]), await server.token("viewer")
            ids = [(await server.runtime.start(parse_plan(plan("a", "b", "c")))).run_id for _ in range(runs)]
            url = await opened(cutting_proxy(port, cut_s))
            apps = [await opened(asterism.connect(url, token=token)) for _ in range(2)]
            group = await opened(asyncio.TaskGroup())
            received: list[dict[str, list[Delta]]] = [{run_id: [] for run_id in ids} for _ in apps]
            following = [group.create_task(follow(app, its)) for app, its in zip(apps, received, strict=True)]
            await asyncio.sleep(cut_s)
        for last in (False, False, True):
            async with serving(folder, work=work, port=port) as server:
                await asyncio.sleep(cut_s)
                if not last:
                    continue
                for run_id in ids:
                    assert await server.ended(run_id) == "finished"
                rows = [await server.store.run(run_id) for run_id in ids]
                while not all(its[row.run_id] and its[row.run_id][-1].seq == row.seq for its in received for row in rows):  # noqa: ASYNC110 - what comes is the measure
                    await asyncio.sleep(0.05)
                for task in following:
                    task.cancel()
                assert received[0] == received[1]
                await check_whole(server, received[0])


def test_two_programs_follow_live_runs_through_cuts_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(restarted(tmp_path, 6, 0.4, monkeypatch))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_programs_follow_two_hundred_live_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(restarted(tmp_path, 200, 2.0, monkeypatch))


def test_a_stream_of_one_run_continues_after_the_last_event_id(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("viewer")
        run_id = (await server.runtime.start(parse_plan(plan("a", "b")))).run_id
        await server.ended(run_id)
        seq = (await server.store.run(run_id)).seq
        for after in range(seq + 1):
            seen = []
            async with http.stream("GET", f"/api/runs/{run_id}/stream", headers={"Last-Event-ID": str(after)}) as answer:
                async for line in answer.aiter_lines():
                    if line == "event: idle":
                        break
                    seen += [int(line[4:])] if line.startswith("id: ") else []
            assert seen == list(range(after + 1, seq + 1))

    play(tmp_path, scenario)


def test_a_cursor_that_no_journal_has_is_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MAX_BEHIND", 2)

    async def scenario(server: Server) -> None:
        run_id = (await server.runtime.start(parse_plan(ASKS))).run_id
        await server.waiting(run_id)
        async with asterism.connect(server.url, token=await server.token("operator,approver")) as app:
            for cursor in (0, 10**6):
                async with contextlib.aclosing(app.follow({run_id: cursor})) as stream:  # type: ignore[type-var]
                    it = await anext(stream)
                    rows = await app.run_of(run_id).rows(it.reset)
                    assert (it.reset, rows["run"]["state"]) == ((await server.store.run(run_id)).seq, "CONTINUE")
                    if cursor:
                        await app.run_of(run_id).pause()
                        deltas = (await anext(stream)).deltas
                        assert deltas[0].seq == (it.reset or 0) + 1

    play(tmp_path, scenario)


def test_a_slow_watcher_is_served_from_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MAX_DELTAS", 2)

    async def scenario(server: Server) -> None:
        run_id = (await server.runtime.start(parse_plan(plan("a", "b", "c")))).run_id
        await server.ended(run_id)
        async with asterism.connect(server.url, token=await server.token("viewer")) as app:
            seqs = [delta.seq async for delta in app.run_of(run_id).progress()]
            assert seqs == list(range(1, (await app.describe(run_id)).seq + 1))

    play(tmp_path, scenario)


def test_a_stream_of_topics_names_the_runs_and_questions_that_changed(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http, other = await server.client("admin", "north"), await server.client("admin", "south")
        connection = HttpConnection(http)
        seen: dict[str, set[str]] = {"runs": set(), "inquiries": set()}
        async with contextlib.aclosing(connection.events("/api/stream", {"topic": ["runs", "inquiries"]})) as events:
            begun = [await anext(events) for _ in range(3)][1:]
            assert [it.data for it in begun if it] == [{"topic": "runs", "ids": None}, {"topic": "inquiries", "ids": None}]
            theirs = (await other.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
            await server.waiting(theirs)
            ours = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
            asked = await server.waiting(ours)
            while not (ours in seen["runs"] and asked in seen["inquiries"]):
                event = await anext(events)
                assert event is not None
                seen[event.data["topic"]] |= set(event.data["ids"])
        assert seen == {"runs": {ours}, "inquiries": {asked}}
        assert (await http.get("/api/stream")).status_code == 422

    play(tmp_path, scenario)


def test_d6_a_refusal_of_a_stream_names_its_run(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client()
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        refused = await http.get("/api/stream", params={"run": [run_id, f"{run_id}-2"]})
        assert (refused.status_code, refused.json()["run"]) == (404, f"{run_id}-2")

    play(tmp_path, scenario, drives=False)


async def stalled(server: Server, path: str) -> socket.socket:
    """A connection that asks for a response and reads nothing of it."""
    given = socket.socket()
    given.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    given.settimeout(0)
    await asyncio.get_running_loop().sock_connect(given, ("127.0.0.1", int(server.url.rpartition(":")[2])))
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {await server.token('viewer')}\r\n\r\n"
    await asyncio.get_running_loop().sock_sendall(given, head.encode())
    return given


def unread(server: Server) -> list[int]:
    """The bytes that the server holds for each connection."""
    return [it.transport.get_write_buffer_size() for it in server.listener.server_state.connections]


def test_h5_a_client_that_does_not_read_is_cut_and_little_is_held_for_it_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(host: str, port: int) -> socket.socket:
        made = listening_socket(host, port)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return made

    monkeypatch.setattr(api_server, "listening_socket", small)
    monkeypatch.setattr(feeds, "MAX_DELTAS", 5)  # all is read from the journal at once
    monkeypatch.setattr(listener, "STALLED_S", 1e9)

    async def scenario(server: Server) -> None:
        http = await server.client()
        tasks = {**plan(*[f"t{number}" for number in range(300)]), "dependencies": []}
        run_id = (await http.post("/api/runs", json={"plan": tasks})).json()["run_id"]
        assert await server.ended(run_id) == "finished"
        size = len((await http.get(f"/api/runs/{run_id}/deltas")).content)
        await http.aclose()
        with contextlib.ExitStack() as stack:
            for path in (f"/api/stream?run={run_id}", f"/api/runs/{run_id}/stream", f"/api/runs/{run_id}/view"):
                stack.enter_context(await stalled(server, path))
            while len([it for it in unread(server) if it > 1 << 15]) < 3:  # noqa: ASYNC110 - it fills as it is written
                await asyncio.sleep(0.01)
            assert size > 300_000
            assert len([it for it in unread(server) if it < 200_000]) >= 2  # the streams
            assert sum(server.context.limits._streams.values()) == 2
            monkeypatch.setattr(listener, "STALLED_S", 0.5)
            while server.listener.server_state.connections or server.context.limits._streams:  # noqa: ASYNC110 - it is cut by the clock
                await asyncio.sleep(0.01)

    play(tmp_path, scenario)


def test_h5_a_stream_of_many_runs_has_all_of_a_large_journal_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "BATCH_BYTES", 2000)
    monkeypatch.setattr(feeds, "MAX_DELTAS", 5)

    async def scenario(server: Server) -> None:
        http = await server.client()
        runs = [(await http.post("/api/runs", json={"plan": plan("a", "b", "c")})).json()["run_id"] for _ in range(3)]
        for run_id in runs:
            await server.ended(run_id)
        rows = {run_id: await server.store.run(run_id) for run_id in runs}
        found = dict[str, list[int]]()
        batches = server.context.feeds.follow(list(rows.values()), dict.fromkeys(runs, 0), 10.0)
        async with contextlib.aclosing(batches):
            async for several in batches:
                assert sum(len(line.data) for it in several for line in it.lines[:-1]) < 2000 * 2
                for it in several:
                    found.setdefault(it.run_id, []).extend(line.seq for line in it.lines)
                if all(found.get(run_id, [0])[-1] == row.seq for run_id, row in rows.items()):
                    break
        assert found == {run_id: list(range(1, row.seq + 1)) for run_id, row in rows.items()}

    play(tmp_path, scenario)
