"""Invalid registrations of a program's own machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, ClassVar

import pytest

import asterism
from asterism.app.bootstrap import FORMS
from asterism.engine.control import (
    Effect,
    EffectResult,
    Event,
    Machine,
    RunControl,
    RunMemory,
    StartChild,
    StepContext,
    cancels_to,
    define_machine,
    fails_to,
    row,
)
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.form import Form, by_name, form_of, idle_kinds
from asterism.errors import InvalidInput
from asterism.testing.invariants import InvariantViolated
from asterism.testing.world import World
from asterism.views import BaseView
from asterism.views.text.history import RunHistory
from asterism.views.view import view_of
from tests.support.ferry_machine import FERRY, Carry, Crew, Depart, Throw, registration
from tests.support.kettle_machine import KETTLE


class State(StrEnum):
    IDLE = "IDLE"
    DONE = "DONE"


class Go(Event, tag="go", frozen=True, kw_only=True):
    pass


class Work(Effect, tag="work", frozen=True, kw_only=True):
    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        raise NotImplementedError


class Vague(Effect, tag="vague", frozen=True, kw_only=True):
    pass


class Memory(RunMemory, kw_only=True):
    def result(self) -> dict[str, Any]:
        return {}


class Silent(RunMemory, kw_only=True):
    pass


class Timed(Memory, kw_only=True):
    wake_at: float | None = None  # type: ignore[assignment]


def go(memory: Memory, event: Go, turn: object) -> State:
    return State.DONE


def machine(name: str = "own", *effects: type[Effect], memory: type[RunMemory] = Memory) -> Machine[Any]:
    control = RunControl(cancel=cancels_to(State.DONE), defect=fails_to(State.DONE))
    return define_machine(
        name,
        states=State,
        initial=State.IDLE,
        table={State.IDLE: {Go: row(go, State.DONE)}, State.DONE: {}},
        effects=effects,
        memory=memory,
        control=control,
    )


class Nothing:
    async def perform(self, effect_id: str, effect: Any, report: Any) -> EffectResult:
        raise NotImplementedError


NO_RUN_CONTROL = "it has no run control; make it with asterism.engine.control.define_machine(…), with a RunMemory as its memory"
REFUSED: dict[str, tuple[Any, dict[Any, Any], str]] = {
    "no result when it is cancelled": (
        machine("own", Vague),
        {Vague: Nothing()},
        "machine 'own': effect Vague has no method interrupted; define one that returns its result when it is cancelled",
    ),
    "an effect that is not declared": (
        machine(),
        {Work: Nothing()},
        "machine 'own': there is a performer for Work, which is not one of its declared effects; leave it out",
    ),
    "an effect that needs none": (
        machine(),
        {StartChild: Nothing()},
        "machine 'own': there is a performer for StartChild, which needs none; leave it out",
    ),
    "a class in place of an object": (
        machine("own", Work),
        {Work: Nothing},
        f"machine 'own': the performer of Work is {Nothing!r}; give an object with a method perform",
    ),
    "no result": (
        machine("own", memory=Silent),
        {},
        "machine 'own': its memory Silent has no method result; define one that returns the result of the run",
    ),
    "a field in place of a method": (
        machine("own", memory=Timed),
        {},
        "machine 'own': wake_at of its memory Timed is not a method; the driver calls it",
    ),
    "a machine that cannot be driven": (
        KETTLE,
        {},
        f"machine 'kettle': {NO_RUN_CONTROL}",
    ),
    "no machine": ("own", {}, "a form needs a machine, made by asterism.engine.control.define_machine(…); not 'own'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_invalid_form_is_rejected_in_one_line(what: str) -> None:
    given, performers, words = REFUSED[what]
    with pytest.raises(InvalidInput) as refused:
        Form(given, performers)
    assert str(refused.value) == words


def test_a_machine_without_effects_of_its_own_needs_no_performer() -> None:
    assert by_name(FORMS.values(), [Form(machine())])["own"].machine.name == "own"


def test_a_form_without_a_performer_serves_a_client_and_is_refused_where_it_is_driven(tmp_path: Any) -> None:
    form = Form(machine("own", Work))

    async def opened() -> None:
        async with asterism.open(tmp_path / "a.db", machines=[form]):
            pass

    with pytest.raises(InvalidInput, match="effect Work has no performer; give one in performers="):
        asyncio.run(opened())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*FORMS, "own"])
def test_a_duplicate_machine_name_is_rejected_before_anything_is_opened(name: str, tmp_path: Any) -> None:
    machines = [Form(machine("own")), Form(machine(name))]

    async def opened() -> None:
        async with asterism.open(tmp_path / "a.db", machines=machines):
            pass

    with pytest.raises(InvalidInput, match=f"^machine '{name}': another machine has this name; choose another name$"):
        asyncio.run(opened())
    assert list(tmp_path.iterdir()) == []


def test_a_machine_in_place_of_a_form_is_rejected() -> None:
    with pytest.raises(InvalidInput, match=r"machines\[0\]: .* is not a Form; give Form\(machine, performers=\{…\}\)"):
        by_name(FORMS.values(), [machine()])  # type: ignore[list-item]


def test_the_error_for_an_unknown_machine_says_what_to_do() -> None:
    with pytest.raises(InvalidInput) as refused:
        form_of(RunRow(run_id="r", machine="ferry", title="t", state="DONE"), FORMS)
    use = "name its form in ASTERISM_FORMS, or use the program that registers it, with asterism.open(machines=[Form(…)])"
    assert str(refused.value) == f"run r: its machine 'ferry' is not known here; {use}"


def test_the_ferry_of_the_tests_is_sound() -> None:
    assert registration().machine is FERRY
    assert Form(FERRY, {Carry: Crew(), Throw: Crew()}).performers.keys() == {Carry, Throw}


class Manifest(BaseView):
    def parts(self) -> Iterator[tuple[str, str]]:
        yield from super().parts()
        yield from (("parcel", name) for name in self.run.memory.seen.get("parcels", ()))

    def row(self, kind: str, key: str) -> dict[str, Any] | None:
        return {"over": True} if kind == "parcel" else super().row(kind, key)


def test_a_view_that_cannot_show_runs_is_rejected() -> None:
    with pytest.raises(InvalidInput, match=r"^machine 'ferry': its view is .*; give a class with the methods at and read"):
        Form(FERRY, {Carry: Crew(), Throw: Crew()}, view=Crew)


def test_a_machine_of_ones_own_brings_its_view_or_has_the_default_one(tmp_path: Any) -> None:
    async def shown(view: type[BaseView] | None) -> list[str]:
        own = Form(FERRY, {Carry: Crew(), Throw: Crew()}, view=view)
        async with asterism.open(tmp_path / "a.db", machines=[own]) as runtime:
            run = await runtime.submit(FERRY, Depart(parcels=("a", "b")), title="t", actor="me")
            await runtime.drive(run)
            return list(view_of(runtime.forms[FERRY.name], await runtime.load(run)).rows)

    assert sorted(asyncio.run(shown(Manifest))) == ["parcel:a", "parcel:b", "run"]
    assert asyncio.run(shown(None)) == ["run"]


def test_a_simulation_finds_a_custom_move_that_does_not_declare_its_changes() -> None:
    world = World(0, machines=[Form(FERRY, {Carry: Crew(), Throw: Crew()}, view=Manifest)])
    with pytest.raises(InvariantViolated, match=r"invariant 12 .* parcel:a is None by its deltas, but \{'over': True\} by its memory"):
        world.run_machine(FERRY, Depart(parcels=("a",)))


def test_a_simulation_checks_the_invariants_of_a_form_after_every_entry() -> None:
    def leaves_nothing(run: Run[Any]) -> str:
        return "b was left behind" if run.ended and "b" in run.memory.seen.get("parcels", ()) else ""

    own = Form(FERRY, {Carry: Crew(), Throw: Crew()}, checks=[leaves_nothing])
    assert World(1, machines=[own]).run_machine(FERRY, Depart(parcels=("a",))).outcome == "finished"
    with pytest.raises(InvariantViolated, match=r"invariant 16 \(the form's own invariants hold\) is violated: b was left behind"):
        World(1, machines=[own]).run_machine(FERRY, Depart(parcels=("a", "b")))


def test_a_view_or_history_that_is_named_is_imported_when_a_run_is_shown() -> None:
    form = Form(FERRY, view=f"{__name__}:Manifest", history="asterism.views.text.history:RunHistory")
    assert (form.view_class, form.history_class) == (Manifest, RunHistory)


@pytest.mark.parametrize("source", ["asterism.engine.control:Event", "asterism:Form"])
def test_a_setting_that_names_no_form_is_refused_in_one_line(source: str) -> None:
    environment = {**os.environ, "ASTERISM_FORMS": source}
    done = subprocess.run([sys.executable, "-m", "asterism.cli", "runs"], env=environment, capture_output=True, text=True, check=False)
    words = f"asterism: ASTERISM_FORMS: {source} is no asterism.Form\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", words)


class Swayed(Event, tag="swayed", frozen=True, kw_only=True):
    is_progress: ClassVar[bool] = False


def test_progress_of_a_users_machine_is_what_its_events_say() -> None:
    """A run that crashes again and again without progress is tried less and less often, also one of a machine that nobody here knows."""

    def swayed(memory: RunMemory, event: Swayed, context: StepContext) -> StrEnum:
        return context.state

    rows = {state: {**rows, Swayed: row(swayed)} for state, rows in FERRY.table.items()}
    rocking = Machine("ferry", states=FERRY.states, initial=FERRY.initial, table=rows, effects=FERRY.effects, memory=FERRY.memory)
    idle = idle_kinds([Form(rocking, {Carry: Crew(), Throw: Crew()})])
    assert {"swayed", "ownership_acquired"} <= {*idle}
    assert not {"depart", "carried", "answered"} & {*idle}
