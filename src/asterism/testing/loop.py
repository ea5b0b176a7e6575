"""Deterministic asyncio: virtual time, a seeded order of runnable tasks, deadlocks found at once.

``SimLoop`` is a selector event loop with four parts exchanged:

- its *selector* never waits. Where the loop would sleep until its next timer, it moves the clock there.
  Where nothing is runnable and there is no timer either, it raises ``Deadlock``.
- its *ready queue* picks, among the task steps at its head, one by the seed. Other callbacks (timers,
  done callbacks) stay first in, first out, because asyncio itself relies on that order.
- its *tasks* hash by a number counted per loop. Sets of tasks (a task group's, ``asyncio.wait``'s) would
  otherwise be walked in the order of memory addresses, which differ from process to process.
- its *executor* runs the function at once: threads are not deterministic. pydantic-ai, which would start its own
  threads for plain functions, is configured to use it.

So one seed is one schedule, under any PYTHONHASHSEED and in any process, as long as nothing under the
loop reads a real clock, draws real chance, or waits for a real socket, pipe or thread.

It uses three undocumented parts of asyncio: the attribute ``BaseEventLoop._ready`` (a deque, from 3.4 on,
read with ``popleft``), ``BaseEventLoop._clock_resolution``, and ``CallHandler._callback``, whose ``__self__`` is
the task when the handle is the step of a task. ``tests/unit/testing/test_loop.py`` fails if one disappears.

Not here: the simulated world (devices, faults, checkers).
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import gc
import itertools
import random
import selectors
import sys
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from asterism.errors import InvalidInput

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DEFAULT_MAX_STEPS = 20_000_000
TICK_DIGITS = 6
"""Digits of a tick, a microsecond. With a finer clock, a task that waits for the rest of a rounded time would spin."""
CHOICE_WINDOW = 64
"""Handles of the ready queue that a choice considers; it bounds the cost of a step when thousands are runnable."""


class Deadlock(RuntimeError):
    """Nothing is runnable and no timer is set; the text names every waiting task and its position."""


class Endless(RuntimeError):
    """The loop took more steps than allowed: a task spins."""


class _Ready(collections.deque[asyncio.Handle]):
    """The loop's queue of runnable handles; ``popleft`` chooses among leading task steps."""

    def __init__(self, handles: collections.deque[asyncio.Handle], rng: random.Random, max_steps: int) -> None:
        super().__init__(handles)
        self.rng = rng
        self.max_steps = max_steps
        self.steps = 0

    def popleft(self) -> asyncio.Handle:
        self.steps += 1
        if self.steps > self.max_steps:
            self.steps = 0  # so that the tasks can still be cancelled and the loop closed
            message = f"more than {self.max_steps} steps: a task spins, or the simulation needs a larger max_steps"
            raise Endless(message)
        candidates = 0
        for handle in self:
            if candidates == CHOICE_WINDOW or not _is_task_step(handle):
                break
            candidates += 1
        chosen = self.rng.randrange(candidates) if candidates > 1 else 0
        self.rotate(-chosen)
        handle = super().popleft()
        self.rotate(chosen)
        return handle


def _is_task_step(handle: asyncio.Handle) -> bool:
    return isinstance(getattr(getattr(handle, "_callback", None), "__self__", None), asyncio.Task)


class _Selector(selectors.SelectSelector):
    """Polls real descriptors (the loop's own self-pipe is one) and moves the virtual clock instead of waiting."""

    loop: SimLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is None:
            raise Deadlock(_waiting(self.loop))
        self.loop.advance(timeout)
        return events


def _waiting(loop: SimLoop) -> str:
    tasks = sorted((task for task in asyncio.all_tasks(loop) if not task.done()), key=hash)
    lines = [f"\n  {task.get_name()}: {_place(task)}" for task in tasks]
    return f"at {loop.time():g} s nothing is runnable and no timer is set; waiting:{''.join(lines) or ' no task'}"


def _place(task: asyncio.Task[Any]) -> str:
    """Return the coroutines from the task's outermost to the waiting one, with the line at which it waits."""
    awaited: Any = task.get_coro()
    names: list[str] = []
    line = 0
    while hasattr(awaited, "cr_frame") and len(names) < CHOICE_WINDOW:
        names.append(awaited.__qualname__)
        line = awaited.cr_frame.f_lineno if awaited.cr_frame else line
        awaited = awaited.cr_await
    return f"{' > '.join(names)}, line {line}"


class _SimTask(asyncio.Task[T]):
    """A task whose hash is its number in its loop."""

    def __init__(self, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], *, serial: int, **options: Any) -> None:
        self._serial = serial  # first: asyncio puts the task into a set while it is being made
        super().__init__(coro, **{**options, "name": options.get("name") or f"Task-{serial}"})

    def set_name(self, value: object) -> None:
        """Set the name; None, which Python 3.13 passes for a task without a name, keeps the number."""
        if value is not None:
            super().set_name(value)

    def __hash__(self) -> int:
        return self._serial


class SimLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time.

    Args:
        seed: seed of the schedule; or a ``random.Random`` to draw it from (hypothesis has one that shrinks).
        max_steps: maximum number of steps; one more raises ``Endless``.
    """

    _ready: collections.deque[asyncio.Handle]
    _clock_resolution: float

    def __init__(self, seed: int | random.Random = 0, *, max_steps: int = DEFAULT_MAX_STEPS) -> None:
        self._now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self.rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        self._ready = _Ready(self._ready, self.rng, max_steps)
        self._clock_resolution = 1e-9
        self._serials = itertools.count(1)
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Return virtual seconds since the event loop was created."""
        return self._now

    def advance(self, duration_s: float) -> None:
        """Move the clock forward, as the selector does; timers that have become due run next."""
        self._now = round(self._now + duration_s, TICK_DIGITS)

    def call_at(self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> asyncio.TimerHandle:
        """Schedule a callback at a time rounded to a tick. A time ahead of the clock stays at least one tick ahead."""
        tick = round(when, TICK_DIGITS)
        if tick <= self._now < when:
            tick = round(self._now + 10.0**-TICK_DIGITS, TICK_DIGITS)
        return super().call_at(tick, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run the function now, in this thread; the returned future is done."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # boundary: as in a thread pool, the future reports it
            future.set_exception(error)
        return future

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return _SimTask(coro, serial=next(self._serials), loop=loop, **options)


def run(coro: Coroutine[Any, Any, T], seed: int | random.Random = 0, *, max_steps: int = DEFAULT_MAX_STEPS) -> T:
    """Run a coroutine on a new ``SimLoop``, as ``asyncio.run`` does; the same seed gives the same schedule.

    Raises:
        InvalidInput: an event loop is running.
        Deadlock, Endless: as in ``SimLoop``; also every error of the coroutine.
    """
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        coro.close()
        raise InvalidInput(
            "a world has an event loop of its own, in virtual time, and cannot run in one that is running; "
            "run it in a thread: await asyncio.to_thread(world.run, plan)"
        )
    collects = gc.isenabled()
    gc.disable()  # it would finalize at a moment that no seed has chosen
    try:
        with _threadless(), asyncio.Runner(loop_factory=lambda: SimLoop(seed, max_steps=max_steps)) as runner:
            return runner.run(coro)
    finally:
        if collects:
            gc.enable()


def _threadless() -> contextlib.AbstractContextManager[None]:
    """Make pydantic-ai, if it is imported, use the loop's executor: virtual time would pass before a real thread starts."""
    if "pydantic_ai" not in sys.modules:
        return contextlib.nullcontext()
    from pydantic_ai import Agent  # noqa: PLC0415 - takes a second, and is an extra

    return Agent.using_thread_executor(concurrent.futures.Executor())  # the loop ignores the executor
