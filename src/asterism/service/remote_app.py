"""The runs of a server, with the methods of the embedded ``App`` and its handles."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.model.documents import as_file
from asterism.constellation.python.goal import AnyGoal, Goal, goal_of
from asterism.constellation.python.handle import RunCommands, RunResult, is_idle
from asterism.devices.attempts.attempt_files import chunks_of_path
from asterism.devices.model.attempt import TaskError
from asterism.engine.control.run_control import Unpause, Verb
from asterism.engine.kernel.machine import Event
from asterism.engine.ports.schedules import Firing, Missed, Overlap, Schedule
from asterism.engine.ports.store import ACCEPTED, InquiryRow, RunRow, RunStatus
from asterism.engine.runtime.database_status import DatabaseStatus
from asterism.errors import InvalidInput, Refused
from asterism.service.http_connection import PAGE, TIMEOUT_S, HttpConnection, ServerEvent
from asterism.service.remote_conversation import RemoteConversation
from asterism.service.remote_store import RemoteStore, inquiry_row, row_of, run_row
from asterism.service.run_commands import COMMANDS
from asterism.views.delta import Delta

POLL_S = 0.2
"""Seconds between two looks at the row of a run."""


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a run that is followed.

    Attributes:
        deltas: the next deltas, without gaps.
        reset: the follower was too far behind: read the rows at this seq (``RemoteRun.rows``), the deltas continue
            after it. None otherwise.
        problem: why the run cannot be followed any more; empty if it can.
    """

    run_id: str
    deltas: tuple[Delta, ...] = ()
    reset: int | None = None
    problem: str = ""


class RemoteApp:
    """The runs of one server. ``asterism.connect(url, token=…)`` yields one."""

    def __init__(self, connection: HttpConnection) -> None:
        self.connection = connection
        self.store = RemoteStore(connection)

    async def run(self, goal: AnyGoal, options: RunOptions | None = None, /, **params: Any) -> RunResult:
        """Run a goal until it ends, or until only a person can move it on; arguments and errors as of ``App.run``."""
        return await (await self.start(goal, options, **params)).result()

    async def start(self, goal: AnyGoal, options: RunOptions | None = None, /, **params: Any) -> RemoteRun:
        """Submit a run of a goal, and return its handle; arguments as of ``App.start``.

        Raises:
            InvalidInput, Refused: the goal cannot be used, or its plan cannot run on the devices of the server.
        """
        if not isinstance(options, RunOptions | None):
            raise InvalidInput(f"options are RunOptions(…), not {options!r}; parameters of the plan are given by name")
        whole = goal_of(goal, params)
        for path in map(Path, whole.files.values()):
            await self.connection.upload("/api/files", path.name, functools.partial(chunks_of_path, path))
        body = {**_body_of(whole), "title": whole.title[:1000], "options": options or RunOptions()}
        made = await self.connection.post("/api/runs", body, key=secrets.token_hex(16))
        return self.run_of(made["run_id"])

    def run_of(self, run_id: str) -> RemoteRun:
        """Return the handle of a run of any kind."""
        return RemoteRun(self, run_id)

    def conversation(self, agent: str = "", *, run_id: str = "", language: str = "", time_zone: str = "") -> RemoteConversation:
        """Return a conversation with an agent of the server, by its name, or an existing one by its run id."""
        return RemoteConversation(self.connection, agent, run_id=run_id, language=language, time_zone=time_zone)

    async def conversations(self) -> list[RunRow]:
        """Return the open conversations that the token has started, the newest ones first."""
        found = await self.connection.get("/api/conversations", {"open": True, "limit": PAGE})
        return [run_row(it) for it in found["runs"]]

    async def schedules(self) -> list[Schedule]:
        """Return the schedules, by name."""
        return await self.store.schedules()

    async def add_schedule(
        self,
        name: str,
        cron: str,
        goal: AnyGoal,
        options: RunOptions | None = None,
        /,
        *,
        zone: str = "UTC",
        overlap: Overlap = "skip",
        missed: Missed = "once",
        params: Mapping[str, Any] = {},
    ) -> RemoteSchedule:
        """Add a schedule, and return its handle; the server has the plan, so a change of its file has no effect.

        Raises:
            InvalidInput: the goal or the times cannot be used, or there is another schedule of this name.
        """
        times = {"cron": cron, "zone": zone, "overlap": overlap, "missed": missed}
        body = {"name": name, **times, **_body_of(_without_files(goal_of(goal, params))), "options": options or RunOptions()}
        await self.connection.post("/api/schedules", body, key=secrets.token_hex(16))
        return self.schedule_of(name)

    def schedule_of(self, name: str) -> RemoteSchedule:
        """Return the handle of a schedule."""
        return RemoteSchedule(self, name)

    async def runs(self, *, limit: int = 100, status: RunStatus | None = None, roots_only: bool = False, text: str = "") -> list[RunRow]:
        """Return runs, newest first; with ``text`` those with it in their title."""
        return await self.store.find_runs(limit=limit, status=status, roots_only=roots_only, text=text)

    async def describe(self, run_id: str) -> RunRow:
        """Return the row of a run. Raises RunNotFound if there is none."""
        return await self.store.run(run_id)

    async def status(self) -> DatabaseStatus:
        """Return the servers of the database and their work; raises InvalidInput for a token with a tenant."""
        found = await self.connection.get("/api/status")
        runs = {kind: [run_row(it) for it in rows] for kind, rows in found["runs"].items()}
        return msgspec.structs.replace(msgspec.convert({**found, "runs": {}}, DatabaseStatus), runs=runs)

    async def inquiries(self, *, root: str | None = None) -> list[InquiryRow]:
        """Return the open inquiries of a run and of the runs below it, or of all; oldest first."""
        return await self.store.inquiries(root=root)

    async def send(self, run_id: str, event: Event, *, actor: str = "") -> str:  # noqa: ARG002 - the token says who sends it
        """Send a command to a run, and return its verdict; see ``Client.send``. Raises Refused if there is none yet."""
        await self.command(run_id, {"command": COMMANDS[type(event)], **msgspec.structs.asdict(event)})
        return ACCEPTED

    async def fork(self, run_id: str, at: int, *, actor: str = "") -> str:  # noqa: ARG002 - as above
        """Let a new run begin as a copy of another one up to an entry, and return its id. Raises InvalidInput."""
        return await self.command(run_id, {"command": "fork", "at": at})

    async def command(self, run_id: str, body: Mapping[str, Any]) -> str:
        """Send a command in its JSON; return the id of the run that it concerns, which may be a new one."""
        done = await self.connection.post(f"/api/runs/{run_id}/commands", body, key=secrets.token_hex(16))
        if done["verdict"] != "accepted":
            raise Refused(f"run {run_id}: the server has the command, but gave no verdict yet; see: asterism log {run_id}")
        concerned: str = done["run_id"]
        return concerned

    async def follow(self, cursors: Mapping[str, int]) -> AsyncIterator[Followed]:
        """Yield what happens in some runs, over one connection at a time, for as long as the caller listens.

        Args:
            cursors: seq of the last entry that the caller has, by run id; 0 for none.

        Raises:
            RunNotFound: there is no such run.
            StoreUnavailable: the server cannot be reached any more.
        """
        named = [f"{run_id}@{seq}" for run_id, seq in cursors.items()]
        async with contextlib.aclosing(self.connection.events("/api/stream", {"run": named})) as events:
            async for event in events:
                for followed in _followed(event) if event is not None else ():
                    yield followed


class RemoteRun(RunCommands):
    """One run of a server, with the methods of a ``RunHandle``."""

    def __init__(self, app: RemoteApp, run_id: str) -> None:
        super().__init__(app, run_id)
        self._app = app
        self._connection = app.connection
        self._path = f"/api/runs/{run_id}"
        self._read: dict[str, str] = {}  # digests of the questions that this handle has returned, by id

    async def describe(self) -> RunRow:
        """Return its row. Raises RunNotFound if there is no such run."""
        return await self._app.describe(self.run_id)

    async def result(self) -> RunResult:
        """Wait until the run ends or only a person can move it on; return its result. Raises RunNotFound."""
        while not is_idle(await self.describe()):  # noqa: ASYNC110 - another process moves it
            await asyncio.sleep(POLL_S)
        data = await self._connection.get(f"{self._path}/result")
        asked = tuple(self._note([inquiry_row(it) for it in data["inquiries"]]))
        errors = {name: msgspec.convert(it, TaskError) for name, it in data["errors"].items()}
        return RunResult(**{**data, "inquiries": asked, "errors": errors})

    async def progress(self) -> AsyncIterator[Delta]:
        """Yield the changes of the run, from its first entry on, until it ends or only a person can move it on."""
        seen = 0
        async with contextlib.aclosing(self._connection.events(f"{self._path}/stream", {"after": 0})) as events:
            async for event in events:
                if event is not None and event.kind == "delta":
                    delta = msgspec.convert(event.data, Delta)
                    seen = delta.seq
                    yield delta
                elif event is not None and event.kind == "idle" and event.data["seq"] <= seen:
                    return

    async def rows(self, at: int | None = None) -> dict[str, dict[str, Any]]:
        """Return the state rows of the run after an entry, the last one by default."""
        found = await self._connection.get(f"{self._path}/view", {} if at is None else {"at": at})
        rows: dict[str, dict[str, Any]] = found["rows"]
        return rows

    async def inquiries(self) -> list[InquiryRow]:
        """See ``RunHandle``."""
        return self._note(await super().inquiries())

    def _note(self, asked: list[InquiryRow]) -> list[InquiryRow]:
        """Note what the program reads: it is what an approval of this handle is for."""
        self._read |= {it.inquiry_id: it.digest for it in asked}
        return asked

    async def answer(self, verb: Verb, *, value: Any = None, reason: str = "", inquiry_id: str = "", digest: str = "") -> None:
        """Answer a question of the run; arguments and errors as of ``RunHandle.answer``. The token says who answers.

        ``digest`` is that of the question which the program has read; by default that of the question as ``inquiries``
        or ``result`` of this handle has returned it.
        """
        inquiry_id = inquiry_id or await self._only_inquiry()
        digest = digest or self._read.get(inquiry_id, "")
        if verb in ("approve", "edit") and not digest:
            raise InvalidInput(
                f"this handle has not read {inquiry_id}, and {verb} is for what was read; read it by inquiries(), or give digest="
            )
        body = {"verb": verb, "value": value, "reason": reason, "digest": digest}
        await self._connection.post(f"/api/inquiries/{inquiry_id}/answer", body, key=secrets.token_hex(16))

    async def resume(self) -> None:
        """Continue the run if it is paused."""
        if (await self.describe()).status == "paused":
            await self._app.send(self.run_id, Unpause())

    async def retry(self, *tasks: str) -> RemoteRun:
        """Let failed and cancelled tasks run again; arguments, result and errors as of ``RunHandle.retry``."""
        run_id = await self._app.command(self.run_id, {"command": "retry_failed", "tasks": tasks})
        return self if run_id == self.run_id else self._app.run_of(run_id)


class RemoteSchedule:
    """One schedule of a server. Its methods raise RunNotFound if there is none of this name."""

    def __init__(self, app: RemoteApp, name: str) -> None:
        self.name = name
        self._store = app.store
        self._connection = app.connection
        self._path = f"/api/schedules/{name}"

    async def describe(self) -> Schedule:
        """Return its row."""
        return row_of(Schedule, (await self._connection.get(self._path, {"count": 0, "limit": 0}))["schedule"])

    async def next_times(self, count: int = 5) -> list[float]:
        """Return its next due times, in seconds since the epoch."""
        times: list[float] = (await self._connection.get(self._path, {"count": count, "limit": 0}))["next"]
        return times

    async def history(self, limit: int = 20) -> list[Firing]:
        """Return what its past due times have led to, newest first."""
        return await self._store.firings(schedule=self.name, limit=limit)

    async def pause(self) -> None:
        """Pause it; a run that has started goes on."""
        await self._command("pause")

    async def resume(self) -> None:
        """Resume it; the due times of the pause are left out."""
        await self._command("resume")

    async def run(self) -> str:
        """Start a run now, whatever it overlaps, and return its id. The next due time stays."""
        return await self._command("run")

    async def remove(self) -> None:
        """Remove it with its history; its runs stay."""
        await self._connection.delete(self._path)

    async def _command(self, command: str) -> str:
        done = await self._connection.post(f"{self._path}/commands", {"command": command}, key=secrets.token_hex(16))
        run_id: str = done["run_id"]
        return run_id


@contextlib.asynccontextmanager
async def open_remote(url: str, token: str) -> AsyncIterator[RemoteApp]:
    """Open a client of a server.

    Raises:
        InvalidInput: the URL or the token cannot be used.
    """
    if not token.isascii() or not token.isprintable() or not token:
        raise InvalidInput("the token is no text of `asterism token create`")
    try:
        http = httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT_S)
    except (httpx2.InvalidURL, ValueError) as error:
        raise InvalidInput(f"{url}: no URL of a server: {error}") from None
    async with http:
        yield RemoteApp(HttpConnection(http))


def _body_of(goal: Goal) -> dict[str, Any]:
    """Return the goal of a request to the server."""
    return {"plan": as_file(goal.plan), "params": goal.params} if goal.plan is not None else {"request": goal.request}


def _without_files(goal: Goal) -> Goal:
    """Return the goal of a schedule. Raises InvalidInput if it names files of this computer."""
    if goal.files:
        raise InvalidInput("a schedule of a server has no files of this computer; let its plan fetch them")
    return goal


def _followed(event: ServerEvent) -> Sequence[Followed]:
    match event.kind:
        case "deltas":
            return [Followed(run_id=it["run"], deltas=msgspec.convert(it["deltas"], tuple[Delta, ...])) for it in event.data]
        case "reset":
            return [Followed(run_id=event.data["run"], reset=event.data["seq"])]
        case "problem":
            return [Followed(run_id=event.data.get("run", ""), problem=event.data["detail"])]
        case _:
            return []
