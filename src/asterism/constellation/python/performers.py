"""Performers of the constellation agent: attempts on devices, and requests to the planner."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import shutil
from collections import Counter
from collections.abc import Awaitable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from asterism.constellation.machine.events import (
    AttemptAttached,
    AttemptBegun,
    AttemptEnded,
    AttemptLooked,
    AttemptProgressed,
    AttemptQueued,
    AttemptStopped,
    ConstellationAgentStatus,
    Dispatch,
    LookAtAttempt,
    Planned,
    PlanningFailed,
    StopAttempt,
)
from asterism.constellation.machine.requests import PlannerRequest, StopRequest
from asterism.constellation.planner.port import Planner, PlanningUnavailable, Proposal
from asterism.devices.attempts.attempt_files import CURRENT, AttemptFiles, work_folder
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, Continuing, Device, DeviceQuestion, Dispatching, Stopping, finished
from asterism.engine.kernel.data import check_json, check_size, files_in, safe_name
from asterism.engine.kernel.machine import Effect, EffectResult
from asterism.engine.kernel.phrase import phrase
from asterism.engine.ports.files import Files
from asterism.engine.ports.performer import Performer, Report
from asterism.engine.ports.store import Store
from asterism.errors import InvalidInput

log = logging.getLogger("asterism.constellation.planner")

GRACE_S = 5.0
"""Seconds that a cancelled planner may take to end before it is left behind."""
MAX_HANDLE_BYTES = 4096
MAX_PROMPT_LENGTH = 10_000
"""Characters of a device's question."""
MAX_STATE_BYTES = 65_536
"""Bytes of the state, and of the schema, of a device's question."""


class _Dispatcher(Continuing, Dispatching, Stopping, Protocol):
    """Performs attempts, looks at those that wait for an answer, and ends those of remote devices."""


class _Signs:
    """Reports on one attempt to its run, as far as the journal does not say so yet."""

    def __init__(self, effect_id: str, request: Attempt, report: Report) -> None:
        self._effect_id = effect_id
        self._report = report
        self._is_queued = request.queued
        self._is_repeatable = request.repeatable
        self._begins_durably = request.begins_durably
        self._is_again = request.again
        self._handle = request.handle

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        self._report(AttemptProgressed(effect_id=self._effect_id, fraction=fraction, message=message))

    def queued(self, reason: str = "") -> None:
        if not self._is_queued and (self._is_repeatable or not self._is_again):  # else it may have begun under an earlier owner
            self._report(AttemptQueued(of=self._effect_id, reason=reason))
            self._is_queued = True
        elif reason:
            self.progress(message=reason)

    async def begun(self) -> None:
        if not self._is_queued:
            return
        recorded = self._report(AttemptBegun(of=self._effect_id))
        if recorded is not None and self._begins_durably:
            await recorded
        self._is_queued = False

    def attached(self, handle: str) -> Awaitable[None]:
        if len(handle.encode()) > MAX_HANDLE_BYTES:
            raise InvalidInput(f"the handle has more than {MAX_HANDLE_BYTES:,} bytes")
        self._is_queued = False
        is_new, self._handle = handle != self._handle, handle
        recorded = self._report(AttemptAttached(of=self._effect_id, handle=handle)) if is_new else None
        return recorded or finished()


class AttemptPerformer:
    """Performer of ``Dispatch``: dispatches attempts to devices."""

    def __init__(self, dispatcher: Dispatching) -> None:
        self._dispatcher = dispatcher

    async def perform(self, effect_id: str, request: Attempt, report: Report) -> EffectResult:
        """Perform one attempt, with the results of its direct predecessors."""
        end = await self._dispatcher.perform(request, _Signs(effect_id, request, report))
        try:
            _check_result(end.result)
            if end.question is not None:
                _check_question(end.question)
        except InvalidInput as odd:
            return AttemptEnded(effect_id=effect_id, error=TaskError(code="bad_result", message=str(odd)))
        if end.error is None and end.question is not None:
            return AttemptEnded(effect_id=effect_id, question=end.question)
        return AttemptEnded(effect_id=effect_id, result=end.result, error=end.error)


class StopPerformer:
    """Performer of ``StopAttempt``: ends attempts on remote devices."""

    def __init__(self, dispatcher: Stopping) -> None:
        self._dispatcher = dispatcher

    async def perform(self, effect_id: str, request: StopRequest, report: Report) -> EffectResult:
        """End one attempt, once this process performs it no longer."""
        return AttemptStopped(effect_id=effect_id, error=await self._dispatcher.stop(request.attempt, request.until))


class LookPerformer:
    """Performer of ``LookAtAttempt``."""

    def __init__(self, dispatcher: Continuing) -> None:
        self._dispatcher = dispatcher

    async def perform(self, effect_id: str, request: Attempt, report: Report) -> EffectResult:
        """Ask the device of an attempt whether it has gone on."""
        return AttemptLooked(effect_id=effect_id, gone_on=await self._dispatcher.has_gone_on(request))


def attempt_performers(dispatcher: _Dispatcher) -> dict[type[Effect], Performer]:
    """Return the performers of attempts, of looks at them, and of their end on remote devices, by kind of effect."""
    return {Dispatch: AttemptPerformer(dispatcher), LookAtAttempt: LookPerformer(dispatcher), StopAttempt: StopPerformer(dispatcher)}


class PlannerPerformer:
    """Performer of ``AskPlanner``: sends requests to the planner.

    With a time limit, use it as ``async with PlannerPerformer(…)``. Leaving the block waits for planners
    that were left behind, as that of a dispatcher waits for attempts.

    Args:
        planner: the planner.
        timeout_s: seconds for one answer; None for a planner that has a limit of its own.
    """

    def __init__(self, planner: Planner, timeout_s: float | None = None) -> None:
        self._planner = planner
        self._timeout_s = timeout_s
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._group.__aexit__(None, None, None)  # without the error, which a group would wrap

    async def perform(self, effect_id: str, request: PlannerRequest, report: Report) -> EffectResult:
        """Make one request, with the facts at the time it was issued."""
        try:
            asked = self._planner.propose(request) if self._timeout_s is None else self._bounded(request, self._timeout_s)
            proposal: object = await asked  # a program's own planner may return anything
        except PlanningUnavailable as unavailable:
            return PlanningFailed(
                effect_id=effect_id, code=unavailable.code, reason=str(unavailable), usage=unavailable.usage, notes=unavailable.notes
            )
        if not isinstance(proposal, Proposal):
            reason = phrase("not_a_proposal", type=type(proposal).__name__)
            return PlanningFailed(effect_id=effect_id, code="invalid_reply", reason=reason)
        fields = msgspec.structs.asdict(proposal)
        planned = Planned(effect_id=effect_id, **{**fields, "status": ConstellationAgentStatus(proposal.status)})
        try:
            _check_planned(planned)
        except InvalidInput as error:
            return PlanningFailed(effect_id=effect_id, code="invalid_reply", reason=str(error), usage=proposal.usage)
        return planned

    async def _bounded(self, request: PlannerRequest, timeout_s: float) -> Proposal:
        asked = self._group.create_task(self._asked(request), name=f"planner {request.key}")
        try:
            await asyncio.wait({asked}, timeout=timeout_s)
        except asyncio.CancelledError:
            await self._stop(asked)
            raise
        if not asked.done():
            notes = await self._stop(asked)
            raise PlanningUnavailable(f"the planner has not answered within {timeout_s:g} s", "timeout", notes=notes)
        answer = asked.result()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def _asked(self, request: PlannerRequest) -> Proposal | BaseException:
        try:
            return await self._planner.propose(request)
        except (Exception, SystemExit) as error:  # boundary: returned, since a task that raises it would end its group
            return error

    async def _stop(self, asked: asyncio.Task[Any]) -> tuple[str, ...]:
        """Cancel a request; return a note if the planner has not ended within the grace period."""
        asked.cancel()
        await asyncio.wait({asked}, timeout=GRACE_S)
        if asked.done():
            return ()
        note = f"the planner was cancelled, has not ended after {GRACE_S:g} s, and may still be running"
        log.warning(note)
        return (note,)


def _check_result(result: object) -> None:
    """Check the result of an attempt, for every kind of device: the journal has to hold it.

    Raises:
        InvalidInput: it is not JSON, too deep, or has more than ``MAX_BYTES``.
    """
    check_json(result, "the result")
    check_size(msgspec.json.encode(result), "the result")


def _check_question(question: DeviceQuestion) -> None:
    """Check a device's question, which the journal and the inbox have to hold.

    Raises:
        InvalidInput: a part of it has another type, is not JSON, or is too long.
    """
    try:
        question = msgspec.convert(msgspec.to_builtins(question), DeviceQuestion)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the question of the device is invalid: {error}") from None
    if not set(question.verbs) & {"approve", "respond"} or set(question.verbs) - {"approve", "respond", "reject"}:
        accepts = ", ".join(question.verbs) or "no answer"
        raise InvalidInput(f"the question of the device accepts {accepts}; it must accept respond or approve, and can accept reject")
    if not 0 < len(question.prompt) <= MAX_PROMPT_LENGTH:
        raise InvalidInput(f"the question of the device has {len(question.prompt):,} characters; 1 to {MAX_PROMPT_LENGTH:,} are allowed")
    for name, value in (("state", question.state), ("schema", question.schema)):
        check_json(value, f"the {name} of the device's question")
        if (size := len(msgspec.json.encode(value))) > MAX_STATE_BYTES:
            raise InvalidInput(f"the {name} of the device's question has {size:,} bytes, and the limit is {MAX_STATE_BYTES:,}")


def _check_planned(planned: Planned) -> None:
    """Check that an answer of the planner survives a round trip through the journal.

    Raises:
        InvalidInput: a part of it is not valid JSON; the text names the part.
    """
    texts = [planned.thought, planned.observation, planned.prompt, planned.reply, *planned.notes]
    tasks = [[spec.inputs, spec.constellation] for spec in planned.plan.tasks] if planned.plan else []
    check_json([texts, list(planned.actions), planned.result, tasks], "the planner's answer")


_performing: Counter[Path] = Counter()
"""The attempts that this process performs, by its folder."""


def with_files(
    performers: Mapping[type[Effect], Performer], files: Files, store: Store, devices: Mapping[str, Device], database: Path
) -> dict[type[Effect], Performer]:
    """Return performers of which that of attempts gives each one its files."""
    folder = work_folder(database)
    return {kind: FilePerformer(it, files, store, devices, folder) if kind is Dispatch else it for kind, it in performers.items()}


class FilePerformer:
    """A performer of attempts that gives each one its files.

    Args:
        performer: performs the attempts.
        files: the files of all runs.
        store: has the roots of runs.
        devices: by id.
        folder: the folder with those of the attempts.
    """

    def __init__(self, performer: Performer, files: Files, store: Store, devices: Mapping[str, Device], folder: Path) -> None:
        self._performer = performer
        self._files = files
        self._store = store
        self._devices = devices
        self._folder = folder

    async def perform(self, effect_id: str, request: Any, report: Report) -> EffectResult:
        """Perform an attempt, unless its device cannot be handed a file; its folder is removed at its end."""
        if refusal := self._refusal(request):
            return AttemptEnded(effect_id=effect_id, error=TaskError(code="bad_arguments", message=refusal))

        folder = self._folder / hashlib.sha256(request.key.encode()).hexdigest()[:32]
        token = CURRENT.set(AttemptFiles.of(effect_id, self._files, self._store, folder))
        _performing[self._folder] += 1
        try:
            return await self._performer.perform(effect_id, request, report)
        finally:
            CURRENT.reset(token)
            there = folder.exists()
            try:
                if there:
                    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            finally:
                _performing[self._folder] -= 1
                if there and not _performing[self._folder]:  # else another attempt may be making its own folder in it
                    with contextlib.suppress(OSError):
                        self._folder.rmdir()

    def _refusal(self, attempt: Attempt) -> str:
        """Return why the device of an attempt cannot be handed one of its files; empty if it can."""
        device = self._devices.get(attempt.device_id)
        most = device.profile.file_bytes if device else None
        for it in files_in(attempt.arguments) if most is not None else ():
            name = safe_name(it.get("name"))
            if not most:
                return f"device {attempt.device_id} takes no files, and an argument names the file {name}"
            if not isinstance(size := it.get("size"), int) or size > most:
                return f"device {attempt.device_id} takes files of {most:,} bytes at most, and {name} has {size}"
        return ""
