"""The handle of one run, of any machine, and the result of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal, Self

import msgspec

from asterism.constellation.machine.events import Retry
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.python.resumption import retry_ended
from asterism.devices.model.attempt import TaskError
from asterism.engine.control.run_control import Cancel, Pause, Unpause, Verb
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import InquiryRow, RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.journal_stream import POLL_S, follow
from asterism.engine.runtime.runs import Runs
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import InvalidInput, RunFailed, RunOwned
from asterism.views.delta import Delta
from asterism.views.view import unread_view

Outcome = Literal["finished", "failed", "cancelled", "waiting", "paused"]
"""``waiting``: only a person can move the run on; its questions are open."""


_EXIT_CODES: dict[Outcome, int] = {"finished": 0, "failed": 1, "waiting": 3, "paused": 130, "cancelled": 130}


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run that is no longer driven.

    Attributes:
        run_id: id of the run.
        outcome: how it ended, or why it has not.
        summary: the result in words.
        reason: why the run failed or was cancelled, in words; empty otherwise.
        results: results of the completed tasks of a constellation, by task id.
        errors: errors of its tasks that failed, were cancelled or were skipped, by task id; without
            ``on_failure`` tasks that did not have to run.
        value: result of the run as its parent run would get it: of a loop, ``value["answer"]``.
        inquiries: its open questions to people, including those of its child runs.
    """

    run_id: str
    outcome: Outcome
    summary: str = ""
    reason: str = ""
    results: dict[str, Any] = {}
    errors: dict[str, TaskError] = {}
    value: dict[str, Any] = {}
    inquiries: tuple[InquiryRow, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return the exit code of a program whose work was this run, as of the commands: 0 only if it finished."""
        return _EXIT_CODES[self.outcome]

    def raise_for_outcome(self) -> RunResult:
        """Return this result if the run finished.

        Raises:
            RunFailed: it did not.
        """
        if self.outcome != "finished":
            raise RunFailed(self.run_id, self.outcome, self.reason or "; ".join(it.prompt for it in self.inquiries))
        return self


class RunCommands:
    """The questions of one run, and the commands to it; a part of the handles.

    A run of a server is commanded by the token, whatever ``actor`` is.
    """

    def __init__(self, runs: Runs, run_id: str) -> None:
        self.run_id = run_id
        self._runs = runs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run_id!r})"

    async def inquiries(self) -> list[InquiryRow]:
        """Return the open questions of the run, and of the runs below it; oldest first."""
        return await self._runs.inquiries(root=self.run_id)

    async def _only_inquiry(self) -> str:
        """Return the id of the open question. Raises InvalidInput if there is none, or more than one."""
        asked = await self._runs.inquiries(root=self.run_id)
        if len(asked) != 1:
            ids = ", ".join(it.inquiry_id for it in asked)
            raise InvalidInput(f"run {self.run_id} has {len(asked)} open questions; name one with inquiry_id={f': {ids}' if ids else ''}")
        return asked[0].inquiry_id

    async def cancel(self, reason: str = "", *, actor: str = "user") -> None:
        """Cancel the run: running tasks are stopped, no new ones start.

        Raises:
            Refused: it has ended.
        """
        await self._runs.send(self.run_id, Cancel(reason=reason), actor=actor)

    async def pause(self, reason: str = "", *, actor: str = "user") -> None:
        """Pause the run: running tasks finish, no new ones start.

        Raises:
            Refused: it has ended.
        """
        await self._runs.send(self.run_id, Pause(reason=reason), actor=actor)

    async def fork(self, at: int, *, actor: str = "user") -> Self:
        """Return the handle of a new run that begins as a copy of this one, up to an entry of its journal.

        Raises:
            InvalidInput: there is no such entry.
        """
        return type(self)(self._runs, await self._runs.fork(self.run_id, at, actor=actor))


class RunHandle(RunCommands):
    """One run of a runtime: its result, its progress, and the commands to it.

    ``App.start`` and ``App.run_of`` return one.
    """

    def __init__(self, runtime: Runtime, run_id: str) -> None:
        super().__init__(runtime, run_id)
        self._runtime = runtime
        self._driving: asyncio.Future[RunRow] | None = None

    async def result(self) -> RunResult:
        """Drive the run, if no process does, until it ends or only a person can move it on; return its result.

        Raises:
            RunNotFound: there is no such run.
            UnknownMachine, RunNewer, JournalMismatch, StoreUnavailable: the run cannot be driven here.
        """
        while True:  # bounded by the run
            try:
                row = await asyncio.shield(self._driven())
            except RunOwned:
                row = await self._runtime.describe(self.run_id)
                if row.status == "active":
                    await asyncio.sleep(POLL_S)
                    continue
            return await result_of(self._runtime, row)

    def drive(self) -> None:
        """Drive the run in the background, while the runtime is open."""
        self._driving = self._driven()

    def _driven(self) -> asyncio.Future[RunRow]:
        if self._driving is None or self._driving.done():
            self._driving = self._runtime.driver.start(self.run_id)
        return self._driving

    async def progress(self) -> AsyncIterator[Delta]:
        """Yield the changes of the run, from its first entry on, until it ends or only a person can move it on."""
        row = await self._runtime.describe(self.run_id)
        form = self._runtime.form_of(row)
        view, unpack, seen = unread_view(form, self.run_id), packer(form.machine).unpack, 0
        while True:  # bounded by the run
            is_idle = await self._is_idle()  # before the entries: none is missed
            async for records in follow(self._runtime.store, self.run_id, seen, until_now=True):
                seen = records[-1].seq
                for delta in view.read(map(unpack, records)):
                    yield delta
            if is_idle:
                return
            await asyncio.sleep(POLL_S)

    async def answer(self, verb: Verb, *, value: Any = None, reason: str = "", inquiry_id: str = "", actor: str = "user") -> None:
        """Answer a question of the run, and continue it in the background.

        Args:
            verb: ``approve``, ``reject``, ``edit``, ``respond`` or another verb of the question.
            value: the new arguments of an ``edit``, or the value of a ``respond``.
            reason: why, for the journal.
            inquiry_id: the question, if the run has more than one open.
            actor: who answers.

        Raises:
            InvalidInput: no such question, or more than one, or it does not accept this answer.
            Refused: the question is closed, or the run rejected the answer.
        """
        inquiry_id = inquiry_id or await self._only_inquiry()
        sent = await self._runtime.post_answer(inquiry_id, verb, value=value, reason=reason, actor=actor)
        self.drive()
        await self._runtime.verdict(sent.run_id, sent.key)

    async def resume(self, *, actor: str = "user") -> None:
        """Continue the run in the background, also if it is paused."""
        row = await self._runtime.describe(self.run_id)
        if row.status == "paused":
            await self._runtime.post(self.run_id, Unpause(), actor=actor, key=self._runtime.clock.new_id())
        self.drive()

    async def retry(self, *tasks: str, actor: str = "user") -> RunHandle:
        """Let failed and cancelled tasks run again: these tasks and items, such as ``transform[3]``, or all.

        Returns:
            This handle; for a run that has ended, that of a new run, which has the results of the completed tasks.

        Raises:
            Refused: a task has not failed, or none has.
        """
        row = await self._runtime.describe(self.run_id)
        if row.status != "ended":
            await self._runtime.send(self.run_id, Retry(tasks=tasks), actor=actor)
            return self
        return RunHandle(self._runtime, await retry_ended(self._runtime, self.run_id, tasks, actor=actor))

    async def _is_idle(self) -> bool:
        row = await self._runtime.describe(self.run_id)
        return is_idle(row) and (row.status == "ended" or self._driving is None or self._driving.done())


def is_idle(row: RunRow) -> bool:
    """Return True if a run has ended, or nobody drives it and only a person can move it on."""
    return row.status == "ended" or (row.status != "active" and not row.owner)


async def result_of(client: Client, row: RunRow) -> RunResult:
    """Return the result of a run as it is now."""
    live = await client.load(row.run_id)
    asked = () if row.status == "ended" else tuple(await client.inquiries(root=row.run_id))
    return _result_of(row, live, asked)


def _is_unneeded(task: TaskStar) -> bool:
    return task.role == "on_failure" and task.status is TaskStatus.SKIPPED


def _result_of(row: RunRow, live: Run[Any], asked: tuple[InquiryRow, ...]) -> RunResult:
    memory = live.memory
    tasks = list(memory.constellation.in_order()) if isinstance(memory, ConstellationMemory) else []
    items = memory.constellation.in_order_with_items() if isinstance(memory, ConstellationMemory) else []
    failed = [task for task in items if task.item_of and task.status in (TaskStatus.FAILED, TaskStatus.CANCELLED)]
    value = memory.report()
    outcome = row.outcome if row.status == "ended" else row.status
    return RunResult(
        run_id=row.run_id,
        outcome=msgspec.convert(outcome, Outcome),
        summary=str(memory.result().get("summary") or ""),
        reason=str(value.get("reason", "")),
        results={task.task_id: task.result for task in tasks if task.status is TaskStatus.COMPLETED},
        errors={
            task.task_id: task.error for task in (*tasks, *failed) if task.settled and task.error is not None and not _is_unneeded(task)
        },
        value=value,
        inquiries=asked,
    )
