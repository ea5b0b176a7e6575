"""The driver: owns runs, feeds them from outside, and lets go of them.

One driver serves many runs at once. Being killed at any moment is normal: whoever claims a run next
replays its journal and redoes what has no outcome, which is also how a run is started.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from asterism.errors import InvalidInput, RunOwned, StoreUnavailable
from asterism.kernel.journal import Entry, check_whole, version_of
from asterism.kernel.machine import Effect, Event, Machine
from asterism.kernel.run import Run
from asterism.machines.children import SignalChild, StartChild
from asterism.runtime.children import ChildPerformer, SignalPerformer
from asterism.runtime.clock import Clock
from asterism.runtime.ports.observer import Observer
from asterism.runtime.ports.performer import Performer
from asterism.runtime.ports.store import RunRow, Store
from asterism.runtime.registration import Registration, machine_of, registered
from asterism.runtime.run_executor import RunExecutor
from asterism.runtime.snapshots import INTERVAL_CHARS, SnapshotPolicy, load

MAX_WARM_RUNS = 500
"""Runs submitted here and not yet driven whose live state is kept; the oldest of more is read from its journal instead."""
MAX_TREE = 1_000_000
"""Runs of one tree that are looked at before it is driven."""
POLL_S = 0.2
"""How often the inbox is looked at for rows from other processes."""


@contextlib.asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that lets an error of its own body out as it is, not wrapped in a group of one."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        try:
            yield group
        except Exception as error:  # boundary: raised again below, when the group has ended
            failure = error
    if failure is not None:
        raise failure


class Driver:
    """Drives runs; enter it as a context, which is what its tasks live in.

    Args:
        store: where the journals are.
        clock: time.
        machines: by name, those it can drive.
        performers: by kind of effect; those of child runs are its own.
        registrations: further machines, each with performers that serve it only.
        observers: told of everything that is appended.
        reap: called after a claim and before any redo: ends what a dead owner left working.
        news: what a new session must hear first, as (event, actor): devices that are lost at present.
        owner: how this driver names itself in claims.
        poll_s: how often the inbox is looked at.
        spacing: characters of journal between two snapshots of a run, at least.

    Attributes:
        views: classes that show the runs of registered machines, by the machine's name.
        starters: ids of the effects that started the children driven here, by the child's id.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        machines: Mapping[str, Machine[Any]],
        performers: Mapping[type[Effect], Performer],
        registrations: Sequence[Registration] = (),
        observers: Sequence[Observer] = (),
        reap: Callable[[], object] = lambda: None,
        news: Callable[[], Iterable[tuple[Event, str]]] = tuple,
        owner: str = "",
        poll_s: float = POLL_S,
        spacing: int = INTERVAL_CHARS,
    ) -> None:
        self.store = store
        self.clock = clock
        self.machines: Mapping[str, Machine[Any]] = registered(machines, registrations)
        self.views: Mapping[str, type[Any]] = {it.machine.name: it.view for it in registrations if it.view is not None}
        self._performers: dict[type[Effect], Performer] = {
            **performers,
            StartChild: ChildPerformer(self),
            SignalChild: SignalPerformer(self),
        }
        self._performers_of = {it.machine.name: {**self._performers, **it.performers} for it in registrations}
        self._observers = list(observers)
        self._reap = reap
        self._news = news
        self._owner = owner
        self._poll_s = poll_s
        self._spacing = spacing
        self._sessions: dict[str, RunExecutor] = {}
        self._group: asyncio.TaskGroup | None = None
        self._started: set[asyncio.Task[None]] = set()
        self.starters: dict[str, str] = {}
        self._fresh: dict[str, Run[Any]] = {}
        self._mail = asyncio.Event()
        self._working = asyncio.Event()

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Driver]:
        """The driver with its postman running; leaving lets go of everything."""
        async with task_group() as group:
            postman = group.create_task(self._deliver_mail(), name="postman")
            self._group = group
            try:
                yield self
            finally:
                self._group = None
                for task in (postman, *self._started):
                    task.cancel()

    def submitted(self, live: Run[Any]) -> None:
        """A run was written from here. Whoever drives it first needs not read back what is known."""
        self._fresh[live.id] = live
        if len(self._fresh) > MAX_WARM_RUNS:
            del self._fresh[next(iter(self._fresh))]

    def observe(self, observer: Observer) -> None:
        """Add an observer."""
        self._observers.append(observer)

    def unobserve(self, observer: Observer) -> None:
        """Take an observer out again; one that was dropped is gone already."""
        if observer in self._observers:
            self._observers.remove(observer)

    def notify(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Tell the observers what is durable now. One that fails is dropped, aloud: nothing depends on what it does."""
        for observer in tuple(self._observers):
            try:
                observer.appended(run_id, entries)
            except Exception as error:  # boundary: whoever watches a run must not end it
                self._observers.remove(observer)
                self.warn(run_id, f"{type(observer).__name__} failed and is not told any more: {type(error).__name__}: {error}")

    def warn(self, run_id: str, message: str) -> None:
        """Say aloud what the driver is dealing with."""
        for observer in self._observers:
            observer.trouble(run_id, message)

    def announce(self, event: Event, actor: str) -> None:
        """News that concerns every run driven here, such as a lost device."""
        for session in self._sessions.values():
            session.arrive(event, actor)

    def live(self, run_id: str) -> Run[Any] | None:
        """The live state of a run that is driven here, to look at and not to touch; None if it is not."""
        session = self._sessions.get(run_id)
        return session.run if session else None

    def wake_inbox(self) -> None:
        """Look at the inbox now rather than at the next poll."""
        self._mail.set()

    async def drive(self, run_id: str, *, park: bool = True) -> RunRow:
        """Claim a run, with all that it has started, and take it as far as it goes.

        Args:
            run_id: its id; of a child, its root is driven.
            park: return when only people can move it on; else stay until it has ended.

        Returns:
            The row of what was driven: status ``ended``, or (with ``park``) ``waiting`` or ``paused``.

        Raises:
            RunNotFound, RunOwned, StaleOwner, StoreUnavailable, JournalMismatch: as named.
            UnknownMachine: it, or a run below it, is of a machine that is not known here; nothing is written.
            RunNewer: a newer program has written to it, or to a run below it; nothing is written or performed.
        """
        row = await self.store.run(run_id)
        if row.root != run_id:
            row = await self.store.run(row.root)
        await self.check_tree(row)
        if row.status == "ended" and not await self.store.inbox([row.run_id]):
            return row
        is_left = True
        while is_left:  # bounded: each time something has arrived in the moment of its release
            _, is_left = await self._own(row, park=park)
            row = await self.store.run(row.run_id)
        return row

    def start(self, run_id: str) -> asyncio.Future[RunRow]:
        """Drive a run for as long as this driver is open, whether or not anybody waits for it; what ``drive`` returns, or raises."""
        if self._group is None:
            raise InvalidInput("this driver is not open; enter driver.opened() first")
        end: asyncio.Future[RunRow] = asyncio.get_running_loop().create_future()
        end.add_done_callback(lambda it: it.cancelled() or it.exception())  # nobody need have waited

        async def driven() -> None:
            try:
                row = await self.drive(run_id)
            except asyncio.CancelledError:
                end.cancel()
                raise
            except Exception as error:  # boundary: it is told to whoever waits, and ends no other run
                if not end.done():
                    end.set_exception(error)
            else:
                if not end.done():
                    end.set_result(row)

        task = self._group.create_task(driven(), name=f"drives {run_id}")
        self._started.add(task)
        task.add_done_callback(self._started.discard)
        return end

    async def drive_child(self, run_id: str, rested: Callable[[bool], None]) -> Run[Any]:
        """Take a child to its end, and return it as it is then.

        Args:
            run_id: its id.
            rested: told when it begins and ends to wait for nothing but people.
        """
        row = await self.store.run(run_id)
        if row.status == "ended":
            live, _ = await load(self.store, machine_of(row, self.machines), run_id, self._spacing)
            return live
        while True:
            try:
                return (await self._own(row, park=False, rested=rested))[0]
            except RunOwned:  # by one who has lost its root, and will let go of it; as long as that takes
                await asyncio.sleep(self._poll_s)

    async def check_tree(self, root: RunRow) -> None:
        """See that this program can go on with every run of a tree.

        Raises:
            UnknownMachine: a machine is not known here, and nobody drives the tree.
            RunOwned: one is not; whoever drives the tree knows it, and takes what is sent to it.
            RunNewer: a newer program has written to one of its runs.
        """
        below = await self.store.runs(root=root.run_id, limit=MAX_TREE) if root.epoch else []  # what nobody has owned has no children
        for row in (root, *below):
            if row.machine not in self.machines and row is not root and row.status == "ended":
                continue
            if row.machine not in self.machines and root.owner:
                raise RunOwned(root.run_id, root.owner)
            machine_of(row, self.machines)

    async def _own(self, row: RunRow, *, park: bool, rested: Callable[[bool], None] = lambda _: None) -> tuple[Run[Any], bool]:
        """Own a run and drive it; returns it, and what ``RunExecutor.drive`` does."""
        run = row.run_id
        if run in self._sessions:
            raise RunOwned(run, "this process")
        fresh = self._fresh.pop(run, None)
        machine = machine_of(row, self.machines)
        epoch = await self.store.claim(run, newest=version_of(machine))
        try:
            if fresh is not None and (epoch, row.seq) == (1, fresh.seq):  # nobody but its submitter has written anything
                live, freezer = fresh, SnapshotPolicy(self._spacing)
            else:
                live, freezer = await load(self.store, machine, run, self._spacing)
                check_whole(run, row.seq, live.seq)
            if row.root == run and epoch > 1:  # for everything below, too; what nobody has owned has left nothing working
                await asyncio.to_thread(self._reap)
            return await self._drive(live, epoch, freezer, park=park, rested=rested)
        except BaseException:  # boundary: raised again; a run that came to rest was released then
            await asyncio.shield(self._let_go(run, epoch))
            raise
        finally:
            self._sessions.pop(run, None)

    async def _let_go(self, run_id: str, epoch: int) -> None:
        try:
            await self.store.release(run_id, epoch, force=True)
        except StoreUnavailable as error:  # nobody robs us of it while we live; what went wrong before is told by itself
            self.warn(run_id, f"it could not be released: {error}")

    async def _drive(
        self, live: Run[Any], epoch: int, freezer: SnapshotPolicy, *, park: bool, rested: Callable[[bool], None]
    ) -> tuple[Run[Any], bool]:
        async with task_group() as group:
            session = RunExecutor(
                live,
                epoch,
                store=self.store,
                clock=self.clock,
                performers=self._performers_of.get(live.machine.name, self._performers),
                freezer=freezer,
                tell=self.notify,
                say=self.warn,
                group=group,
                rested=rested,
            )
            self._sessions[live.id] = session
            self._working.set()
            try:
                for event, actor in self._news():
                    session.arrive(event, actor)
                await session.claim(self._owner)
                is_left = await session.drive(park=park)
            finally:
                session.abandon()
        return session.run, is_left

    async def _deliver_mail(self) -> None:
        while True:
            if not self._sessions:
                self._working.clear()
                await self._working.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._mail.wait()
            self._mail.clear()
            with contextlib.suppress(StoreUnavailable):  # the next poll tries again; an append that fails says so aloud
                for row in await self.store.inbox(list(self._sessions)):
                    if row.run_id in self._sessions:
                        self._sessions[row.run_id].deliver([row])
