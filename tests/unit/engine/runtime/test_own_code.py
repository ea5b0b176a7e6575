"""Defects of a program's own moves, effects and performers: the run fails by name, and its journal replays."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from asterism.engine.control import (
    AskPerson,
    BatchEnded,
    Cancel,
    EffectResult,
    Event,
    Machine,
    RecoveryPolicy,
    StepContext,
    Text,
    Unpause,
    row,
)
from asterism.engine.kernel.journal import Entry
from asterism.engine.ports.store import InboxRow, RunRow
from asterism.engine.runtime.run_executor import MAX_BATCH
from asterism.engine.runtime.snapshots import load
from asterism.errors import InvalidInput, Refused, RunStuck
from tests.support.errand_machine import Basket, Bought, Buy, Leave, State, ended, errand, in_memory, opened, stays_out


def run(folder: Path, machine: Machine[Any], sells: Any = None, first: Leave | None = None) -> tuple[RunRow, Any]:
    """Drive a run as far as it goes; return its row, and its memory from its journal."""

    async def main() -> tuple[RunRow, Any]:
        async with opened(folder, machine, sells) as runtime:
            row = await ended(runtime, machine, first)
        async with opened(folder, machine, sells) as another:
            return row, (await another.load("r")).memory

    return asyncio.run(main())


def asks_for_the_price(memory: Basket, event: Bought, context: StepContext) -> State:
    context.schedule(AskPerson(question=f"Is {event.price} all right?", subject={"tags": event.tags}))
    return State.BACK


def test_a_run_advances_by_the_effect_result_that_its_journal_gives_back(tmp_path: Path) -> None:
    async def main() -> str:
        machine = errand(bought=asks_for_the_price, back=waits)
        async with opened(tmp_path, machine, lambda effect_id, effect: Bought(effect_id=effect_id, price=5, tags=["a"])) as runtime:  # type: ignore[arg-type]
            assert (await ended(runtime, machine)).status == "waiting"
            await runtime.load("r")  # raises where the replay asks for another effect
            [asked] = await runtime.store.inquiries(run_id="r")
            return asked.prompt

    assert asyncio.run(main()) == "Is 5.0 all right?"


def waits(memory: Basket, event: BatchEnded, context: StepContext) -> None:
    """Nothing."""


def test_a_run_begins_with_the_event_that_its_journal_gives_back(tmp_path: Path) -> None:
    seen: list[str] = []

    def sells(effect_id: str, effect: Buy) -> EffectResult:
        seen.append(effect.note)
        return Bought(effect_id=effect_id)

    row, _ = run(tmp_path, errand(), sells, Leave(hours=2))
    assert (row.outcome, seen) == ("finished", ["for 2.0 hours"])


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"what": 5}, "Expected `str`, got `int` - at `$.what`"),
        ({"what": Path("a")}, "Encoding objects of type PosixPath is unsupported"),
        ({"price": float("nan")}, "Expected `float`, got `null` - at `$.price`"),
    ],
)
def test_an_effect_result_that_a_journal_cannot_hold_is_a_failure_of_its_performer(
    tmp_path: Path, more: dict[str, Any], problem: str
) -> None:
    row, memory = run(tmp_path, errand(), lambda effect_id, effect: Bought(effect_id=effect_id, **more))
    assert row.outcome == "finished"
    assert memory.what.startswith("TypeError: its performer returned Bought(effect_id='r:1.0', ")
    assert memory.what.endswith(f"a journal cannot hold it: {problem}")


def test_what_a_performer_raises_may_be_no_unicode(tmp_path: Path) -> None:
    def sells(effect_id: str, effect: Buy) -> EffectResult:
        raise OSError("no file \udc80")

    assert run(tmp_path, errand(), sells)[1].what == "OSError: no file \\udc80"


def test_an_effect_that_a_journal_cannot_hold_is_a_defect_of_the_move_that_schedules_it(tmp_path: Path) -> None:
    def again(memory: Basket, event: Bought, context: StepContext) -> State:
        context.schedule(Buy(note=5))  # type: ignore[arg-type]
        return State.BACK

    row, memory = run(tmp_path, errand(bought=again))
    problem = "errand schedules Buy: a journal cannot hold it: Expected `str`, got `int` - at `$.note`"
    assert (row.outcome, memory.code, memory.reason) == ("failed", "defect", f"bought could not be taken: TypeError: {problem}")


def test_a_performer_is_given_the_effect_that_its_journal_gives_back(tmp_path: Path) -> None:
    seen: list[Any] = []

    def leave(memory: Basket, event: Leave, context: StepContext) -> State:
        context.schedule(Buy(tags=["a"]))  # type: ignore[arg-type]
        return State.OUT

    def sells(effect_id: str, effect: Buy) -> EffectResult:
        seen.append(effect.tags)
        return Bought(effect_id=effect_id)

    assert run(tmp_path, errand(leave=leave), sells)[0].outcome == "finished"
    assert seen == [("a",)]


class Once(Buy, tag="once", frozen=True, kw_only=True):
    @property
    def recovery_policy(self) -> RecoveryPolicy:
        return RecoveryPolicy.DO_NOT_RETRY


def buys_once(memory: Basket, event: Leave, context: StepContext) -> State:
    context.schedule(Once())
    return State.OUT


def test_an_effect_of_the_first_move_is_performed_even_if_it_must_never_be_retried(tmp_path: Path) -> None:
    row, memory = run(tmp_path, errand(buy=Once, leave=buys_once))
    assert (row.outcome, memory.what) == ("finished", "tea")


def test_in_a_fork_of_the_first_entry_it_may_have_happened(tmp_path: Path) -> None:
    async def main() -> str:
        machine = errand(buy=Once, leave=buys_once)
        async with opened(tmp_path, machine) as runtime:
            await ended(runtime, machine)
            await runtime.fork("r", 1, actor="ann", new_id="f")
            await runtime.drive("f")
            return str((await runtime.load("f")).memory.what)

    assert asyncio.run(main()) == "its owner's process ended while it was under way"


class Mute(Buy, tag="mute", frozen=True, kw_only=True):
    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        return None  # type: ignore[return-value]


class Broken(Buy, tag="broken", frozen=True, kw_only=True):
    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        raise LookupError("no words")


class Mistaken(Buy, tag="mistaken", frozen=True, kw_only=True):
    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        return Bought(effect_id="another")


@pytest.mark.parametrize(
    ("buy", "problem"),
    [
        (Mute, "its method interrupted returned None, which is not its result"),
        (Broken, "its method interrupted failed: LookupError: no words"),
        (
            Mistaken,
            "its method interrupted returned Bought(effect_id='another', what='', price=0.0, tags=()), which is not its result",
        ),
    ],
)
def test_an_effect_without_a_valid_interrupted_result_fails_its_run_by_name(tmp_path: Path, buy: type[Buy], problem: str) -> None:
    def sells(effect_id: str, effect: Buy) -> EffectResult:
        raise OSError("shut")

    def leave(memory: Basket, event: Leave, context: StepContext) -> State:
        context.schedule(buy())
        return State.OUT

    row, memory = run(tmp_path, errand(buy=buy, leave=leave), sells)
    kind = buy.__name__.lower()
    assert (row.outcome, memory.code) == ("failed", "defect")
    assert memory.reason == f"{kind} could not be taken: OSError: shut; {problem}"


NO_CODE = "errand ends in DONE: its memory has no code; set it to 'finished', 'cancelled', or a word for what went wrong"


def test_a_move_that_ends_a_run_without_an_outcome_is_a_defect(tmp_path: Path) -> None:
    def ends(memory: Basket, event: Bought, context: StepContext) -> State:
        return State.DONE

    row, memory = run(tmp_path, errand(bought=ends))
    assert (row.outcome, memory.code, memory.reason) == ("failed", "defect", f"bought could not be taken: TypeError: {NO_CODE}")


def test_a_look_that_ends_a_run_and_does_not_say_how_raises_where_it_is_driven(tmp_path: Path) -> None:
    def ends(memory: Basket, event: BatchEnded, context: StepContext) -> State:
        return State.DONE

    async def main() -> None:
        async with opened(tmp_path, errand(back=ends)) as runtime:
            with pytest.raises(TypeError, match=re.escape(NO_CODE)):
                await ended(runtime, errand(back=ends))
        async with opened(tmp_path, errand()) as corrected:
            assert (await corrected.drive("r")).outcome == "finished"

    asyncio.run(main())


def test_a_run_that_an_earlier_program_has_ended_without_saying_how_stays_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(memory: Basket, event: BatchEnded, context: StepContext) -> State:
        return State.DONE

    async def main() -> None:
        machine = errand(back=ends)
        with monkeypatch.context() as earlier:
            earlier.setattr(machine, "check_end", lambda memory: "")
            async with opened(tmp_path, machine) as runtime:
                assert (await ended(runtime, machine)).status == "ended"
        async with opened(tmp_path, machine) as today:
            assert (await today.drive("r")).status == "ended"
            live, _ = await load(today.driver.store, machine, "r")
            assert (live.state, live.memory.what) == ("DONE", "tea")

    asyncio.run(main())


STUCK = (
    "run r: machine 'errand' waits for nothing in BACK: no effect is outstanding and wake_at() returns None;"
    " correct the move that led there and resume the run, or cancel it"
)


def test_a_stuck_run_is_reported_and_resumes_when_its_move_is_corrected(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, errand(back=waits)) as runtime:
            with pytest.raises(RunStuck) as raised:
                await ended(runtime, errand(back=waits))
            assert str(raised.value) == STUCK
        async with opened(tmp_path, errand()) as corrected:
            assert (await corrected.drive("r")).outcome == "finished"

    asyncio.run(main())


def test_a_stuck_run_processes_all_arrivals_before_it_is_reported() -> None:
    async def main() -> str:
        machine = errand(leave=stays_out)
        async with in_memory(machine) as runtime:
            await runtime.submit(machine, Leave(), title="an errand", actor="ann", run_id="r")
            for number in range(2 * MAX_BATCH):
                await runtime.post("r", Unpause(), actor="ann", key=f"k{number}")
            await runtime.post("r", Cancel(), actor="ann", key="cancel")
            return (await runtime.drive("r")).outcome

    assert asyncio.run(main()) == "cancelled"


def test_rows_that_are_nested_too_deep_to_be_written_have_a_verdict_and_do_not_stop_their_run() -> None:
    body = '{"type": "answered", "effect_id": "r:1.0", "verb": "respond", "value": @}'

    async def main() -> set[str]:
        machine = errand(leave=stays_out)
        async with in_memory(machine) as runtime:
            store = runtime.driver.store
            await runtime.submit(machine, Leave(), title="an errand", actor="ann", run_id="r")
            for levels in range(900, 1000):  # what is read and cannot be written depends on how deep the calls are
                value = "[" * levels + "]" * levels
                await store.send(
                    InboxRow(run_id="r", key=f"k{levels}", actor="eve", kind="answered", body=body.replace("@", value), at=1.0)
                )
            await runtime.post("r", Cancel(), actor="ann", key="cancel")
            assert (await runtime.drive("r")).outcome == "cancelled"
            return {(await store.verdict("r", f"k{levels}"))[:27] for levels in range(900, 1000)}

    assert asyncio.run(main()) == {"errand cannot read answered"}


class Late(Basket, kw_only=True):
    def wake_at(self) -> float | None:
        return None if self.code else 1.0


def test_a_run_whose_time_has_passed_when_it_is_first_looked_at_waits_for_what_comes(tmp_path: Path) -> None:
    machine = errand(leave=stays_out, memory=Late)

    async def main() -> str:
        async with opened(tmp_path, machine) as runtime:
            await runtime.submit(machine, Leave(), title="an errand", actor="ann", run_id="r")
            driving = asyncio.create_task(runtime.drive("r"))
            await asyncio.wait([driving], timeout=0.05)
            assert not driving.done()
            await runtime.send("r", Cancel(), actor="ann")
            return (await driving).outcome

    assert asyncio.run(main()) == "cancelled"


def test_a_run_that_waits_for_nothing_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        machine = errand(back=waits)
        async with opened(tmp_path, machine) as runtime:
            with pytest.raises(RunStuck):
                await ended(runtime, machine)
            await runtime.send("r", Cancel(), actor="ann")
            assert (await runtime.drive("r")).outcome == "cancelled"

    asyncio.run(main())


class Call(Event, tag="call", frozen=True, kw_only=True):
    from_outside: ClassVar[bool] = True


class Watch:
    """An observer that waits until a run is in BACK."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.troubles: list[str] = []

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        if entries[-1].state == State.BACK:
            self.came.set()

    def trouble(self, run_id: str, message: str) -> None:
        self.troubles.append(message)


def test_a_run_that_accepts_a_command_of_its_machine_waits_for_it(tmp_path: Path) -> None:
    def called(memory: Basket, event: Call, context: StepContext) -> State:
        memory.code = "finished"
        return State.DONE

    async def main() -> None:
        machine = errand(back=waits, more={Call: row(called, State.DONE)})
        watch = Watch()
        async with opened(tmp_path, machine) as runtime:
            runtime.driver.observe(watch)
            driving = asyncio.ensure_future(ended(runtime, machine))
            await watch.came.wait()
            assert await runtime.send("r", Call(), actor="ann") == "accepted"
            assert (await driving).outcome == "finished"
        assert watch.troubles == []

    asyncio.run(main())


def test_a_command_whose_move_returns_a_forbidden_target_changes_nothing(tmp_path: Path) -> None:
    def strays(memory: Basket, event: Call, context: StepContext) -> State:
        memory.reason = "half done"
        return State.OUT

    async def main() -> None:
        machine = errand(back=waits, more={Call: row(strays, State.DONE)})
        watch = Watch()
        async with opened(tmp_path, machine) as runtime:
            runtime.driver.observe(watch)
            driving = asyncio.ensure_future(ended(runtime, machine))
            await watch.came.wait()
            with pytest.raises(Refused, match=r"^a defect of asterism: call could not be taken: ForbiddenTarget: errand in BACK "):
                await runtime.send("r", Call(), actor="ann")
            live = runtime.driver.live("r")
            assert live is not None
            assert live.memory.reason == ""
            await runtime.send("r", Cancel(), actor="ann")
            assert (await driving).outcome == "cancelled"

    asyncio.run(main())


def test_a_first_event_that_a_journal_cannot_hold_is_rejected_and_not_written(tmp_path: Path) -> None:
    async def main() -> None:
        machine = errand()
        async with opened(tmp_path, machine) as runtime:
            with pytest.raises(InvalidInput, match=r"cannot start this errand: .*`float`, got `str` - at `\$.hours`"):
                await ended(runtime, machine, Leave(hours="two"))  # type: ignore[arg-type]
            assert await runtime.runs() == []

    asyncio.run(main())
