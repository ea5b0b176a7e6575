from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pytest

from asterism.engine.kernel.machine import (
    Effect,
    Event,
    Move,
    RecoveryPolicy,
    RequestFactory,
    Row,
    StartRequest,
    StepContext,
    kind_of,
    mermaid,
    row,
)
from asterism.errors import ForbiddenTarget, IllegalTransition, InvalidInput
from tests.support.kettle_machine import (
    KETTLE,
    TABLE,
    Boiled,
    Heat,
    Kettle,
    Lift,
    Memory,
    Peek,
    Press,
    Stopped,
    Switch,
    Weigh,
    boiled,
    lift,
    make_kettle,
    peek,
    press,
    settled,
)

Rows = dict[type[Event], Row]


class Radio(StrEnum):
    ON = "ON"


class Unheard(Event, tag="unheard", frozen=True, kw_only=True):
    pass


def silent(memory, event, context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - a move without annotations is the case
    return Kettle.COLD


def astray(memory: Memory, event: Press, context: StepContext) -> Kettle:
    return Kettle.HOT


def turn_at(seq: int = 1) -> StepContext:
    return StepContext(run_id="r", seq=seq, at=5.0, actor="me", state=Kettle.COLD)


# -- common rows -------------------------------------------------------------------------------------


def stay(memory: Memory, event: Weigh, context: StepContext) -> StrEnum:
    return context.state


def test_a_move_knows_the_state_it_is_in_so_one_row_serves_every_state() -> None:
    kettle = make_kettle(table={**TABLE, Kettle.COLD: {Press: row(press, Kettle.HEATING)}}, common={Weigh: row(stay)})
    assert [kettle.step(state, Memory(), Weigh(), StepContext(run_id="r", seq=1, at=0.0, actor="me", state=state)) for state in Kettle] == [
        *Kettle
    ]


def test_a_row_of_a_state_stands_before_a_common_one() -> None:
    kettle = make_kettle(common={Weigh: row(stay)})
    assert kettle.table[Kettle.COLD][Weigh] is TABLE[Kettle.COLD][Weigh]


def test_a_row_for_runs_that_go_on_is_in_no_state_in_which_they_have_ended() -> None:
    kettle = make_kettle(while_live={Weigh: row(stay)})
    assert [Weigh in kettle.table[state] for state in Kettle] == [True, True, False]


# -- what is checked when a machine is defined -------------------------------------------------------


def test_a_state_without_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="no row for HOT"):
        make_kettle(table={Kettle.COLD: TABLE[Kettle.COLD], Kettle.HEATING: TABLE[Kettle.HEATING]})


def test_a_state_that_cannot_be_reached_is_refused() -> None:
    with pytest.raises(ValueError, match="HOT cannot be reached"):
        make_kettle(table={**TABLE, Kettle.HEATING: {Lift: row(lift, Kettle.COLD)}})


def test_a_row_whose_move_is_for_another_event_is_refused() -> None:
    with pytest.raises(ValueError, match="COLD: the row for Lift has a move for another event"):
        make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], Lift: row(press, Kettle.HEATING)}})


def test_a_move_that_does_not_say_what_it_is_for_is_refused() -> None:
    with pytest.raises(ValueError, match="COLD: silent does not declare its event; annotate its second parameter with Peek"):
        make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], Peek: row(silent)}})


def test_a_move_that_is_made_for_several_states_is_checked_in_each() -> None:
    def pressed(target: Kettle) -> Move:
        def move(memory: Memory, event: Press, context: StepContext) -> Kettle:
            return target

        return move

    cold: dict[type[Event], Row] = {**TABLE[Kettle.COLD], Press: row(pressed(Kettle.HEATING), Kettle.HEATING)}
    heating: dict[type[Event], Row] = {**TABLE[Kettle.HEATING], Lift: row(pressed(Kettle.COLD), Kettle.COLD)}
    with pytest.raises(ValueError, match="HEATING: the row for Lift has a move for another event"):
        make_kettle(table={**TABLE, Kettle.COLD: cold, Kettle.HEATING: heating})


def test_a_target_of_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="ON is not one of its states"):
        make_kettle(table={**TABLE, Kettle.HEATING: {**TABLE[Kettle.HEATING], Boiled: row(boiled, Kettle.HOT, Radio.ON)}})


def test_rows_for_a_state_of_another_machine_are_refused() -> None:
    with pytest.raises(ValueError, match="ON is not one of its states"):
        make_kettle(table={**TABLE, Radio.ON: {}})


def test_an_initial_state_of_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="ON is not one of its states"):
        make_kettle(initial=Radio.ON)


def seen(memory: Memory, event: Event, context: StepContext) -> None:
    return None


def test_two_events_of_one_tag_are_refused() -> None:
    namesake = type("Glance", (Event,), {}, frozen=True, kw_only=True, tag="peek")
    with pytest.raises(ValueError, match="two kinds have the tag 'peek'"):
        make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], namesake: row(seen)}})


@pytest.mark.parametrize(
    ("name", "tag", "has"),
    [
        ("Glance", None, "no tag"),
        ("Glance", True, "the tag 'Glance'"),
        ("glance", True, "the tag 'glance'"),
        ("Glance", "lookAt", "the tag 'lookAt'"),
        ("Glance", "look_", "the tag 'look_'"),
        ("Glance", 7, "the tag 7"),
    ],
)
def test_a_kind_without_a_name_of_its_own_for_journals_is_refused(name: str, tag: Any, has: str) -> None:
    why = f"{name} has {has}; its name in journals is a tag in snake_case that is not the name of the class"
    event = type(name, (Event,), {}, frozen=True, kw_only=True, tag=tag)
    with pytest.raises(ValueError, match=why):
        make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], event: row(seen)}})
    effect = type(name, (Effect,), {}, frozen=True, kw_only=True, tag=tag)
    with pytest.raises(ValueError, match=why):
        make_kettle(effects=(Heat, Switch, effect))


@pytest.mark.parametrize("more", [{"tag_field": "kind"}, {"array_like": True}])
def test_a_kind_that_a_journal_could_not_read_back_is_refused(more: Any) -> None:
    event = type("Glance", (Event,), {}, frozen=True, kw_only=True, tag="glance", **more)
    with pytest.raises(ValueError, match="Glance sets tag_field or array_like; remove that"):
        make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], event: row(seen)}})
    effect = type("Glance", (Effect,), {}, frozen=True, kw_only=True, tag="glance", **more)
    with pytest.raises(ValueError, match="Glance sets tag_field or array_like; remove that"):
        make_kettle(effects=(Heat, Switch, effect))


@pytest.mark.parametrize("rules", [0, 1000, 1.5, True, "2"])
def test_rules_of_no_version_are_refused(rules: Any) -> None:
    with pytest.raises(ValueError, match=f"rules: {rules!r} is not a version from 1 to 999"):
        make_kettle(rules=rules)


def test_a_kind_is_named_by_its_tag_and_not_by_its_class() -> None:
    assert (kind_of(Press()), kind_of(Heat), kind_of(type("Glance", (Event,), {}, tag="look_at"))) == ("press", "heat", "look_at")


def test_a_request_of_what_is_no_effect_of_the_machine_is_unsound() -> None:
    with pytest.raises(ValueError, match="requests: Heat is not one of its effects"):
        make_kettle(effects=(Switch,), requests={Heat: RequestFactory(lambda run, effect_id, effect: effect)})


def test_all_defects_of_a_table_are_reported_together() -> None:
    with pytest.raises(ValueError, match=r"machine 'kettle' is not sound: .*no row for HEATING.*no row for HOT.*HOT cannot be reached"):
        make_kettle(table={Kettle.COLD: {Press: row(press, Kettle.HEATING)}})


# -- a step ------------------------------------------------------------------------------------------


def test_a_step_gives_the_next_state_and_the_effects() -> None:
    memory, context = Memory(), turn_at(seq=7)
    assert KETTLE.step(Kettle.COLD, memory, Press(litres=2.0), context) is Kettle.HEATING
    assert context.effects == [Heat(litres=2.0)]
    assert memory.heating == "r:7.0"


def test_the_ids_of_effects_count_within_their_entry() -> None:
    context = turn_at(seq=3)
    assert [context.schedule(Heat(litres=1.0)), context.schedule(Switch(target="x"))] == ["r:3.0", "r:3.1"]


def test_an_event_without_a_row_raises_and_says_what_was_accepted() -> None:
    memory, context = Memory(), turn_at()
    with pytest.raises(IllegalTransition) as raised:
        KETTLE.step(Kettle.HEATING, memory, Press(), context)
    told = raised.value
    assert (told.machine, told.state, told.event, told.accepted) == ("kettle", "HEATING", "press", ("boiled", "lift", "peek"))
    assert str(told) == "kettle in HEATING does not accept press; accepted: boiled, lift, peek"
    assert not context.effects
    assert memory.litres == 0.0


def test_a_target_that_the_row_forbids_raises() -> None:
    kettle = make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], Press: row(astray, Kettle.HEATING)}})
    with pytest.raises(ForbiddenTarget, match="does not accept press to HOT; accepted: HEATING"):
        kettle.step(Kettle.COLD, Memory(), Press(), turn_at())


def test_staying_is_allowed_only_to_internal_rows() -> None:
    assert row(peek).internal
    assert not row(press, Kettle.HEATING).internal
    assert row(press, Kettle.HEATING, internal=True).internal


def test_internal_rows_are_no_edges() -> None:
    assert KETTLE.matrix() == {
        Kettle.COLD: {Kettle.HEATING},
        Kettle.HEATING: {Kettle.HOT, Kettle.COLD},
        Kettle.HOT: frozenset(),
    }


# -- what a state and an effect say of themselves ----------------------------------------------------


def test_a_state_without_another_next_state_is_terminal() -> None:
    assert [state for state in Kettle if KETTLE.is_terminal(state)] == [Kettle.HOT]


def test_a_machine_may_say_that_a_state_with_an_exit_is_an_end() -> None:
    kettle = make_kettle(ends=[Kettle.HEATING])
    assert kettle.is_terminal(Kettle.HEATING)
    assert kettle.matrix() == KETTLE.matrix()


def test_an_effect_is_performed_again_under_its_key_unless_it_says_otherwise() -> None:
    assert Switch(target="x").recovery_policy is RecoveryPolicy.RETRY_SAME_KEY
    assert Heat(litres=1.0).recovery_policy is RecoveryPolicy.REATTACH
    assert (Switch(target="x").cancels, Heat(litres=1.0).cancels) == ("x", "")
    assert Heat(litres=1.0).actor == "system"


def test_an_effect_without_an_interrupted_result_raises_its_name() -> None:
    with pytest.raises(NotImplementedError, match="Switch"):
        Switch(target="x").interrupted("e", "why")


class Defined(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


def test_a_definition_is_read_as_the_type_that_its_machine_gives_it() -> None:
    assert StartRequest(definition={"name": "x"}).defined_as(Defined) == Defined("x")


@pytest.mark.parametrize(
    ("definition", "why"),
    [({}, "missing required field `name`"), ({"name": 5}, "Expected `str`, got `int`"), ({"name": "x", "nam": 1}, "unknown field `nam`")],
)
def test_an_invalid_definition_is_refused_in_words(definition: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^a run cannot be started: its definition is not a valid Defined: [^\n]*{why}"):
        StartRequest(definition=definition).defined_as(Defined)


@pytest.mark.parametrize(
    ("budget_s", "own_s", "limit_s"), [(None, 7.0, 7.0), (None, 100.0, 100.0), (5.0, 7.0, 5.0), (9.0, 7.0, 7.0), (200.0, 100.0, 200.0)]
)
def test_a_run_has_the_least_of_its_own_limit_and_its_budget_and_a_default_shortens_no_budget(
    budget_s: float | None, own_s: float, limit_s: float
) -> None:
    assert StartRequest(definition={}, budget_s=budget_s).limit_s(own_s, default_s=100.0) == limit_s


def test_a_request_that_a_journal_gives_back_is_the_same() -> None:
    start = StartRequest(definition={"name": "x"}, request="do it", inputs={"a": [1, None]}, budget_s=2.5, fleet_file="/f.toml")
    assert msgspec.json.decode(msgspec.json.encode(start), type=StartRequest) == start


def test_a_table_is_drawn_without_its_internal_rows() -> None:
    assert mermaid(KETTLE) == (
        "stateDiagram-v2\n"
        "    [*] --> COLD\n"
        "    COLD --> HEATING: press\n"
        "    HEATING --> COLD: lift\n"
        "    HEATING --> HOT: boiled\n"
        "    HOT --> [*]\n"
    )


def test_events_with_one_target_share_an_arrow() -> None:
    heating: Rows = {**TABLE[Kettle.HEATING], Lift: row(lift, Kettle.COLD), Stopped: row(settled, Kettle.COLD)}
    assert "    HEATING --> COLD: lift, stopped\n" in mermaid(make_kettle(table={**TABLE, Kettle.HEATING: heating}))


def test_a_drawing_is_the_same_every_time() -> None:
    heating: Rows = {**TABLE[Kettle.HEATING], Boiled: row(settled, Kettle.HOT, Kettle.COLD)}
    assert len({mermaid(make_kettle(table={**TABLE, Kettle.HEATING: heating})) for _ in range(20)}) == 1
