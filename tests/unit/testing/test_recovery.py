"""``killed_at_every_entry``: it finds runs that do not survive a crash, and tests that would test nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent
from asterism.engine.control import EffectResult
from asterism.engine.runtime.form import Form
from asterism.loop.python import OrchestrationLoop, Worker
from asterism.testing.ending import Ending
from asterism.testing.invariants import InvariantViolated
from asterism.testing.people import Crash
from asterism.testing.recovery import killed_at_every_entry
from asterism.testing.world import World
from tests.support import ferry_machine
from tests.support.ferry_machine import FERRY, Carried, Carry, Crew, Depart, Throw, registration


def ferries(crashes: Sequence[Crash]) -> World:
    return World(7, machines=[registration(60.0)], crashes=crashes)


def test_a_sound_machine_passes_and_its_undisturbed_ending_is_returned() -> None:
    ending = killed_at_every_entry(ferries, lambda world: world.run_machine(FERRY, Depart(parcels=("a", "b"))))
    assert (ending.outcome, ending.row.state) == ("finished", "DONE")


def test_an_effect_that_is_not_retried_changes_the_end_and_the_error_names_the_entry() -> None:
    with pytest.raises(
        AssertionError, match=r"killed after entry 2 of run sim-1 \(ferry\): state is 'LEAKING', but 'DONE' without a crash"
    ):
        killed_at_every_entry(ferries, lambda world: world.run_machine(FERRY, Depart(parcels=("!a",))), after_s=1.0)


def test_a_result_that_a_crash_changes_is_reported() -> None:
    class Counting(Crew):
        def __init__(self) -> None:
            self.started = 0

        async def perform(self, effect_id: str, effect: Carry, report: object) -> EffectResult:
            self.started += 1
            parcel = f"{effect.parcel}{self.started}"
            await asyncio.sleep(60.0)
            return Carried(effect_id=effect_id, parcel=parcel)

    def counting(crashes: Sequence[Crash]) -> World:
        crew = Counting()
        return World(7, machines=[Form(FERRY, performers={Carry: crew, Throw: crew})], crashes=crashes)

    with pytest.raises(AssertionError, match=r"result is .*'a2'.*, but .*'a1'.* without a crash"):
        killed_at_every_entry(counting, lambda world: world.run_machine(FERRY, Depart(parcels=("a",))), after_s=1.0)


def test_work_done_under_two_keys_is_reported() -> None:
    numbers = itertools.count()

    def run(world: World) -> Ending:
        parcels = ("a",) if next(numbers) == 0 else ("a", "a")
        return world.run_machine(FERRY, Depart(parcels=parcels))

    with pytest.raises(AssertionError, match=r"performed is \{'carry': 2\}, but \{'carry': 1\} without a crash"):
        killed_at_every_entry(ferries, run)


def test_an_entry_that_is_never_reached_fails_the_test() -> None:
    numbers = itertools.count()

    def run(world: World) -> Ending:
        return world.run_machine(FERRY, Depart(parcels=("a", "b", "c") if next(numbers) == 0 else ()))

    with pytest.raises(AssertionError, match="killed after entry"):
        killed_at_every_entry(ferries, run)

    with pytest.raises(AssertionError, match="the entry was never reached; return the same world each time"):
        killed_at_every_entry(lambda _: ferries(()), lambda world: world.run_machine(FERRY, Depart(parcels=("a",))))


def test_a_violation_names_the_entry_of_the_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(crashes: Sequence[Crash]) -> World:
        if crashes:
            monkeypatch.setattr(ferry_machine.Hold, "wake_at", lambda memory: None)
        return ferries(crashes)

    with pytest.raises(InvariantViolated) as found:
        killed_at_every_entry(forgetful, lambda world: world.run_machine(FERRY, Depart(rest_s=99.0)))
    assert found.value.__notes__ == ["killed after entry 2 of run sim-1 (ferry)"]


def test_a_loop_survives_a_crash_at_every_entry() -> None:
    async def look(handoff: object) -> str:
        return "a heron"

    def loop() -> OrchestrationLoop:
        return OrchestrationLoop(plan=[{"worker": "look", "intent": "look"}], workers={"look": Worker(look, idempotent=True)})

    ending = killed_at_every_entry(lambda crashes: World(7, crashes=crashes), lambda world: world.run_loop(loop()))
    assert ending.memory.answer == "a heron"


class Table(StandardAgent):
    requires_approval = True
    people: int = InputField("For how many?", ge=1, le=9)

    async def on_running(self, msg: Message) -> AgentResult:
        await asyncio.sleep(60.0)
        return self.make_result(AgentStatus.COMPLETED, f"A table for {self.people}.")


class IdempotentTable(Table):
    idempotent = True


def book(world: World, agent: type[StandardAgent]) -> Ending:
    return world.run_flow(agent, ["a table, please", "4", "yes"])


@pytest.mark.parametrize("after_s", [0.0, 1.0])
def test_an_idempotent_flow_agent_survives_a_crash_at_every_entry(after_s: float) -> None:
    """After a crash, ``on_running`` is called instead of the handler that has called it before."""
    ending = killed_at_every_entry(lambda crashes: World(7, crashes=crashes), lambda world: book(world, IdempotentTable), after_s=after_s)
    assert (ending.outcome, ending.memory.prompt) == ("finished", "A table for 4.")


def test_a_flow_agent_that_asks_whether_to_run_again_ends_differently() -> None:
    with pytest.raises(AssertionError, match=r"killed after entry 14 of run sim-1 \(flow agent\): state is 'RUNNING', but 'COMPLETED'"):
        killed_at_every_entry(lambda crashes: World(7, crashes=crashes), lambda world: book(world, Table))


def test_a_flow_agent_with_another_handler_after_a_crash_is_reported() -> None:
    numbers = itertools.count()

    def run(world: World) -> Ending:
        return world.run_flow(IdempotentTable, ["a table, please", *(["40"] if next(numbers) else []), "4", "yes"])

    with pytest.raises(AssertionError, match=r"performed is .*'on_waiting_for_input': 2\}, but .*'on_waiting_for_input': 1\}"):
        killed_at_every_entry(lambda crashes: World(7, crashes=crashes), run)


def test_a_constellation_survives_a_crash_at_every_entry() -> None:
    from tests.simulation.demo_world import DEMO, demo  # noqa: PLC0415

    assert killed_at_every_entry(lambda crashes: demo(crashes=crashes), lambda world: world.run(DEMO), after_s=1.7).outcome == "finished"
