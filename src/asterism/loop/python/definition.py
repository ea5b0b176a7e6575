"""Orchestration loops as users define them, and the operations on their runs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from asterism.constellation.planner.model_choice import ModelChoice
from asterism.devices.fleet.fleet_file import DeviceEntry, DeviceKind, FleetContext
from asterism.devices.kinds.here import ChildDevice
from asterism.engine.control.children import StartChild, child_start, event_data
from asterism.engine.control.run_control import Cancel, Pause, Unpause, Verb
from asterism.engine.kernel.machine import Effect, Event, StartRequest
from asterism.engine.kernel.profile import ChildSpec
from asterism.engine.kernel.run import Run
from asterism.engine.ports.performer import Performer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.lookup import unfinished_runs
from asterism.engine.runtime.resources import open_resources
from asterism.engine.runtime.runtime import Runtime, current_runtime
from asterism.engine.runtime.snapshots import load
from asterism.errors import InvalidInput, Refused
from asterism.loop.machine.events import LoopDefinition, LoopSubmitted, StepOnce
from asterism.loop.machine.memory import LoopMemory
from asterism.loop.machine.model import Decision, LoopOptions, State, Step, worded
from asterism.loop.machine.steps import MAX_TITLE, USER
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.machine.view import LoopView
from asterism.loop.python.models import ModelName, last_outputs, planned_before, supervising
from asterism.loop.python.outcome import LoopResult, Supervising, Transition
from asterism.loop.python.performers import loop_performers, steps_of
from asterism.loop.python.source import cached_until_changed, definition_name, find, place_of_caller
from asterism.loop.python.toml import read_parts
from asterism.loop.python.worker import AnyWorker, ChildWorker, ModelWorker, Worker, WorkerFunction, check_async

_HERE: ContextVar[Mapping[str, OrchestrationLoop]] = ContextVar("asterism_loops_here", default=MappingProxyType({}))
"""Loops whose runs this task drives: their definitions need not be imported."""


class OrchestrationLoop:
    """A supervisor and its workers.

    Each supervising function may also be a model (``provider:name``, or one of pydantic-ai), which
    then gets a prompt of ours.

    Args:
        plan: makes and revises the plan: an async function of a :class:`LoopView` that returns
            steps; or the steps themselves.
        workers: by name: async functions of a ``Handoff``; ``Worker`` objects, to add options;
            models with tools; other loops and constellations, which run as children.
        reflect: returns one word (continue, replan, done, fail), or a ``Strategy``. Any other
            reply, or none, means continue, also after a failed step: reply fail to fail the loop.
            By default the loop continues unless a step has failed and no recovery strategy is left.
        synthesize: makes the final answer; by default the output of the last steps.
        critique: returns ok, or what to improve in the answer; by default the first answer is
            final.
        options: the limits.
        runtime: the runtime of its runs; by default that of ``asterism.open()``, else one over
            the default database.
        definition: ``module:name`` to find the loop again; by default its name in the module that
            creates it.

    Raises:
        InvalidInput: a function is not async, or a step, the workers, the options or a limit are
            invalid.
    """

    def __init__(
        self,
        *,
        plan: Supervising | Sequence[Any] | ModelName,
        workers: Mapping[str, AnyWorker | WorkerFunction | OrchestrationLoop],
        reflect: Supervising | ModelName | None = None,
        synthesize: Supervising | ModelName | None = None,
        critique: Supervising | ModelName | None = None,
        options: LoopOptions | None = None,
        runtime: Runtime | None = None,
        definition: str = "",
    ) -> None:
        _check_kind(workers, Mapping, "workers must be a mapping from names, as {'look': look}")
        _check_options(options or LoopOptions())
        self.steps: tuple[Step, ...] = ()
        self.plan: Supervising = planned_before
        if isinstance(plan, Sequence) and plan and not isinstance(plan, str):
            self.steps = steps_of(plan)
        else:
            self.plan = supervising(plan, "plan") or planned_before
        self.workers: Mapping[str, AnyWorker] = {name: _as_worker(it) for name, it in workers.items()}
        if USER in self.workers:
            raise InvalidInput(f"{USER!r} is the name of the person; give the worker another name")
        self._nested = tuple(it for it in workers.values() if isinstance(it, OrchestrationLoop))
        self.reflect: Supervising = supervising(reflect, "reflect") or self._unreflected
        self.synthesize: Supervising = supervising(synthesize, "synthesize") or last_outputs
        self.critique: Supervising | None = supervising(critique, "critique")
        named = (plan, reflect, synthesize, critique, *(it.model for it in self.workers.values() if isinstance(it, ModelWorker)))
        self.models = [it for it in named if isinstance(it, str | ModelChoice)]
        self.options = options or LoopOptions()
        self.last_run = ""
        self._runtime = runtime
        self._definition = definition
        self._place = place_of_caller()
        for what in ("plan", "reflect", "synthesize", "critique"):
            if (function := getattr(self, what)) is not None:
                check_async(function, what)

    @property
    def definition(self) -> str:
        """``module:name`` under which a resuming process finds the loop."""
        return self._definition or definition_name(self, self._place)

    def submitted(
        self, request: str, context: Mapping[str, Any] | None = None, *, definition: str = "", fleet_file: str = ""
    ) -> LoopSubmitted:
        """Return the event that starts a run. ``definition`` overrides the name of the loop."""
        return self._defined(definition).submitted(request, dict(context or {}), fleet_file=fleet_file)

    def _defined(self, definition: str = "", folder: Path | None = None) -> LoopDefinition:
        return LoopDefinition(
            definition=definition or self.definition,
            working_directory=str(folder or Path.cwd()),
            workers=tuple(worker.profile(name) for name, worker in self.workers.items()),
            options=self.options,
            plan=self.steps,
            has_critique=self.critique is not None,
        )

    def child(self, folder: Path | None = None, definition: str = "") -> ChildSpec:
        """Return the specification that starts this loop as a child run."""
        return ChildSpec(machine=ORCHESTRATION_LOOP.name, definition=event_data(self._defined(definition, folder)))

    def start(self, request: str, context: Mapping[str, Any] | None = None) -> StartChild:
        """Return the effect that starts this loop as a conversation's child.

        Use it in a handler: ``await self.child(key, loop.start(…))``.
        """
        start = StartRequest(definition=event_data(self._defined()), request=request, inputs=dict(context or {}))
        return child_start(ORCHESTRATION_LOOP.name, start, request[:MAX_TITLE])

    # -- runs --------------------------------------------------------------------------------------

    async def submit(self, request: str, *, context: Mapping[str, Any] | None = None, actor: str = "user", run_id: str = "") -> str:
        """Create a run without driving it; return its id.

        Raises:
            InvalidInput: a run with this id exists.
        """
        async with current_runtime(self._runtime) as runtime:
            first = self.submitted(request, context)
            submitted = await runtime.submit(ORCHESTRATION_LOOP, first, title=request[:MAX_TITLE], actor=actor, run_id=run_id)
        self.last_run = submitted
        return submitted

    async def run(self, request: str, *, context: Mapping[str, Any] | None = None, actor: str = "user", run_id: str = "") -> LoopResult:
        """Create a run and drive it until it ends or waits for people."""
        async with current_runtime(self._runtime) as runtime:
            return await self._driven(runtime, await self.submit(request, context=context, actor=actor, run_id=run_id))

    async def resume(self, run_id: str = "", *, runtime: Runtime | None = None) -> LoopResult:
        """Resume a run that waited, was paused or lost its process; by default the last one.

        Args:
            run_id: id of the run.
            runtime: the runtime that holds the run, if not this loop's.

        Raises:
            RunNotFound: there is no such run.
            RunOwned: another process drives the run; nothing was done.
            InvalidInput: the run is not a loop's, or the loop differs from the run's.
        """
        run_id = self._named(run_id)
        async with current_runtime(runtime or self._runtime) as there:
            memory = await memory_of(there, run_id)
            self.check(run_id, memory)
            if memory.paused:
                await there.post(run_id, Unpause(), actor="user", key=there.clock.new_id())
            return await self._driven(there, run_id)

    async def pause(self, run_id: str = "", *, reason: str = "") -> None:
        """Pause a run, by default the last one: running steps continue to their end, and ``resume`` continues the run."""
        await self._send(run_id, Pause(reason=reason))

    async def cancel(self, run_id: str = "", *, reason: str = "") -> None:
        """Cancel a run, by default the last one; raises Refused if it has ended."""
        await self._send(run_id, Cancel(reason=reason))

    async def _send(self, run_id: str, event: Event) -> None:
        async with current_runtime(self._runtime) as runtime:
            with self.here():
                await runtime.send(self._named(run_id), event, actor="user")

    async def step_once(self, run_id: str = "") -> Transition | None:
        """Drive a run by one transition; return None if it has ended or waits for a person."""
        run_id = self._named(run_id)
        async with current_runtime(self._runtime) as runtime:
            row = await runtime.store.run(run_id)
            if row.status == "ended":
                return None
            await runtime.post(run_id, StepOnce(), actor="user", key=runtime.clock.new_id())
            with self.here():
                await runtime.drive(run_id)
            state = row.state
            for record in await runtime.store.records(run_id, after=row.seq):
                if record.state != state:
                    source, target = State(state), State(record.state)
                    return Transition(run_id=run_id, seq=record.seq, at=record.at, source=source, target=target, cause=record.kind)
        return None

    async def stream(self, request: str = "", *, run_id: str = "") -> AsyncIterator[Transition]:
        """Drive a run, transition by transition. If the caller stops iterating, the run is paused.

        Args:
            request: starts a new run; empty to continue the given run, or this loop's last one.
            run_id: id of the run.
        """
        if request:
            run_id = await self.submit(request, run_id=run_id)
        while transition := await self.step_once(run_id):
            yield transition

    async def answer(self, inquiry_id: str, verb: Verb, *, value: Any = None, reason: str = "", actor: str = "user") -> None:
        """Answer a question of a run; ``resume`` then processes all answers at once.

        Raises:
            InvalidInput: the question does not exist, or does not accept this answer.
            Refused: the question is closed.
        """
        async with current_runtime(self._runtime) as runtime:
            await runtime.post_answer(inquiry_id, verb, actor=actor, value=value, reason=reason)

    async def deliver(self, key: str, value: Any, *, run_id: str = "", actor: str = "user") -> None:
        """Deliver the result of a step whose worker returned ``Later(key)``.

        Raises:
            Refused: the run waits for no result with this key.
        """
        run_id = self._named(run_id)
        async with current_runtime(self._runtime) as runtime:
            memory = await memory_of(runtime, run_id)
            for inquiry_id, inquiry in memory.inquiries.items():
                if inquiry.kind == "later" and inquiry.subject["awaits"] == key:
                    await runtime.post_answer(inquiry_id, "respond", actor=actor, value=value)
                    return
        raise Refused(f"run {run_id} waits for no result {key!r}")

    def check(self, run_id: str, memory: LoopMemory) -> None:
        """Check that this loop can resume a run whose journal has been replayed.

        Raises:
            InvalidInput: the run's loop has other workers, or a worker requires an approval that
                the run would not ask for.
        """
        if missing := [name for name in memory.workers if name not in self.workers]:
            raise InvalidInput(f"run {run_id} was started by {memory.definition}; this loop lacks its workers {', '.join(missing)}")
        for name, profile in memory.workers.items():
            if self.workers[name].requires_approval and not profile.requires_approval:
                raise InvalidInput(
                    f"worker {name} now requires approval, but run {run_id} was started before that. Cancel the run and start a new one"
                )

    # -- within ------------------------------------------------------------------------------------

    def _named(self, run_id: str) -> str:
        if not (run_id or self.last_run):
            raise InvalidInput("this loop has started no run; give a run_id, or start one with run or submit")
        return run_id or self.last_run

    async def _driven(self, runtime: Runtime, run_id: str) -> LoopResult:
        with self.here():
            row = await runtime.drive(run_id)
        memory, asked = await memory_of(runtime, run_id), await runtime.store.inquiries(root=run_id)
        return LoopResult(
            run_id=run_id,
            state=State(row.state),
            outcome=row.outcome,
            answer=memory.answer,
            reason=memory.reason,
            findings=worded(memory.findings),
            waiting=tuple(asked),
        )

    async def _unreflected(self, view: LoopView) -> str:
        """Continue, unless a step has failed and no recovery strategy is left."""
        lost = [it for it in view.latest if it.failed and view.signals.failures[it.step_id] > len(self.options.recovery)]
        return Decision.FAIL if lost else Decision.CONTINUE

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Let runs that are driven in this context find this definition without importing it."""
        token = _HERE.set({**_HERE.get(), **{loop.definition: loop for loop in self.family()}})
        try:
            yield
        finally:
            _HERE.reset(token)

    def family(self) -> tuple[OrchestrationLoop, ...]:
        """Return this loop and the loops that it starts as children."""
        return (self, *(loop for nested in self._nested for loop in nested.family()))


def _check_kind(given: object, kind: type, how: str) -> None:
    if not isinstance(given, kind):
        raise InvalidInput(f"{how}, not a {type(given).__name__}")


def _check_options(options: object) -> None:
    _check_kind(options, LoopOptions, "options must be LoopOptions(…)")
    try:
        msgspec.convert(msgspec.to_builtins(options), LoopOptions)
    except (TypeError, ValueError) as error:  # msgspec's are ValueErrors
        raise InvalidInput(f"options: {error}") from None


def _as_worker(given: AnyWorker | WorkerFunction | OrchestrationLoop) -> AnyWorker:
    if isinstance(given, OrchestrationLoop):
        return ChildWorker(given.child())
    return given if isinstance(given, AnyWorker) else Worker(given)


# -- where definitions are -------------------------------------------------------------------------


def find_loop(definition: str, folder: Path) -> OrchestrationLoop:
    """Import the loop that a definition names.

    Raises:
        InvalidInput: the loop is not found; one line with the name and the places searched.
    """
    if definition.endswith(".toml"):
        return OrchestrationLoop(**read_parts(folder / definition), definition=definition)
    try:
        found = find(definition, folder)
    except InvalidInput as error:
        raise InvalidInput(f"the loop {definition} cannot be found from {folder}: {error}") from error
    if not isinstance(found, OrchestrationLoop):
        raise InvalidInput(f"{definition} is not an OrchestrationLoop but a {type(found).__name__}")
    found._definition = found._definition or definition  # noqa: SLF001 - same class; it was found under this name
    return found


def definition_of(definition: str, folder: str, read: Callable[[str, Path], OrchestrationLoop] = find_loop) -> OrchestrationLoop:
    """Return a loop of the current context, else import it with ``read`` from its run's folder.

    Raises:
        InvalidInput: the loop cannot be found.
    """
    return _HERE.get().get(definition) or read(definition, Path(folder))


@contextlib.asynccontextmanager
async def open_performers() -> AsyncIterator[Mapping[type[Effect], Performer]]:
    """Open performers of all loop effects, for a driver, and close their resources at the end."""
    read_once = cached_until_changed(find_loop)  # steps look it up, and it may be large
    async with open_resources() as keeper:
        yield loop_performers(functools.partial(definition_of, read=read_once), keeper)


async def resume(run_id: str, *, runtime: Runtime | None = None) -> LoopResult:
    """Resume a run of a loop; the run names its definition.

    Raises:
        InvalidInput: the run is not a loop's, or its definition cannot be found.
    """
    async with current_runtime(runtime) as there:
        memory = await memory_of(there, run_id)
        loop = definition_of(memory.definition, memory.working_directory)
        return await loop.resume(run_id, runtime=there)


async def memory_of(client: Client, run_id: str) -> LoopMemory:
    """Return a run's memory, from its journal.

    Raises:
        RunNotFound: there is no such run.
        InvalidInput: it is no run of a loop.
    """
    row = await client.store.run(run_id)
    if row.machine != ORCHESTRATION_LOOP.name:
        raise InvalidInput(f"run {run_id} is not a loop's but of machine {row.machine!r}")
    live: Run[LoopMemory]
    live, _ = await load(client.store, ORCHESTRATION_LOOP, run_id)
    return live.memory


async def check_definitions(client: Client, root: RunRow) -> None:
    """Check that every loop in a tree of runs can be found and fits its run.

    Raises:
        InvalidInput: a loop is missing or has changed, or a journal does not replay. Names the run.
    """
    async for run_id, memory in unfinished_runs(client, root, ORCHESTRATION_LOOP.name):
        try:
            definition = definition_of(memory.definition, memory.working_directory)
        except InvalidInput as error:
            raise InvalidInput(f"run {run_id}: {error}; restore it, or cancel the run") from error
        try:
            definition.check(run_id, memory)
        except InvalidInput as error:
            raise InvalidInput(f"run {run_id}: {error}") from error


class AgentEntry(DeviceEntry, frozen=True, kw_only=True):
    """Table of a device of kind ``agent`` (a loop) in a fleet file.

    Attributes:
        loop: ``file.py:name``, ``module:name`` or ``file.toml``, relative to the folder of the
            fleet file.
    """

    loop: str


@contextlib.asynccontextmanager
async def _open(entry: AgentEntry, context: FleetContext) -> AsyncIterator[ChildDevice]:
    loop = find_loop(entry.loop, context.folder)
    described = "; ".join(it.description for it in loop.workers.values() if it.description)
    yield ChildDevice(entry, loop.child(context.folder, entry.loop), described)


AGENT = DeviceKind(AgentEntry, _open)
"""The device kind ``agent``; ``app.bootstrap.device_kinds`` lists it."""
