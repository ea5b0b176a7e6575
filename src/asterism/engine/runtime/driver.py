"""The driver: it acquires runs, delivers their inbox rows and device notices, and releases them.

One driver serves many runs at once. It may be killed at any moment: the next owner of a run replays
its journal and recovers its open effects. A new run is started in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from asterism.engine.control.children import SignalChild, StartChild
from asterism.engine.control.waits import WaitFor
from asterism.engine.kernel.journal import Entry, check_whole, version_of
from asterism.engine.kernel.machine import Effect, Event
from asterism.engine.kernel.run import Run
from asterism.engine.ports.observer import Observer
from asterism.engine.ports.performer import TENANT, Performer
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.children import ChildPerformer, SignalPerformer
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.events import match_events
from asterism.engine.runtime.form import Form, form_of, idle_kinds
from asterism.engine.runtime.problems import problem_of
from asterism.engine.runtime.releases import Releases
from asterism.engine.runtime.run_executor import RunExecutor
from asterism.engine.runtime.snapshots import INTERVAL_CHARS, SnapshotPolicy, load
from asterism.engine.runtime.task_group import task_group
from asterism.errors import InvalidInput, RunOwned, StaleOwner, StoreUnavailable

MAX_WARM_RUNS = 500
"""Submitted runs that stay in memory until they are driven. Beyond this number the oldest is dropped,
and later read from its journal."""
MAX_TREE = 1_000_000
"""Runs of one tree that are checked before it is driven."""
LOOK_S = 1.0
"""The longest time between two looks whether a run that waits is due."""
POLL_S = 0.2
"""Seconds between two reads of the inbox, for rows from other processes."""


class Driver:
    """Drives runs. Enter ``opened()`` first: the driver's tasks live in that context.

    Args:
        forms: forms that it can drive, by the name of their machine; the driver adds the performers for child runs.
        observers: notified of everything that is appended.
        reap: called before recovery, if the root had an owner before; ends processes that a dead
            owner left behind.
        initial_events: returns events for a run right after each acquisition, as (event, actor): a
            ``DeviceLost`` for each lost device.
        owner: name of this driver in ``OwnershipAcquired``.
        poll_s: seconds between two reads of the inbox.
        snapshot_interval_chars: minimum number of journal characters between two snapshots of a run.

    Attributes:
        starters: ids of the effects that started the children driven here, by the child's id.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        forms: Mapping[str, Form],
        observers: Sequence[Observer] = (),
        reap: Callable[[], object] = lambda: None,
        initial_events: Callable[[], Iterable[tuple[Event, str]]] = tuple,
        owner: str = "",
        poll_s: float = POLL_S,
        snapshot_interval_chars: int = INTERVAL_CHARS,
    ) -> None:
        self.store = store
        self.clock = clock
        self.forms = forms
        children: dict[type[Effect], Performer] = {StartChild: ChildPerformer(self), SignalChild: SignalPerformer(self)}
        self._performers = {name: {**form.performers, **children} for name, form in forms.items()}
        self._observers = list(observers)
        self._reap = reap
        self._news = initial_events
        self._owner = owner
        self._process = os.getpid()
        self._poll_s = poll_s
        self._spacing = snapshot_interval_chars
        self._executors: dict[str, RunExecutor] = {}
        self._group: asyncio.TaskGroup | None = None
        self._started: set[asyncio.Task[None]] = set()
        self.starters: dict[str, str] = {}
        self._warm: dict[str, Run[Any]] = {}
        self._inbox_wakeup = asyncio.Event()
        self._has_runs = asyncio.Event()
        self._releases = Releases(store, clock, self._executors, self.warn)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Driver]:
        """Open the driver and poll the inbox; leaving cancels everything and releases all runs."""
        async with task_group() as group:
            poller = group.create_task(self._poll_inbox(), name="inbox poller")
            self._group = group
            try:
                yield self
            finally:
                self._group = None
                for task in (poller, *self._started):
                    task.cancel()

    def submitted(self, live: Run[Any]) -> None:
        """Remember a run that this process wrote, so that its first owner need not replay it."""
        self._warm[live.id] = live
        if len(self._warm) > MAX_WARM_RUNS:
            del self._warm[next(iter(self._warm))]

    def observe(self, observer: Observer) -> None:
        """Add an observer."""
        self._observers.append(observer)

    def unobserve(self, observer: Observer) -> None:
        """Remove an observer; one that failed was removed already."""
        if observer in self._observers:
            self._observers.remove(observer)

    def notify(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Notify the observers of entries that are durable now.

        One that fails is removed with a warning.
        """
        self._report(run_id, lambda observer: observer.appended(run_id, entries))

    def warn(self, run_id: str, message: str) -> None:
        """Report to the observers a problem that the driver is dealing with. One that fails is removed with another warning."""
        self._report(run_id, lambda observer: observer.trouble(run_id, message))

    def _report(self, run_id: str, call: Callable[[Observer], None]) -> None:
        for observer in tuple(self._observers):
            if observer not in self._observers:
                continue  # it has failed meanwhile
            try:
                call(observer)
            except Exception as error:  # boundary: an observer must not end the run that it watches
                self.unobserve(observer)
                self.warn(run_id, f"{type(observer).__name__} failed and is no longer notified: {type(error).__name__}: {error}")

    def announce(self, event: Event, actor: str) -> None:
        """Send an event to every run that is driven here, such as ``DeviceLost``."""
        for executor in self._executors.values():
            executor.arrive(event, actor)

    def live(self, run_id: str) -> Run[Any] | None:
        """Return the live state of a run that is driven here, read-only; None for any other."""
        executor = self._executors.get(run_id)
        return executor.run if executor else None

    def wake_inbox(self) -> None:
        """Read the inbox now rather than at the next poll."""
        self._inbox_wakeup.set()

    async def drive(self, run_id: str, *, park: bool = True, waits: bool = True) -> RunRow:
        """Acquire a run and its children, and drive it as far as it goes. While it only waits for a time, nobody owns it.

        Args:
            run_id: id of the run; for a child, its root is driven.
            park: return when the run waits for people; else return when it has ended.
            waits: False to return also when it waits for a time or an event.

        Returns:
            The row of the run that was driven: status ``ended``, or (with ``park``) ``waiting`` or
                ``paused``.

        Raises:
            RunNotFound, RunOwned, StaleOwner, StoreUnavailable, JournalMismatch: as named.
            UnknownMachine: this program lacks the machine of the run, or of a run below it; nothing
                is written.
            RunNewer: a newer program has written to the run, or to a run below it; nothing is
                written or performed. (In an imported tree that nobody has driven yet, a run below
                the root is checked only when it is acquired.)
        """
        row = await self.store.run(run_id)
        if row.root != run_id:
            row = await self.store.run(row.root)
        await self.check_tree(row)
        if row.status == "ended" and not await self.store.inbox([row.run_id]):
            return row
        is_left = True
        while is_left:  # bounded: each round, something arrived at the moment of the release
            _, is_left = await self._own(row, park=park)
            row = await self.store.run(row.run_id)
            is_left = is_left or (waits and await self._has_become_due(row))
        return row

    async def _has_become_due(self, row: RunRow) -> bool:
        """Wait until a run that waits for nobody is due again; return False at once for any other run."""
        seen_epoch = -1
        while row.status == "waiting" and not row.owner:
            awaits_event = bool(await self.store.inquiries(root=row.run_id, events=True))
            if await self.store.inquiries(root=row.run_id) or not (awaits_event or row.due_at):
                return False
            if awaits_event:
                await self.match_events()
            if row.epoch != seen_epoch:  # another process may have owned it and died: acquiring nothing makes its runs due
                seen_epoch = row.epoch
                await self.store.acquire_due(0, fleets=(), now=self.clock.now(), idle_kinds=idle_kinds(self.forms.values()))
            row = await self.store.run(row.run_id)
            wait_s = LOOK_S if row.due_at is None else row.due_at - self.clock.now()
            if wait_s <= 0:
                return True
            await asyncio.sleep(min(wait_s, LOOK_S))
            row = await self.store.run(row.run_id)
        return False

    async def match_events(self) -> None:
        """Give events to the waits of runs."""
        await match_events(self.store, self.clock, self.forms)

    async def drive_acquired(self, row: RunRow, check: Callable[[RunRow], Awaitable[None]], *, grace_s: Callable[[], float]) -> None:
        """Drive a root run that this process has acquired (``Store.acquire_due``) until it parks or ends.

        A problem becomes part of the run's row, and the run is due again after a growing delay. When
        this is cancelled, the run is released: what ends until then is recorded, nothing new starts,
        and work that must not be repeated has a while to end.

        Args:
            row: the row of the run, as the acquisition has returned it.
            check: raises an error if this program cannot drive the run.
            grace_s: returns the seconds for the work under way when this is cancelled; it may return fewer later.
        """
        if self._group is None:
            raise InvalidInput("this driver is closed")
        driving = self._group.create_task(self._driven(row, check), name=f"drives {row.run_id}")
        self._started.add(driving)
        driving.add_done_callback(self._started.discard)
        try:
            await asyncio.shield(driving)
        except asyncio.CancelledError:
            try:
                await self._releases.drain(row.run_id, grace_s)
            finally:
                driving.cancel()
                await asyncio.wait([driving])
            raise

    async def _driven(self, row: RunRow, check: Callable[[RunRow], Awaitable[None]]) -> None:
        try:
            await self._releases.until_gone(row)
            _, is_left = await self._own(row, park=True, acquired=check)
            if is_left:
                await self.drive(row.run_id, waits=False)
        except (RunOwned, StaleOwner):  # another process drives it
            return
        except Exception as error:  # boundary: the row of the run has it, and other runs continue
            self.warn(row.run_id, problem_of(error))

    @property
    def driven(self) -> list[str]:
        """Return the ids of the runs that are driven here, without those below them."""
        return [run for run in self._executors if run not in self.starters]

    @property
    def is_open(self) -> bool:
        """Return True within ``opened()``."""
        return self._group is not None

    def check_process(self) -> None:
        """Check that this process has opened the driver.

        Raises:
            InvalidInput: it is a fork of the one that has.
        """
        if os.getpid() != self._process:
            raise InvalidInput(f"process {self._process} opened this runtime before it forked this one; open another one here")

    def start(self, run_id: str) -> asyncio.Future[RunRow]:
        """Drive a run in a task of its own while this driver is open; return its future row."""
        self.check_process()
        if self._group is None:
            raise InvalidInput("this runtime is closed; use it within its `async with asterism.open()`")
        end: asyncio.Future[RunRow] = asyncio.get_running_loop().create_future()
        end.add_done_callback(lambda it: it.cancelled() or it.exception())  # nobody has to await it

        async def driven() -> None:
            try:
                row = await self.drive(run_id)
            except asyncio.CancelledError:
                end.cancel()
                raise
            except Exception as error:  # boundary: the future has it, and other runs continue
                if not end.done():
                    end.set_exception(error)
            else:
                if not end.done():
                    end.set_result(row)

        task = self._group.create_task(driven(), name=f"drives {run_id}")
        self._started.add(task)
        task.add_done_callback(self._started.discard)
        return end

    async def drive_child(self, run_id: str, on_blocked: Callable[[bool], None]) -> Run[Any]:
        """Drive a child to its end, and return it; ``on_blocked`` as in ``RunExecutor``."""
        row = await self.store.run(run_id)
        if row.status == "ended":
            live, _ = await load(self.store, form_of(row, self.forms).machine, run_id, self._spacing)
            return live
        while True:
            try:
                return (await self._own(row, park=False, on_blocked=on_blocked))[0]
            except RunOwned:  # by a process that has lost the root and is about to release the child
                await asyncio.sleep(self._poll_s)

    async def check_tree(self, root: RunRow) -> None:
        """Check that this program can drive every run of a tree.

        Raises:
            UnknownMachine: this program lacks one of the machines, and nobody drives the tree.
            RunOwned: it lacks one, and another process drives the tree; that process accepts what
                is sent.
            RunNewer: a newer program has written to one of the runs.
        """
        is_new = not root.epoch and root.seq == 1  # then it has no children; an imported tree may have some
        below = [] if is_new else await self.store.runs(root=root.run_id, limit=MAX_TREE)
        for row in (root, *below):
            if row.machine not in self.forms and row is not root and row.status == "ended":
                continue
            if row.machine not in self.forms and root.owner:
                raise RunOwned(root.run_id, root.owner)
            form_of(row, self.forms)

    async def _own(
        self,
        row: RunRow,
        *,
        park: bool,
        on_blocked: Callable[[bool], None] = lambda _: None,
        acquired: Callable[[RunRow], Awaitable[None]] | None = None,
    ) -> tuple[Run[Any], bool]:
        """Acquire a run and drive it; return the run, and what ``RunExecutor.drive`` returned.

        ``acquired`` is the check of a run that has been acquired already.
        """
        run = row.run_id
        if run in self._executors:
            raise RunOwned(run, "this process")
        warm = self._warm.pop(run, None)
        epoch = row.epoch if acquired else await self.store.acquire(run, newest=version_of(form_of(row, self.forms).machine))
        try:
            if acquired:
                await self.check_tree(row)
                await acquired(row)
            machine = form_of(row, self.forms).machine
            if warm is not None and (epoch, row.seq) == (1, warm.seq):  # only its submitter has written to it
                live, snapshot_policy = warm, SnapshotPolicy(self._spacing)
            else:
                live, snapshot_policy = await load(self.store, machine, run, self._spacing)
                check_whole(run, row.seq, live.seq)
            if row.root == run and epoch > 1:  # for the whole tree; a run that was never owned has left nothing behind
                await asyncio.to_thread(self._reap)
            return await self._drive(row, live, epoch, snapshot_policy, park=park, on_blocked=on_blocked)
        except BaseException as error:  # boundary: raised again; without an error the run was released already
            problem = problem_of(error) if acquired and isinstance(error, Exception) else ""
            await asyncio.shield(self._force_release(row, epoch, problem, stays=acquired is not None))
            raise
        finally:
            self._executors.pop(run, None)
            self._releases.forget(run)

    async def _force_release(self, row: RunRow, epoch: int, problem: str, *, stays: bool) -> None:
        if not await self._releases.force(row, epoch, problem) and stays and self._group is not None:
            task = self._group.create_task(self._releases.force_later(row, epoch, problem), name=f"releases {row.run_id}")
            self._started.add(task)
            task.add_done_callback(self._started.discard)

    def _appended(self, root: str, run_id: str, entries: Sequence[Entry]) -> None:
        self._releases.note_progress(root, entries)
        self.notify(run_id, entries)

    async def _drive(
        self, row: RunRow, live: Run[Any], epoch: int, snapshot_policy: SnapshotPolicy, *, park: bool, on_blocked: Callable[[bool], None]
    ) -> tuple[Run[Any], bool]:
        TENANT.set(row.tenant)
        async with task_group() as group:
            executor = RunExecutor(
                live,
                epoch,
                store=self.store,
                clock=self.clock,
                performers=self._performers[live.machine.name],
                snapshot_policy=snapshot_policy,
                on_appended=functools.partial(self._appended, row.root),
                warn=self.warn,
                group=group,
                root=row.root,
                release=functools.partial(self._releases.park, row, epoch),
                on_blocked=on_blocked,
            )
            executor.is_draining = self._releases.is_draining(row.root)
            self._executors[live.id] = executor
            self._has_runs.set()
            try:
                for event, actor in self._news():
                    executor.arrive(event, actor)
                await executor.acquire(self._owner)
                is_left = await executor.drive(park=park)
            finally:
                executor.abandon()
        return executor.run, is_left

    async def _poll_inbox(self) -> None:
        while True:
            if not self._executors:
                self._has_runs.clear()
                await self._has_runs.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._inbox_wakeup.wait()
            self._inbox_wakeup.clear()
            with contextlib.suppress(StoreUnavailable):  # the next poll tries again; a failing append warns by itself
                asking = dict(self._executors)
                if any(isinstance(it, WaitFor) and it.event for executor in asking.values() for it in executor.run.outstanding.values()):
                    await self.match_events()  # a run that also works gets what its sender, or its wait, did not find
                for row in await self.store.inbox(list(asking)):
                    if self._executors.get(row.run_id) is asking[row.run_id]:  # a later one would take what this one has taken
                        asking[row.run_id].deliver([row])
