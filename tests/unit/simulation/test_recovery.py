"""What the test for any machine finds: a run that does not survive being killed, and a test that would try nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from asterism.loops import OrchestrationLoop, Worker
from asterism.machines import EffectResult
from asterism.runtime.registration import Registration
from asterism.simulation.ending import Ending
from asterism.simulation.invariants import InvariantViolated
from asterism.simulation.people import Crash
from asterism.simulation.recovery import killed_at_every_entry
from asterism.simulation.world import World
from tests import ferry
from tests.ferry import FERRY, Carried, Carry, Crew, Depart, Throw, registration


def ferries(crashes: Sequence[Crash]) -> World:
    return World(7, machines=[registration(60.0)], crashes=crashes)


def test_a_machine_that_loses_nothing_passes_and_its_undisturbed_end_is_returned() -> None:
    ending = killed_at_every_entry(ferries, lambda world: world.run_machine(FERRY, Depart(parcels=("a", "b"))))
    assert (ending.outcome, ending.row.state) == ("finished", "DONE")


def test_an_effect_that_is_not_repeated_gives_another_end_and_the_entry_is_named() -> None:
    with pytest.raises(AssertionError, match=r"killed after entry 2 of run sim-1 \(ferry\): state is 'LEAKING', and 'DONE' undisturbed"):
        killed_at_every_entry(ferries, lambda world: world.run_machine(FERRY, Depart(parcels=("!a",))), after_s=1.0)


def test_a_result_that_a_crash_changes_is_named() -> None:
    class Counting(Crew):
        def __init__(self) -> None:
            self.begun = 0

        async def perform(self, effect_id: str, effect: Carry, report: object) -> EffectResult:
            self.begun += 1
            parcel = f"{effect.parcel}{self.begun}"
            await asyncio.sleep(60.0)
            return Carried(effect_id=effect_id, parcel=parcel)

    def counting(crashes: Sequence[Crash]) -> World:
        crew = Counting()
        return World(7, machines=[Registration(FERRY, performers={Carry: crew, Throw: crew})], crashes=crashes)

    with pytest.raises(AssertionError, match=r"result is .*'a2'.*, and .*'a1'.* undisturbed"):
        killed_at_every_entry(counting, lambda world: world.run_machine(FERRY, Depart(parcels=("a",))), after_s=1.0)


def test_what_is_done_under_two_keys_is_named() -> None:
    numbers = itertools.count()

    def run(world: World) -> Ending:
        parcels = ("a",) if next(numbers) == 0 else ("a", "a")
        return world.run_machine(FERRY, Depart(parcels=parcels))

    with pytest.raises(AssertionError, match=r"what was performed is \{'carry': 2\}, and \{'carry': 1\} undisturbed"):
        killed_at_every_entry(ferries, run)


def test_an_entry_that_never_comes_is_no_proof() -> None:
    numbers = itertools.count()

    def run(world: World) -> Ending:
        return world.run_machine(FERRY, Depart(parcels=("a", "b", "c") if next(numbers) == 0 else ()))

    with pytest.raises(AssertionError, match="killed after entry"):
        killed_at_every_entry(ferries, run)

    with pytest.raises(AssertionError, match="the entry never came; make the same world each time"):
        killed_at_every_entry(lambda _: ferries(()), lambda world: world.run_machine(FERRY, Depart(parcels=("a",))))


def test_a_violation_says_at_which_entry_it_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(crashes: Sequence[Crash]) -> World:
        if crashes:
            monkeypatch.setattr(ferry.Hold, "wake_at", lambda memory: None)
        return ferries(crashes)

    with pytest.raises(InvariantViolated) as found:
        killed_at_every_entry(forgetful, lambda world: world.run_machine(FERRY, Depart(rest_s=99.0)))
    assert found.value.__notes__ == ["killed after entry 2 of run sim-1 (ferry)"]


def test_a_loop_is_killed_at_every_entry_in_the_same_way() -> None:
    async def look(handoff: object) -> str:
        return "a heron"

    def loop() -> OrchestrationLoop:
        return OrchestrationLoop(plan=[{"worker": "look", "intent": "look"}], workers={"look": Worker(look, idempotent=True)})

    ending = killed_at_every_entry(lambda crashes: World(7, crashes=crashes), lambda world: world.run_loop(loop()))
    assert ending.memory.answer == "a heron"


def test_a_constellation_is_killed_at_every_entry_in_the_same_way() -> None:
    from tests.simulation.scenes import DEMO, demo  # noqa: PLC0415

    assert killed_at_every_entry(lambda crashes: demo(crashes=crashes), lambda world: world.run(DEMO), after_s=1.7).outcome == "finished"
