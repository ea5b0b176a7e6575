"""The embedded engine, in virtual time: what it drives, what it releases, and what it tries again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any

import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import AttemptEnded, ConstellationSubmitted, Dispatch, RunOptions
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.engine.control.run_control import Pause, Unpause
from asterism.engine.kernel.machine import EffectResult
from asterism.engine.ports.performer import Performer
from asterism.engine.ports.store import Commit, InboxRow, RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.due_runs import DueRunsEngine
from asterism.engine.runtime.form import by_name, idle_kinds
from asterism.engine.runtime.problems import CRASHED, retry_delay_s
from asterism.errors import InvalidInput, StoreUnavailable
from asterism.stores.memory import MemoryDatabase, MemoryStore
from asterism.testing.clock import WorldClock
from asterism.testing.loop import run
from tests.support.constellation_harness import FLEET
from tests.support.constellations import tasks
from tests.support.memory_stores import change_run

FORMS = by_name([FORM])
GRACE_S = 10.0


class Hands:
    """Performs attempts, each in a number of virtual seconds; notes what began and what ended."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def perform(self, effect_id: str, request: Any, report: Any) -> EffectResult:
        self.begun.append(effect_id)
        await asyncio.sleep(self.seconds)
        self.ended.append(effect_id)
        return AttemptEnded(effect_id=effect_id, result={})


class Server:
    """One process that drives what is due."""

    def __init__(self, database: MemoryDatabase, hands: Performer, *, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore(database)
        self.clock = WorldClock()
        self.client = Client(self.store, self.clock, FORMS)
        self.problems: list[str] = []
        self.checked: list[str] = []
        self.missing: set[str] = set()
        self.grace_s = GRACE_S
        self._hands = hands

    @contextlib.asynccontextmanager
    async def serving(self, concurrency: int = 100) -> AsyncIterator[None]:
        """Drive what is due while the body runs; then stop as a server stops."""
        forms = by_name([FORM.performed_by({Dispatch: self._hands})])
        driver = Driver(store=self.store, clock=self.clock, forms=forms, observers=[self])
        engine = DueRunsEngine(self.store, self.clock, ("", "digits"), self.problems.append, idle_kinds=idle_kinds(FORMS.values()))

        async def drive(row: RunRow) -> None:
            await driver.drive_acquired(row, self.check, grace_s=lambda: self.grace_s)

        async with driver.opened(), asyncio.TaskGroup() as group:
            serving = group.create_task(engine.serve(drive, concurrency=concurrency))
            try:
                yield
            finally:
                serving.cancel()

    async def check(self, row: RunRow) -> None:
        self.checked.append(row.run_id)
        if row.run_id in self.missing:
            raise InvalidInput(f"run {row.run_id}: there is no loop nightly.py:nightly; restore it")

    def appended(self, run_id: str, entries: Sequence[Any]) -> None:
        pass

    def trouble(self, run_id: str, message: str) -> None:
        self.problems.append(f"{run_id}: {message}")

    async def submit(self, run_id: str, *, options: RunOptions | None = None, tenant: str = "", **task: Any) -> None:
        plan = parse_plan({"tasks": tasks("a", **task)})
        first = ConstellationSubmitted(request="go", fleet=FLEET, plan=plan, options=options or RunOptions())
        await self.client.submit(CONSTELLATION_AGENT, first, title="t", actor="me", run_id=run_id, tenant=tenant)

    async def until(self, holds: Callable[[], bool], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110 - in virtual time
                await asyncio.sleep(0.1)

    def row(self, run_id: str) -> RunRow:
        return self.store.database.runs[run_id]


def played(scenario: Callable[[Server], Awaitable[None]], hands: Performer | None = None) -> Server:
    """Return the server after a scenario."""

    async def main() -> Server:
        server = Server(MemoryDatabase(), hands or Hands())
        await scenario(server)
        return server

    return run(main())


def test_a_submitted_run_is_driven_and_what_another_process_submits_as_well() -> None:
    async def scenario(server: Server) -> None:
        async with server.serving():
            await server.submit("r1")
            other = Server(server.store.database, Hands())
            await other.submit("r2")
            await server.until(lambda: all(server.row(name).status == "ended" for name in ("r1", "r2")), within_s=5)

    server = played(scenario)
    assert [(server.row(name).outcome, server.row(name).owner) for name in ("r1", "r2")] == [("finished", "")] * 2


def test_an_interrupted_run_goes_on() -> None:
    hands = Hands(30.0)

    async def scenario(server: Server) -> None:
        first = Server(server.store.database, hands)
        await first.submit("r")
        async with first.serving():
            await asyncio.sleep(5)
            first.store.crash()
        async with server.serving():
            await server.until(lambda: server.row("r").status in ("ended", "waiting"))

    server = played(scenario, hands)
    assert server.row("r").status == "waiting", "the attempt may have happened, so a person is asked"
    assert server.row("r").owner == ""


def test_an_approval_expires_although_nobody_looks() -> None:
    async def scenario(server: Server) -> None:
        await server.submit("r", requires_approval=True, options=RunOptions(inquiry_timeout_s=3600.0))
        async with server.serving():
            await server.until(lambda: server.row("r").status == "waiting")
            assert server.row("r").owner == ""
            checked = len(server.checked)
            await asyncio.sleep(3500)
            assert len(server.checked) == checked, "a parked run is not looked at"
            await server.until(lambda: server.row("r").status == "ended", within_s=102)

    assert played(scenario).row("r").outcome == "failed"


def test_time_in_which_a_run_waits_for_a_person_does_not_count_to_its_wall_limit() -> None:
    async def scenario(server: Server) -> None:
        await server.submit("r", requires_approval=True, options=RunOptions(wall_limit_s=100.0))
        async with server.serving():
            await asyncio.sleep(200)
            row = server.row("r")
            assert (row.status, row.owner, row.due_at) == ("waiting", "", None)

    played(scenario)


def test_a_run_that_waits_for_a_time_takes_no_place_and_goes_on_in_time() -> None:
    async def scenario(server: Server) -> None:
        plan = parse_plan({"tasks": [{"task_id": "w", "wait": {"for_s": 100.0}}]})
        first = ConstellationSubmitted(request="go", fleet=FLEET, plan=plan)
        await server.client.submit(CONSTELLATION_AGENT, first, title="t", actor="me", run_id="r")
        async with server.serving(concurrency=1):
            await server.until(lambda: server.row("r").status == "waiting")
            await server.submit("other")
            await server.until(lambda: server.row("other").status == "ended", within_s=5)
            assert server.row("r").owner == ""
            await server.until(lambda: server.row("r").status == "ended", within_s=101)
        assert server.row("r").outcome == "finished"

    played(scenario)


def test_a_paused_run_whose_timers_have_passed_is_not_tried_again_and_again() -> None:
    async def scenario(server: Server) -> None:
        await server.submit("r", requires_approval=True, options=RunOptions(inquiry_timeout_s=10.0))
        async with server.serving():
            await server.until(lambda: server.row("r").status == "waiting")
            await server.client.send("r", Pause(), actor="me")
            await asyncio.sleep(1000)
        assert len(server.checked) <= 5
        assert server.row("r").problem == ""

    played(scenario)


def test_at_most_so_many_runs_are_driven_at_once_and_tenants_take_turns() -> None:
    hands = Hands(10.0)

    async def scenario(server: Server) -> None:
        for number in range(6):
            await server.submit(f"a{number}", tenant="ada")
        await server.submit("b0", tenant="bob")
        async with server.serving(concurrency=2):
            await asyncio.sleep(5)
            assert len(hands.begun) == 2
            assert server.row("b0").owner
            await server.until(lambda: len(hands.ended) == 7, within_s=60)
        assert {row.outcome for row in server.store.database.runs.values()} == {"finished"}

    played(scenario, hands)


# -- stopping ----------------------------------------------------------------------------------------


def test_stopping_lets_work_that_must_not_be_repeated_end_and_starts_nothing_new() -> None:
    hands = Hands(8.0)

    async def scenario(server: Server) -> None:
        plan = parse_plan({"tasks": tasks("a b"), "dependencies": [{"from": "a", "to": "b"}]})
        first = ConstellationSubmitted(request="go", fleet=FLEET, plan=plan)
        await server.client.submit(CONSTELLATION_AGENT, first, title="t", actor="me", run_id="r")
        async with server.serving():
            await asyncio.sleep(5)
        assert (len(hands.begun), len(hands.ended)) == (1, 1)
        assert (server.row("r").owner, server.row("r").due_at, server.row("r").problem) == ("", 0.0, "")
        async with server.serving():
            await server.until(lambda: server.row("r").status == "ended")
        assert len(hands.begun) == 2

    assert played(scenario, hands).row("r").outcome == "finished"


def test_stopping_waits_no_longer_than_the_grace_period() -> None:
    hands = Hands(1000.0)

    async def scenario(server: Server) -> None:
        await server.submit("r")
        async with server.serving():
            await asyncio.sleep(5)
            before = asyncio.get_running_loop().time()
        assert GRACE_S <= asyncio.get_running_loop().time() - before <= GRACE_S + 1
        assert server.row("r").owner == ""

    played(scenario, hands)


def test_a_grace_period_that_is_shortened_meanwhile_ends_the_waiting() -> None:
    async def scenario(server: Server) -> None:
        await server.submit("r")
        loop = asyncio.get_running_loop()
        async with server.serving():
            await asyncio.sleep(5)
            before = loop.time()
            loop.call_later(2, setattr, server, "grace_s", 0.0)
        assert 2 <= loop.time() - before <= 3
        assert server.row("r").owner == ""

    played(scenario, Hands(1000.0))


def test_stopping_while_a_run_is_being_acquired_releases_it() -> None:
    class Slow(MemoryStore):
        async def acquire_due(self, limit: int, *, fleets: Sequence[str], now: float, idle_kinds: Collection[str]) -> list[RunRow]:
            found = await super().acquire_due(limit, fleets=fleets, now=now, idle_kinds=idle_kinds)
            await asyncio.sleep(1)
            return found

    async def main() -> RunRow:
        database = MemoryDatabase()
        server = Server(database, Hands(), store=Slow(database))
        await server.submit("r")
        async with server.serving():
            await asyncio.sleep(0.5)
        return server.row("r")

    row = run(main())
    assert (row.epoch, row.owner, row.due_at) == (1, "", 0.0)


def test_a_run_that_is_due_again_while_its_last_drive_here_still_ends_is_driven_again() -> None:
    class SlowToReply(MemoryStore):
        async def release(self, run_id: str, epoch: int, *, force: bool = False, due_at: float | None = None, problem: str = "") -> bool:
            is_released = await super().release(run_id, epoch, force=force, due_at=due_at, problem=problem)
            await asyncio.sleep(3)
            return is_released

    async def main() -> tuple[RunRow, RunRow]:
        database = MemoryDatabase()
        server = Server(database, Hands(), store=SlowToReply(database))
        await server.submit("r", requires_approval=True)
        async with server.serving():
            await server.until(lambda: server.row("r").status == "waiting" and not server.row("r").owner)
            (asked,) = database.inquiries.values()
            await server.client.post_answer(asked.inquiry_id, "approve", actor="me")
            await server.until(lambda: server.row("r").status == "ended")
            await server.submit("s", requires_approval=True)
            await server.until(lambda: server.row("s").status == "waiting" and not server.row("s").owner)
            await server.client.post("s", Pause(), actor="me", key="k")
            await server.until(lambda: bool(server.row("s").owner))
        return server.row("r"), server.row("s")

    driven, stopped = run(main())
    assert (driven.outcome, driven.problem) == ("finished", "")
    assert (stopped.owner, stopped.due_at, stopped.problem) == ("", 0.0, ""), "a server that stops meanwhile releases it"


def test_a_command_is_taken_once_though_the_inbox_was_read_before_the_run_was_released_and_acquired_again() -> None:
    class Slow(MemoryStore):
        async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:
            rows = await super().inbox(runs)
            await asyncio.sleep(2 if rows else 0)
            return rows

        async def append(self, commit: Commit) -> None:
            await asyncio.sleep(0.5)
            await super().append(commit)

    async def main() -> list[str]:
        database = MemoryDatabase()
        server = Server(database, Hands(), store=Slow(database))
        await server.submit("r", requires_approval=True)
        async with server.serving():
            await server.until(lambda: server.row("r").status == "waiting" and not server.row("r").owner)
            await server.client.post("r", Pause(), actor="me", key="first")
            await server.until(lambda: server.row("r").status == "paused" and not server.row("r").owner)
            await server.client.post("r", Unpause(), actor="me", key="second")
            await server.until(lambda: server.row("r").status == "waiting" and not server.row("r").owner)
        return [it.kind for it in database.records["r"] if it.kind in ("pause", "unpause")]

    assert run(main()) == ["pause", "unpause"]


# -- problems ----------------------------------------------------------------------------------------


def test_a_run_that_cannot_be_driven_here_is_stuck_and_good_runs_are_not_slowed() -> None:
    async def scenario(server: Server) -> None:
        await server.submit("damaged", requires_approval=True)
        async with server.serving():
            await server.until(lambda: server.row("damaged").status == "waiting" and not server.row("damaged").owner)
        database, last = server.store.database, server.row("damaged").seq
        database.connection.execute("UPDATE entries SET state = 'FINISH' WHERE run = 'damaged' AND seq = ?", (last,))
        change_run(database, "damaged", due_at=0.0)
        await server.submit("undefined")
        server.missing.add("undefined")
        tried = 0
        async with server.serving(concurrency=60):
            for number in range(50):
                await server.submit(f"good{number}")
            await server.until(lambda: all(server.row(f"good{number}").status == "ended" for number in range(50)), within_s=5)
            await asyncio.sleep(3595)
            tried = server.row("undefined").tries
            server.missing.clear()
            await server.until(lambda: server.row("undefined").status == "ended", within_s=620)
        assert 10 <= tried <= 20
        assert 10 <= server.row("damaged").tries <= 21

    server = played(scenario)
    assert "cannot be replayed" in server.row("damaged").problem or "journal of run damaged" in server.row("damaged").problem
    assert f"asterism fork damaged --at {server.row('damaged').seq - 1}" in server.row("damaged").problem
    assert server.row("damaged").status != "ended"
    assert server.row("undefined").problem == "", "a drive that ends well resets it"
    assert server.row("undefined").tries == 0


class Deadly(Hands):
    """Hands whose process dies two seconds after they begin an attempt of the run ``bad``."""

    def __init__(self) -> None:
        super().__init__()
        self.died = asyncio.Event()

    async def perform(self, effect_id: str, request: Any, report: Any) -> EffectResult:
        if effect_id.startswith("bad:"):
            self.begun.append(effect_id)
            await asyncio.sleep(2)
            self.died.set()
            await asyncio.get_running_loop().create_future()
        return await super().perform(effect_id, request, report)


def test_a_run_whose_work_kills_its_server_is_tried_at_most_twenty_times_in_an_hour_and_good_runs_end() -> None:
    hands = Deadly()

    async def scenario(server: Server) -> None:
        end, servers = asyncio.get_running_loop().time() + 3600, 0
        await server.submit("bad", device="s", skill="again")
        while asyncio.get_running_loop().time() < end:
            one, servers = Server(server.store.database, hands), servers + 1
            await one.submit(f"good{servers}", device="s", skill="again")
            async with one.serving():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(end):
                        await hands.died.wait()
                        one.store.crash()
            hands.died.clear()
        assert 10 <= servers <= 20
        good = [row for row in server.store.database.runs.values() if row.run_id != "bad"]
        assert {row.outcome for row in good} == {"finished"}

    server = played(scenario, hands)
    assert len([key for key in hands.begun if key.startswith("bad:")]) <= 20
    assert (server.row("bad").problem, server.row("bad").owner) == (CRASHED, "")
    assert server.store.database.connection.execute("SELECT text FROM notices").fetchall() == [(CRASHED,)]


def test_the_delay_before_a_stuck_run_is_tried_again_grows_to_ten_minutes() -> None:
    delays = [retry_delay_s(tries) for tries in range(40)]
    assert delays[:4] == [1.0, 2.0, 4.0, 8.0]
    assert delays[-1] == max(delays) == 600.0
    at, tries = 0.0, 0
    while at < 3600:
        at += delays[tries]
        tries += 1
    assert tries <= 20


def test_a_command_to_a_stuck_run_is_tried_at_once() -> None:
    async def scenario(server: Server) -> None:
        await server.submit("r")
        server.missing.add("r")
        async with server.serving():
            await asyncio.sleep(1500)
            tries = server.row("r").tries
            server.missing.clear()
            await server.client.send("r", Pause(), actor="me", timeout_s=5)
            assert server.row("r").tries <= tries

    played(scenario)


def test_a_run_that_the_store_could_not_release_is_released_later() -> None:
    class Failing(MemoryStore):
        failures = 3

        async def release(self, run_id: str, epoch: int, *, force: bool = False, due_at: float | None = None, problem: str = "") -> bool:
            if force and self.failures:
                self.failures -= 1
                raise StoreUnavailable("the disk is full")
            return await super().release(run_id, epoch, force=force, due_at=due_at, problem=problem)

    async def main() -> RunRow:
        database = MemoryDatabase()
        server = Server(database, Hands(), store=Failing(database))
        server.missing.add("r")
        await server.submit("r")
        async with server.serving():
            await asyncio.sleep(2)
            assert server.row("r").owner
            server.missing.clear()
            await server.until(lambda: server.row("r").status == "ended")
        assert any("could not be released: the disk is full" in it for it in server.problems)
        return server.row("r")

    assert run(main()).outcome == "finished"


def test_a_store_that_fails_is_asked_again_after_a_second() -> None:
    class Failing(MemoryStore):
        failures = 3

        async def acquire_due(self, limit: int, *, fleets: Sequence[str], now: float, idle_kinds: Collection[str]) -> list[RunRow]:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("the disk is full")
            return await super().acquire_due(limit, fleets=fleets, now=now, idle_kinds=idle_kinds)

    async def main() -> list[str]:
        database = MemoryDatabase()
        server = Server(database, Hands(), store=Failing(database))
        await server.submit("r")
        async with server.serving():
            await server.until(lambda: server.row("r").status == "ended", within_s=10)
        return server.problems

    assert run(main()) == ["the disk is full; looking again in 1 s"] * 3


@pytest.mark.parametrize("hours", [24.0])
def test_an_idle_server_looks_once_a_second_and_no_more(hours: float) -> None:
    class Counting(MemoryStore):
        looks = 0

        async def acquire_due(self, limit: int, *, fleets: Sequence[str], now: float, idle_kinds: Collection[str]) -> list[RunRow]:
            self.looks += 1
            return await super().acquire_due(limit, fleets=fleets, now=now, idle_kinds=idle_kinds)

    async def main() -> int:
        database = MemoryDatabase()
        store = Counting(database)
        async with Server(database, Hands(), store=store).serving():
            await asyncio.sleep(hours * 60)
        return store.looks

    assert run(main()) == pytest.approx(hours * 60, rel=0.01)
