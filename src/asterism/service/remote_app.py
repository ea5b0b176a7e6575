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
from asterism.constellation.python.handle import RunResult, is_idle
from asterism.devices.attempts.attempt_files import chunks_of_path
from asterism.devices.model.attempt import TaskError
from asterism.engine.control.run_control import Verb
from asterism.engine.ports.schedules import Missed, Overlap, Schedule
from asterism.engine.ports.store import InquiryRow, RunRow, RunStatus
from asterism.engine.runtime.database_status import DatabaseStatus
from asterism.errors import InvalidInput, Refused
from asterism.service.http_connection import TIMEOUT_S, HttpConnection, ServerEvent
from asterism.service.remote_conversation import RemoteConversation, inquiry_row
from asterism.service.remote_schedule import RemoteSchedule, schedule_row
from asterism.views.delta import Delta

POLL_S = 0.2
"""Seconds between two looks at the row of a run."""
PAGE = 1000
"""Runs of one page."""


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
        return RemoteRun(self.connection, run_id)

    def conversation(self, agent: str = "", *, run_id: str = "", language: str = "", time_zone: str = "") -> RemoteConversation:
        """Return a conversation with an agent of the server, by its name, or an existing one by its run id."""
        return RemoteConversation(self.connection, agent, run_id=run_id, language=language, time_zone=time_zone)

    async def conversations(self) -> list[RunRow]:
        """Return the open conversations that the token has started, the newest ones first."""
        found = await self.connection.get("/api/conversations", {"open": True, "limit": PAGE})
        return [run_row(it) for it in found["runs"]]

    async def schedules(self) -> list[Schedule]:
        """Return the schedules, by name."""
        return [schedule_row(it) for it in (await self.connection.get("/api/schedules"))["schedules"]]

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
        return RemoteSchedule(self.connection, name)

    async def runs(self, *, limit: int = 100, status: RunStatus | None = None, roots_only: bool = False, text: str = "") -> list[RunRow]:
        """Return runs, newest first; with ``text`` those with it in their title."""
        found: list[RunRow] = []
        after: str | None = ""
        while after is not None and len(found) < limit:
            query = {"limit": min(PAGE, limit - len(found)), "children": not roots_only, "q": text, "after": after}
            page = await self.connection.get("/api/runs", query | ({"status": status} if status else {}))
            found += [run_row(it) for it in page["runs"]]
            after = page["next"]
        return found

    async def describe(self, run_id: str) -> RunRow:
        """Return the row of a run. Raises RunNotFound if there is none."""
        return await self.run_of(run_id).describe()

    async def status(self) -> DatabaseStatus:
        """Return the servers of the database and their work; raises InvalidInput for a token with a tenant."""
        found = await self.connection.get("/api/status")
        runs = {kind: [run_row(it) for it in rows] for kind, rows in found["runs"].items()}
        return msgspec.structs.replace(msgspec.convert({**found, "runs": {}}, DatabaseStatus), runs=runs)

    async def inquiries(self, *, root: str | None = None) -> list[InquiryRow]:
        """Return the open inquiries of a run and of the runs below it, or of all; oldest first."""
        found: list[InquiryRow] = []
        after: str | None = ""
        while after is not None:
            page = await self.connection.get("/api/inquiries", {"run": root or "", "limit": PAGE, "after": after})
            found += [inquiry_row(it) for it in page["inquiries"]]
            after = page["next"]
        return found

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


class RemoteRun:
    """One run of a server, with the methods of a ``RunHandle``."""

    def __init__(self, connection: HttpConnection, run_id: str) -> None:
        self.run_id = run_id
        self._connection = connection
        self._path = f"/api/runs/{run_id}"
        self._read: dict[str, str] = {}  # digests of the questions that this handle has returned, by id

    def __repr__(self) -> str:
        return f"RemoteRun({self.run_id!r})"

    async def describe(self) -> RunRow:
        """Return its row. Raises RunNotFound if there is no such run."""
        return run_row((await self._connection.get(self._path))["run"])

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
        """Return the open questions of the run, and of the runs below it; oldest first."""
        return self._note(await self._asked())

    async def _asked(self) -> list[InquiryRow]:
        return [inquiry_row(it) for it in (await self._connection.get(self._path))["inquiries"]]

    def _note(self, asked: list[InquiryRow]) -> list[InquiryRow]:
        """Note what the program reads: it is what an approval of this handle is for."""
        self._read |= {it.inquiry_id: it.digest for it in asked}
        return asked

    async def answer(self, verb: Verb, *, value: Any = None, reason: str = "", inquiry_id: str = "", digest: str = "") -> None:
        """Answer a question of the run; arguments and errors as of ``RunHandle.answer``. The token says who answers.

        ``digest`` is that of the question which the program has read; by default that of the question as ``inquiries``
        or ``result`` of this handle has returned it.
        """
        if not inquiry_id:
            asked = await self._asked()
            if len(asked) != 1:
                ids = ", ".join(it.inquiry_id for it in asked)
                problem = f"run {self.run_id} has {len(asked)} open questions; name one with inquiry_id="
                raise InvalidInput(problem + (f": {ids}" if ids else ""))
            inquiry_id = asked[0].inquiry_id
        digest = digest or self._read.get(inquiry_id, "")
        if verb in ("approve", "edit") and not digest:
            raise InvalidInput(
                f"this handle has not read {inquiry_id}, and {verb} is for what was read; read it by inquiries(), or give digest="
            )
        body = {"verb": verb, "value": value, "reason": reason, "digest": digest}
        await self._connection.post(f"/api/inquiries/{inquiry_id}/answer", body, key=secrets.token_hex(16))

    async def cancel(self, reason: str = "") -> None:
        """Cancel the run: running tasks are stopped, no new ones start. Raises Refused if it has ended."""
        await self._command({"command": "cancel", "reason": reason})

    async def pause(self, reason: str = "") -> None:
        """Pause the run: running tasks finish, no new ones start. Raises Refused if it has ended."""
        await self._command({"command": "pause", "reason": reason})

    async def resume(self) -> None:
        """Continue the run if it is paused."""
        if (await self.describe()).status == "paused":
            await self._command({"command": "unpause"})

    async def fork(self, at: int) -> RemoteRun:
        """Return the handle of a new run that begins as a copy of this one, up to an entry. Raises InvalidInput."""
        return RemoteRun(self._connection, await self._command({"command": "fork", "at": at}))

    async def retry(self, *tasks: str) -> RemoteRun:
        """Let failed and cancelled tasks run again; arguments, result and errors as of ``RunHandle.retry``."""
        run_id = await self._command({"command": "retry_failed", "tasks": tasks})
        return self if run_id == self.run_id else RemoteRun(self._connection, run_id)

    async def _command(self, body: Mapping[str, Any]) -> str:
        """Send a command; return the id of the run that it concerns, which may be a new one."""
        done = await self._connection.post(f"{self._path}/commands", body, key=secrets.token_hex(16))
        if done["verdict"] != "accepted":
            raise Refused(f"run {self.run_id}: the server has the command, but gave no verdict yet; see: asterism log {self.run_id}")
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


def run_row(data: Mapping[str, Any]) -> RunRow:
    """Return the row of a run from its JSON."""
    known = {name: data[name] for name in RunRow.__struct_fields__ if name in data}
    return RunRow(**known, owner="a process of the server's database" if data["driven"] else "")


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
