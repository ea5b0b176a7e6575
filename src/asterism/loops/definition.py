"""An orchestration loop as a user defines it, and what can be done with its runs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec

from asterism.constellation.profile import ChildSpec
from asterism.errors import InvalidInput, Refused
from asterism.kernel.machine import Effect
from asterism.kernel.run import Run
from asterism.kernel.start import StartRequest
from asterism.loops.models import ModelName, by_model
from asterism.loops.outcome import LoopResult, Supervising, Transition, result_of
from asterism.loops.performers import loop_performers, steps_of
from asterism.loops.resources import open_resources
from asterism.loops.source import find, kept_until_changed, place_of_caller, written
from asterism.loops.toml import read_parts
from asterism.loops.worker import AnyWorker, ChildWorker, ModelWorker, Worker, WorkerFunction, check_async
from asterism.machines.children import StartChild, child_start, event_data
from asterism.machines.orchestration_loop.definition import LoopDefinition
from asterism.machines.orchestration_loop.events import LoopSubmitted, StepOnce
from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.model import Decision, LoopOptions, State, Step
from asterism.machines.orchestration_loop.steps import MAX_TITLE, USER
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.machines.orchestration_loop.view import LoopView
from asterism.machines.run_control import Unpause, Verb
from asterism.planner.model_choice import ModelChoice
from asterism.runtime.client import Client
from asterism.runtime.current_runtime import current_runtime
from asterism.runtime.ports.performer import Performer
from asterism.runtime.runtime import Runtime
from asterism.runtime.snapshots import load
from asterism.stores.memory import MemoryStore, process_memory

_HERE: ContextVar[Mapping[str, OrchestrationLoop]] = ContextVar("asterism_loops_here", default=MappingProxyType({}))
"""The loops whose runs are being driven here: their definitions need not be imported."""


class OrchestrationLoop:
    """A supervisor and its workers.

    Each supervising function may also be a model (``provider:name``, or one of pydantic-ai): it is then asked with a prompt of ours.

    Args:
        plan: makes the plan, and makes it anew: an async function of a :class:`LoopView` that returns steps; or the steps themselves.
        workers: by name; async functions of a ``Handoff``, or ``Worker`` where something is to be said about one; models with tools;
            other loops and constellations, which are run as children.
        reflect: says one word (continue, replan, done, fail), or a ``Strategy``. Whatever else it says, or nothing at all, is taken for
            continue, also after a step that failed: say fail where that is to fail the loop. Without it the loop goes on unless a step
            has failed for good.
        synthesize: makes the final answer; without it, the answer is what the last steps have put out.
        critique: says ok, or what is to be better in the answer; without it, the first answer is the final one.
        options: the bounds.
        runtime: where its runs are; else the one of ``asterism.open()``, else one in memory.
        definition: ``module:name`` where it is found again; by default the name that it has in the module that makes it.

    Raises:
        InvalidInput: a function is not async, a step is none, the workers or options are something else, or a bound is none.
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
        _check_kind(workers, Mapping, "workers are given by name, as {'look': look}")
        _check_options(options or LoopOptions())
        self.steps: tuple[Step, ...] = ()
        self.plan: Supervising = _planned_before
        if isinstance(plan, Sequence) and not isinstance(plan, str):
            self.steps = steps_of(plan)
        else:
            self.plan = by_model(plan, "plan") or cast("Supervising", plan)
        self.workers: Mapping[str, AnyWorker] = {name: _as_worker(it) for name, it in workers.items()}
        if USER in self.workers:
            raise InvalidInput(f"{USER!r} is the person who is asked; give the worker another name")
        self._nested = tuple(it for it in workers.values() if isinstance(it, OrchestrationLoop))
        self.reflect: Supervising = by_model(reflect, "reflect") or reflect or self._unreflected
        self.synthesize: Supervising = by_model(synthesize, "synthesize") or synthesize or _last_outputs
        self.critique: Supervising | None = by_model(critique, "critique") or critique
        named = (plan, reflect, synthesize, critique, *(it.model for it in self.workers.values() if isinstance(it, ModelWorker)))
        self.models = [it for it in named if isinstance(it, str | ModelChoice)]
        self.options = options or LoopOptions()
        self.last_run = ""
        self._runtime = runtime
        self._definition = definition
        self._place = place_of_caller(1)
        for what, function in (
            ("plan", self.plan),
            ("reflect", self.reflect),
            ("synthesize", self.synthesize),
            ("critique", self.critique),
        ):
            if function is not None:
                check_async(function, what)

    @property
    def definition(self) -> str:
        """``module:name`` where whoever resumes a run finds it."""
        return self._definition or written(self, self._place)

    def submitted(
        self, request: str, context: Mapping[str, Any] | None = None, *, definition: str = "", fleet_file: str = ""
    ) -> LoopSubmitted:
        """The event that begins a run; ``definition`` is where it was found, where that is known better."""
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
        """This loop as what is started where something is carried out as a run of its own."""
        return ChildSpec(machine=ORCHESTRATION_LOOP.name, definition=event_data(self._defined(definition, folder)))

    def start(self, request: str, context: Mapping[str, Any] | None = None) -> StartChild:
        """How a conversation begins a run of this loop below itself: ``await self.child(key, loop.start(…))``."""
        start = StartRequest(definition=event_data(self._defined()), request=request, inputs=dict(context or {}))
        return child_start(ORCHESTRATION_LOOP.name, start, request[:MAX_TITLE])

    # -- runs --------------------------------------------------------------------------------------

    async def submit(self, request: str, *, context: Mapping[str, Any] | None = None, actor: str = "user", run_id: str = "") -> str:
        """Write a new run down, and drive it not yet; returns its id.

        Raises:
            InvalidInput: there is a run of that id.
        """
        async with self._at_hand() as runtime:
            first = self.submitted(request, context)
            self.last_run = await runtime.submit(ORCHESTRATION_LOOP, first, title=request[:MAX_TITLE], actor=actor, run_id=run_id)
        return self.last_run

    async def run(self, request: str, *, context: Mapping[str, Any] | None = None, actor: str = "user", run_id: str = "") -> LoopResult:
        """Take a request as far as it goes: to its end, or to where only people can move it on."""
        async with self._at_hand() as runtime:
            return await self._driven(runtime, await self.submit(request, context=context, actor=actor, run_id=run_id))

    async def resume(self, run_id: str = "", *, runtime: Runtime | None = None) -> LoopResult:
        """Go on with a run that waited, was paused, or whose process ended; by default the last one that was begun here.

        Args:
            run_id: its id.
            runtime: where it is, if not where this loop's runs are.

        Raises:
            RunNotFound: there is no such run.
            RunOwned: another process drives it; nothing was done.
            InvalidInput: it is no run of a loop, or of one that this is not.
        """
        run_id = self._named(run_id)
        async with self._at_hand(runtime) as there:
            memory = await memory_of(there, run_id)
            self.check(run_id, memory)
            if memory.paused:
                await there.post(run_id, Unpause(), actor="user", key=there.clock.new_id())
            return await self._driven(there, run_id)

    async def step_once(self, run_id: str = "") -> Transition | None:
        """Take a run one transition further, and no more; None where it has ended or waits for a person."""
        run_id = self._named(run_id)
        async with self._at_hand() as runtime:
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
        """Go on, transition by transition; whoever stops listening leaves the run paused there, to be resumed.

        Args:
            request: begins a new run; without it the given one goes on, or the last one that was begun here.
            run_id: an id.
        """
        if request:
            run_id = await self.submit(request, run_id=run_id)
        while transition := await self.step_once(run_id):
            yield transition

    async def answer(self, inquiry_id: str, verb: Verb, *, value: Any = None, reason: str = "", actor: str = "user") -> None:
        """Answer a question of a run; several can be answered before ``resume`` takes them in one go.

        Raises:
            InvalidInput: there is no such question, or it does not take this answer.
            Refused: it is not asked any more.
        """
        async with self._at_hand() as runtime:
            await runtime.post_answer(inquiry_id, verb, actor=actor, value=value, reason=reason)

    async def deliver(self, key: str, value: Any, *, run_id: str = "", actor: str = "user") -> None:
        """Bring the result of a step whose worker returned ``Later(key)``.

        Raises:
            Refused: the run waits for nothing of that key.
        """
        run_id = self._named(run_id)
        async with self._at_hand() as runtime:
            memory = await memory_of(runtime, run_id)
            for activity in memory.active.values():
                if activity.question.about == "later" and activity.question.awaits == key:
                    await runtime.post_answer(activity.question.inquiry_id, "respond", actor=actor, value=value)
                    return
        raise Refused(f"run {run_id} waits for no result {key!r}")

    def check(self, run_id: str, memory: LoopMemory) -> None:
        """See that this loop can go on with a run. That today's table can, its replay has shown.

        Raises:
            InvalidInput: the run was begun by a loop with other workers, or one of them needs a yes by now that nobody would be asked for.
        """
        if missing := [name for name in memory.workers if name not in self.workers]:
            raise InvalidInput(f"run {run_id} was begun by {memory.definition}, which has workers {', '.join(missing)}; this loop has not")
        for name, profile in memory.workers.items():
            if self.workers[name].requires_approval and not profile.requires_approval:
                raise InvalidInput(
                    f"run {run_id} was begun when worker {name} needed no approval, and would not ask for it; cancel it, and begin it anew"
                )

    # -- within ------------------------------------------------------------------------------------

    def _named(self, run_id: str) -> str:
        if not (run_id or self.last_run):
            raise InvalidInput("no run of this loop has begun; say which one, or begin one with run or submit")
        return run_id or self.last_run

    async def _driven(self, runtime: Runtime, run_id: str) -> LoopResult:
        with self.here():
            row = await runtime.drive(run_id)
        return result_of(row, await memory_of(runtime, run_id), await runtime.store.inquiries(root=run_id))

    async def _unreflected(self, view: LoopView) -> str:
        """What a loop without a reflection does: it goes on, unless a step has failed and no strategy is left for it."""
        lost = [it for it in view.latest if it.failed and view.signals.failures[it.step_id] > len(self.options.recovery)]
        return Decision.FAIL if lost else Decision.CONTINUE

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """What is driven within finds this definition without importing it."""
        token = _HERE.set({**_HERE.get(), **{loop.definition: loop for loop in self.family()}})
        try:
            yield
        finally:
            _HERE.reset(token)

    def family(self) -> tuple[OrchestrationLoop, ...]:
        """It, and the loops that it begins as children."""
        return (self, *(loop for nested in self._nested for loop in nested.family()))

    def _at_hand(self, given: Runtime | None = None) -> AbstractAsyncContextManager[Runtime]:
        return _runtime_of(given or self._runtime)


def _check_kind(given: object, kind: type, how: str) -> None:
    if not isinstance(given, kind):
        raise InvalidInput(f"{how}, not as a {type(given).__name__}")


def _check_options(options: object) -> None:
    _check_kind(options, LoopOptions, "options are given as LoopOptions(…)")
    try:
        msgspec.convert(msgspec.to_builtins(options), LoopOptions)
    except (TypeError, ValueError) as error:  # msgspec's are ValueErrors
        raise InvalidInput(f"options: {error}") from None


def _as_worker(given: AnyWorker | WorkerFunction | OrchestrationLoop) -> AnyWorker:
    if isinstance(given, OrchestrationLoop):
        return ChildWorker(given.child())
    return given if isinstance(given, AnyWorker) else Worker(given)


async def _planned_before(view: LoopView) -> list[Step]:  # noqa: ARG001 - as every planning function
    raise InvalidInput("the loop was given its steps, and has nobody who could make a new plan")


async def _last_outputs(view: LoopView) -> Any:
    """The answer of a loop without a synthesis: what the last steps have put out."""
    outputs = [finding.output for finding in view.latest]
    return outputs[0] if len(outputs) == 1 else outputs


# -- where definitions are -------------------------------------------------------------------------


def find_loop(definition: str, folder: Path) -> OrchestrationLoop:
    """Import the loop that a definition names.

    Raises:
        InvalidInput: there is none; one line that says what was looked for, and where.
    """
    if definition.endswith(".toml"):
        return OrchestrationLoop(**read_parts(folder / definition), definition=definition)
    try:
        found = find(definition, folder)
    except InvalidInput as error:
        raise InvalidInput(f"the loop {definition} cannot be found from {folder}: {error}") from error
    if not isinstance(found, OrchestrationLoop):
        raise InvalidInput(f"{definition} is no OrchestrationLoop but a {type(found).__name__}")
    found._definition = found._definition or definition  # noqa: SLF001 - it is ours, and was found under this name
    return found


def definition_of(definition: str, folder: str, read: Callable[[str, Path], OrchestrationLoop] = find_loop) -> OrchestrationLoop:
    """The loop of that definition: of those at hand, else imported by ``read``, from the folder where its run was started.

    Raises:
        InvalidInput: it cannot be found.
    """
    return _HERE.get().get(definition) or read(definition, Path(folder))


@contextlib.asynccontextmanager
async def open_performers() -> AsyncIterator[Mapping[type[Effect], Performer]]:
    """Performers of every effect of a loop, for a driver; what they open is closed at the end."""
    read_once = kept_until_changed(find_loop)  # it is looked for at every step, and may have all of them
    async with open_resources() as keeper:
        yield loop_performers(functools.partial(definition_of, read=read_once), keeper)


@contextlib.asynccontextmanager
async def _runtime_of(given: Runtime | None) -> AsyncIterator[Runtime]:
    async with (
        open_performers() as performers,
        current_runtime(
            given,
            store=lambda: MemoryStore(process_memory()),
            machines={ORCHESTRATION_LOOP.name: ORCHESTRATION_LOOP},
            performers=performers,
        ) as runtime,
    ):
        yield runtime


async def resume(run_id: str, *, runtime: Runtime | None = None) -> LoopResult:
    """Go on with a run of a loop whose definition is found where the run says.

    Raises:
        InvalidInput: it is no run of a loop, or its definition cannot be found.
    """
    async with _runtime_of(runtime) as there:
        memory = await memory_of(there, run_id)
        loop = definition_of(memory.definition, memory.working_directory)
        return await loop.resume(run_id, runtime=there)


async def memory_of(client: Client, run_id: str) -> LoopMemory:
    """What a run remembers, from its journal.

    Raises:
        RunNotFound: there is no such run.
        InvalidInput: it is no run of a loop.
    """
    row = await client.store.run(run_id)
    if row.machine != ORCHESTRATION_LOOP.name:
        raise InvalidInput(f"run {run_id} is of machine {row.machine!r}, and no loop")
    live: Run[LoopMemory]
    live, _ = await load(client.store, ORCHESTRATION_LOOP, run_id)
    return live.memory
