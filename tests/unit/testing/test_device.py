from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, AttemptResult
from asterism.engine.kernel.profile import AgentProfile
from asterism.testing.device import Behaviour, FakeDevice, Faults, PerformanceLog, by_skill
from asterism.testing.loop import run
from tests.support.device_signs import Heard

PROFILE = AgentProfile(device_id="laptop")


def attempt(key: str = "k", skill: str = "s") -> Attempt:
    return Attempt(key=key, run_id="r", task_id="t", device_id="laptop", skill=skill)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_device_does_what_its_script_says_and_writes_it_down() -> None:
    ledger = PerformanceLog(now)
    error = TaskError(code="raised", message="no")
    marks = ((0.5, 0.25, "a quarter"), (1.0, None, "half"), (9.0, None, "never"))
    script = by_skill({"works": Behaviour(duration_s=2, result=7, marks=marks), "fails": Behaviour(error=error)})
    device = FakeDevice(PROFILE, ledger, script)
    seen: list[tuple[float, float | None, str]] = []

    async def main() -> list[AttemptResult]:
        heard = Heard(listener=lambda *report: seen.append((now(), *report)))
        return [await device.perform(attempt(skill, skill), heard) for skill in ("works", "fails")]

    assert run(main()) == [AttemptResult(result=7), AttemptResult(error=error)]
    assert seen == [(0.5, 0.25, "a quarter"), (1.0, None, "half")]
    assert [(done.key, done.started_at, done.ended_at, done.status) for done in ledger.performances] == [
        ("works", 0, 2, "done"),
        ("fails", 2, 3, "failed"),
    ]


def test_what_is_performed_twice_at_once_shows_in_the_ledger() -> None:
    ledger = PerformanceLog(now)
    device = FakeDevice(PROFILE, ledger)

    async def main() -> list[str]:
        async with asyncio.TaskGroup() as group:
            group.create_task(device.perform(attempt(), Heard()))
            group.create_task(device.perform(attempt(), Heard()))
            await asyncio.sleep(0.5)
            return ledger.running_keys

    assert run(main()) == ["k", "k"]
    assert len(ledger.of("k")) == 2


def test_a_crash_ends_what_is_performed_and_its_coroutine_changes_nothing_later() -> None:
    ledger = PerformanceLog(now)
    device = FakeDevice(PROFILE, ledger, by_skill({}, Behaviour(duration_s=10)))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(device.perform(attempt(), Heard()))
            await asyncio.sleep(3)
            ledger.crash()

    run(main())
    assert ledger.running_keys == []
    assert [(done.ended_at, done.status) for done in ledger.performances] == [(3, "killed")]


def test_a_fault_depends_on_seed_key_and_repetition_only() -> None:
    faults = Faults(seed=3, raised=0.2, hangs=0.2)
    plain = Behaviour()
    drawn = [faults.apply(plain, f"k{n}", 0) for n in range(1000)]
    assert drawn == [faults.apply(plain, f"k{n}", 0) for n in range(1000)]
    assert drawn != [faults.apply(plain, f"k{n}", 1) for n in range(1000)]
    assert drawn != [Faults(seed=4, raised=0.2, hangs=0.2).apply(plain, f"k{n}", 0) for n in range(1000)]
    kinds = Counter("hangs" if each.hangs else "raised" if each.error else "plain" for each in drawn)
    assert kinds == {"plain": pytest.approx(600, abs=60), "raised": pytest.approx(200, abs=50), "hangs": pytest.approx(200, abs=50)}
