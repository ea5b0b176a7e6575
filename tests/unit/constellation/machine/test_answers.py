"""What an edit of arguments changes, and which types the values of an answer have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asterism.constellation.machine.answers import edited_arguments
from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.ports.store import InquiryRow
from asterism.errors import InvalidInput
from tests.support.constellation_harness import Agent

REFERENCE = "${secret.SHOP_TOKEN}"

ROW = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}
PARAMETERS = {
    "type": "object",
    "properties": {
        "prices": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        "amount": {"type": "number"},
        "day": {"type": "string", "format": "date"},
        "note": {},
    },
    "$defs": {"Row": ROW},
}


def question(arguments: Any, **more: Any) -> InquiryRow:
    subject = {"task_id": "publish", "arguments": arguments, **more}
    return InquiryRow(inquiry_id="run:1.0", run_id="run", question="Run publish?", verbs=("approve", "edit"), subject=json.dumps(subject))


def test_a_secret_that_an_edit_leaves_as_shown_stays_as_it_is() -> None:
    asked = question({"price": 1050, "token": REFERENCE})
    assert edited_arguments(json.loads(asked.subject), {"price": 1095, "token": REFERENCE}) == {"price": 1095}


@pytest.mark.parametrize("shown", [REFERENCE, {"url": "shop", "token": REFERENCE}, [f"Bearer {REFERENCE}"]])
def test_an_argument_with_a_secret_cannot_be_edited(shown: Any) -> None:
    with pytest.raises(InvalidInput, match="argument token is a secret, and answers are journaled: leave it out"):
        edited_arguments(json.loads(question({"token": shown}).subject), {"token": "sesame"})


def test_an_edit_brings_no_references() -> None:
    with pytest.raises(InvalidInput, match="only the arguments shown are approved: give a value, or leave it out"):
        edited_arguments(json.loads(question({"note": "x", "token": REFERENCE}).subject), {"note": [f"see {REFERENCE}"]})


def test_an_edit_of_other_things_than_the_arguments_of_a_task_is_not_changed() -> None:
    asked = InquiryRow(
        inquiry_id="run:1.0",
        run_id="run",
        question="Call it?",
        verbs=("edit",),
        subject='{"tool": "pay", "arguments": {"token": "${secret.X}"}}',
    )
    assert edited_arguments(json.loads(asked.subject), {"token": "${secret.X}"}) == {"token": "${secret.X}"}


def asks(output: Any = None, *, requires_approval: bool) -> Agent:
    """An agent that asks about a task."""
    skill = Skill(name="publish", parameters=PARAMETERS, output=output)
    task = {"task_id": "publish", "device": "s", "skill": "publish", "inputs": {"amount": "3"}, "requires_approval": requires_approval}
    return Agent({"tasks": [task]}, fleet=(AgentProfile(device_id="s", skills=(skill,)),))


def interrupted(output: Any) -> Agent:
    """An agent that asks about a task that may have finished."""
    agent = asks(output, requires_approval=False)
    agent.ends("publish", error="interrupted")
    return agent


def refusal(agent: Agent, verb: Verb, value: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        agent.memory.check_values(agent.answer(verb, value))
    return str(refused.value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"amount": "x"}, "amount: publish takes number, not str"),
        ({"amount": "4"}, "amount: publish takes number, not str"),
        ({"amount": True}, "amount: publish takes number, not bool"),
        ({"amount": None}, "amount: publish takes number, not null"),
        ({"day": "tomorrow"}, 'day: publish takes date such as 2026-11-23, not "tomorrow"'),
        ({"prices": [{"price": 1}, {"price": "2"}]}, "prices[1].price: publish takes number, not str"),
        ({"prices": [{"cost": 1}]}, "prices[0]: publish takes an object with price; price is missing"),
    ],
)
def test_an_edit_is_checked_to_its_innermost_values_before_the_approval_is_spent(value: dict[str, Any], told: str) -> None:
    assert refusal(asks(requires_approval=True), "edit", value) == f"publish.inputs.{told}"


def test_an_edit_of_the_declared_types_is_accepted() -> None:
    value = {"prices": [{"price": 2, "more": "x"}], "amount": 2.5, "day": "2026-12-01", "note": [None]}
    agent = asks(requires_approval=True)
    answer = agent.answer("edit", value)
    agent.memory.check_values(answer)
    agent.batch(answer)
    assert agent.attempt("publish").arguments == value


def test_the_inputs_of_a_nested_plan_have_no_declared_types() -> None:
    nested = {"tasks": [{"task_id": "b", "device": "s", "skill": "publish", "inputs": {"note": "${inputs.note}"}}]}
    task = {"task_id": "a", "constellation": nested, "inputs": {"note": "x"}, "requires_approval": True}
    agent = Agent({"tasks": [task]}, fleet=(AgentProfile(device_id="s", skills=(Skill(name="publish", parameters=PARAMETERS),)),))
    agent.memory.check_values(agent.answer("edit", {"note": 3}))


def test_an_argument_that_an_edit_leaves_as_shown_is_not_checked_as_it_would_be_in_an_approval() -> None:
    agent = asks(requires_approval=True)
    agent.memory.check_values(agent.answer("edit", {"amount": "3", "note": "new"}))


@pytest.mark.parametrize(
    ("output", "value", "told"),
    [
        ({"type": "integer"}, "six", "publish.result: publish returns integer, not str"),
        ({"type": "null"}, "done", "publish.result: publish returns null, not str"),
        ({"type": "array", "items": ROW}, [{"price": 1}, {"price": "2"}], "publish.result[1].price: publish returns number, not str"),
        (ROW, {}, "publish.result: publish returns an object with price; price is missing"),
    ],
)
def test_a_result_of_a_person_is_checked_against_the_declared_type(output: Any, value: Any, told: str) -> None:
    assert refusal(interrupted(output), "respond", value) == told


@pytest.mark.parametrize(("output", "value"), [({"type": "integer"}, 6), ({"type": "null"}, None), (None, "six"), (ROW, {"price": 1})])
def test_a_result_of_a_person_that_fits_or_whose_type_is_not_declared_is_the_result(output: Any, value: Any) -> None:
    agent = interrupted(output)
    answer = agent.answer("respond", value)
    agent.memory.check_values(answer)
    agent.batch(answer)
    assert agent.task("publish").result == value
