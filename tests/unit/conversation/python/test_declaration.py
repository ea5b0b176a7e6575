"""A class that is wrong is refused where it is written, with the class, the attribute and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, OutputField, StandardAgent, flowagent, rule
from asterism.conversation.python.declaration import options_of
from asterism.errors import InvalidInput
from tests.support.conversation_harness import talk

OWN_NAMES = sorted(name for name in dir(StandardAgent) if not name.startswith("_"))


def written(**attributes: Any) -> type:
    return type("Ticket", (StandardAgent,), {"__annotations__": {}, **attributes})


def refusal(**attributes: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        written(**attributes)
    return str(refused.value)


async def handle(self: Any, msg: Message) -> None:
    return None


@pytest.mark.parametrize("name", [*OWN_NAMES, "_state"])
@pytest.mark.parametrize("field", [InputField, lambda _: OutputField()])
def test_a_field_with_the_name_of_an_attribute_of_every_agent_is_refused(name: str, field: Callable[[str], Any]) -> None:
    said = refusal(**{name: field("What?")})
    assert said.startswith(f'Ticket.{name}: every flow agent has an attribute "{name}"')
    assert f'"ticket_{name}"' in said


def test_such_a_field_of_a_class_beside_is_refused_too() -> None:
    class Described:
        description = InputField("What is wrong?")

    with pytest.raises(InvalidInput, match=r"Ticket\.description: every flow agent"):
        type("Ticket", (StandardAgent, Described), {})


def test_a_field_that_a_parent_has_may_be_replaced_or_fixed() -> None:
    class Trip(StandardAgent):
        to = InputField("Where to?")
        via = InputField("Via?")

        def validate_to(self, value: str) -> None: ...

    class Home(Trip):
        to = "home"
        via = InputField("By which road?")

    assert list(Home.input_fields()) == ["via"]


@pytest.mark.parametrize(
    ("name", "method", "said"),
    [
        (
            "validate_guest",
            lambda self, value: None,
            'is for the field "guest", which Ticket does not have; its fields are guests; did you',
        ),
        ("validate_guests", lambda self: None, "takes other arguments; define it as validate_guests(self, value)"),
        ("validate_guests", handle, "is async; move slow checks to on_running"),
        ("check", rule("guest")(lambda self: None), 'is for the field "guest", which Ticket does not have; its fields are guests; did you'),
        (
            "check",
            rule("guests", needs=["day"])(lambda self: None),
            'is for the field "day", which Ticket does not have; its fields are guests',
        ),
        ("check", rule("guests")(lambda: None), "takes other arguments; define it as check(self)"),
        ("check", rule("guests")(handle), "is async; move slow checks to on_running"),
    ],
)
def test_a_validator_or_rule_that_would_never_be_called_is_refused(name: str, method: Any, said: str) -> None:
    assert refusal(guests=InputField("How many?"), **{name: method}).startswith(f"Ticket.{name} {said}")


def test_a_rule_without_a_field_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r'@rule of .*handle needs the name of a field: @rule\("name"\)'):
        rule(handle)  # type: ignore[arg-type]


def test_a_rule_of_a_parent_needs_its_fields_in_each_child() -> None:
    class Trip(StandardAgent):
        first = InputField("First?")
        last = InputField("Last?")

        @rule("last", needs=["first"])
        def in_order(self) -> bool:
            return bool(self.first <= self.last)

    with pytest.raises(InvalidInput, match=r'Day\.in_order is for the field "first", which Day does not have; its fields are last'):
        type("Day", (Trip,), {"first": "today"})


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (InputField("How many?", pattern="("), "the pattern '(' is not a regular expression: missing ) at position 1"),
        (InputField("How many?", ge=1), "its bounds cannot be used: Can only set `ge` on a numeric type"),
        (InputField("How many?", min_length=-1), "its bounds cannot be used: `min_length` must be >= 0, got -1"),
        (InputField("How many?", default=4), "the default 4 is no value of the field: Expected `str`, got `int`"),
        (InputField("How many?", validator="even"), "a validator is a function of the value that is not async, not 'e'"),  # type: ignore[arg-type]
        (InputField("How many?", validator=[handle]), "a validator is a function of the value that is not async"),
        (InputField(5), "the question of an InputField is a text, not 5"),  # type: ignore[arg-type]
    ],
)
def test_a_field_that_could_not_be_used_is_refused(field: Any, said: str) -> None:
    assert refusal(guests=field).startswith(f"Ticket.guests: {said}")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("on_running", lambda self: None, " takes other arguments; define it as on_running(self, msg)"),
        ("on_running", "now", ': every flow agent has a method "on_running"; use another name'),
        ("extract_fields", lambda self, msg: {}, " is not async; define it with async def"),
        ("get_approval_prompt", handle, " is async; define it with def"),
        ("can_transition", lambda self, state: True, " takes other arguments; define it as can_transition(self, from_state, to_state)"),
        ("key", "abc", ': every flow agent has a property "key"; use another name'),
        ("report", 5, ': every flow agent has a method "report"; use another name'),
        ("input_fields", lambda self: {}, ': every flow agent has a class method "input_fields"; use another name'),
        ("on_runing", handle, ": a flow agent has no such attribute; did you mean on_running?"),
        ("requires_aproval", True, ": a flow agent has no such attribute; did you mean requires_approval?"),
    ],
)
def test_an_attribute_that_would_do_something_else_is_refused(name: str, value: Any, said: str) -> None:
    assert refusal(**{name: value}).startswith(f"Ticket.{name}{said}")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("triggers", "book", "Ticket.triggers is a list of words, not 'book'"),
        ("triggers", ("book", ""), "Ticket.triggers is a list of words, not ('book', ''): Expected `str` of length >= 1 - at `$[1]`"),
        ("requires_approval", "yes", "Ticket.requires_approval is true or false, not 'yes'"),
        ("requires_approval", property(lambda self: True), "Ticket.requires_approval is true or false, not <property"),
        ("description", 5, "Ticket.description is a text, not 5: Expected `str`, got `int`"),
        ("timeout_s", 0, "Ticket.timeout_s is a number of seconds above 0, not 0: Expected `float` > 0.0"),
        ("timeout_s", None, "Ticket.timeout_s is a number of seconds above 0, not None: Expected `float`, got `null`"),
        ("idempotent", 1, "Ticket.idempotent is true or false, not 1: Expected `bool`, got `int`"),
        ("approval_timeout_s", "a day", "Ticket.approval_timeout_s is a number of seconds above 0, or None, not 'a day'"),
        ("idle_timeout_s", -1, "Ticket.idle_timeout_s is a number of seconds above 0, or None, not -1: Expected `float` > 0.0"),
    ],
)
def test_an_option_with_a_wrong_value_is_refused_in_the_class_and_in_the_decorator(name: str, value: Any, said: str) -> None:
    assert refusal(**{name: value}).startswith(said)
    with pytest.raises(InvalidInput) as refused:
        flowagent(**{name: value})(written())
    assert str(refused.value).startswith(said)


def test_the_decorator_takes_every_option_and_no_other() -> None:
    given: dict[str, Any] = {
        "triggers": ("book",),
        "description": "Book",
        "timeout_s": 5,
        "requires_approval": True,
        "idempotent": True,
        "resumable": True,
    }
    given |= {"approval_timeout_s": None, "idle_timeout_s": 60.0, "language": "de", "time_zone": "Europe/Berlin", "plan": None}
    agent = flowagent(**given)(written())
    assert {name: getattr(agent, name) for name in options_of(StandardAgent)} == given
    with pytest.raises(
        InvalidInput, match=r"^@flowagent has no option requires_aproval; did you mean requires_approval\?; it has triggers, "
    ):
        flowagent(requires_aproval=True)  # type: ignore[call-overload]


def test_the_decorator_can_take_back_an_option_of_the_parent() -> None:
    parent = flowagent(requires_approval=True)(written())
    child: Any = flowagent(requires_approval=False)(type("Child", (parent,), {}))
    assert child.requires_approval is False


@pytest.mark.parametrize("handler", ["on_initializing", "on_waiting_for_input", "on_running"])
@pytest.mark.parametrize("returned", ["done", {"status": "COMPLETED"}, AgentStatus.COMPLETED])
def test_a_handler_that_returns_something_else_is_named(handler: str, returned: Any) -> None:
    async def wrong(self: StandardAgent, msg: Message) -> Any:
        return returned

    lines = ("go",) if handler == "on_initializing" else ("go", "4")
    result = talk(written(guests=InputField("How many?"), **{handler: wrong}), *lines)[1][-1]
    assert result.status == "ERROR"
    assert result.reason == f"TypeError: {handler} returned {type(returned).__name__}; return self.make_result(…)"


def test_on_running_with_a_result_of_another_status_is_named() -> None:
    async def wrong(self: StandardAgent, msg: Message) -> AgentResult:
        return AgentResult(status=AgentStatus.COMPLETED)

    result = talk(written(on_running=wrong), "go")[1][-1]
    assert result.reason.startswith("TypeError: on_running returned a result of COMPLETED, and the agent is RUNNING")
