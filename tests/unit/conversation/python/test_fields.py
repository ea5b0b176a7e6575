"""Typed fields, validators in three styles, rules, inheritance, JSON Schema, secrets."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, OutputField, StandardAgent, flowagent, rule
from asterism.conversation.python.parsing import SPOKEN, parse
from asterism.errors import InvalidInput
from asterism.words.reading.replies import FieldChange, change_of, denial, intent_of, is_yes
from tests.support.conversation_harness import Stage, memory_of, talk

THURSDAY = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC).timestamp()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "deep blue"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (str, " tea ", "tea"),
        (int, "4", 4),
        (int, "we are four", 4),
        (int, "1,200 please", 1200),
        (int, "-3", -3),
        (float, "it cost 12.50", 12.5),
        (bool, "yes please", True),
        (bool, "nope", False),
        (Colour, "RED", Colour.RED),
        (Colour, "the deep blue one", Colour.BLUE),
        (Literal["a", "b"], "b", "b"),
        (dt.date, "2026-03-01", dt.date(2026, 3, 1)),
        (dt.date, "tomorrow", dt.date(2026, 1, 2)),
        (dt.date, "on Friday", dt.date(2026, 1, 2)),
        (dt.date, "saturday", dt.date(2026, 1, 3)),
        (dt.date, "in two weeks", dt.date(2026, 1, 15)),
        (dt.date, "3rd of March", dt.date(2026, 3, 3)),
        (dt.date, "March 3, 2027", dt.date(2027, 3, 3)),
        (dt.time, "7 pm", dt.time(19)),
        (dt.time, "at 19:30", dt.time(19, 30)),
        (dt.datetime, "2026-03-01T10:00:00", dt.datetime(2026, 3, 1, 10)),  # noqa: DTZ001 - as it was said
        (dt.datetime, "tomorrow at 7 pm", dt.datetime(2026, 1, 2, 19, tzinfo=dt.UTC)),
        (list[str], "a, b and c", ["a", "b", "c"]),
        (list[int], "1 and 2", [1, 2]),
    ],
)
def test_a_message_gives_a_value_of_the_type(kind: Any, text: str, value: Any) -> None:
    assert parse(kind, text, THURSDAY) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, "2 or 3"), (int, "many"), (int, "2.5"), (int, "1.2.3"), (bool, "maybe"), (Colour, "green"), (Colour, "red or deep blue"),
        (dt.date, "soon"), (dt.date, "monday or tuesday"), (dt.date, "thursday"), (dt.date, "2026-02-30"), (dt.time, "25:00"), (str, "  "),
    ],
)  # fmt: skip
def test_a_message_with_no_value_or_two_is_rejected(kind: Any, text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(kind, text, THURSDAY)


def party(kind: Any, **more: Any) -> Any:
    return type("Party", (StandardAgent,), {"__annotations__": {"guests": kind}, "guests": InputField("Who?", **more)})


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (set, "set"),
        (dict, "dict"),
        (complex, "complex"),
        (list, "list"),
        (list[dict[str, int]], "list[dict[str, int]]"),
        (tuple[int, int], "tuple[int, int]"),
        (set[str] | None, "set[str]"),
    ],
)
def test_a_field_whose_type_no_message_can_give_is_rejected_in_its_class(kind: Any, named: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        party(kind)
    assert str(refused.value) == f"Party.guests: no words give a {named}; what is asked for is {SPOKEN}; anything else needs a default"


@pytest.mark.parametrize("kind", [str, int | str, uuid.UUID, dt.timedelta, Any, list[Colour], Literal["a", 1] | None], ids=str)
def test_a_field_whose_type_a_message_can_give_is_accepted(kind: Any) -> None:
    assert "guests" in party(kind).input_fields()


def test_a_field_with_a_default_may_be_of_any_type() -> None:
    assert party(dict, default={}).json_schema()["properties"]["guests"]["type"] == "object"


@pytest.mark.parametrize("text", ["yes", "Yes!", "y", "OK, go ahead", "yes, please", "Sounds good."])
def test_a_clear_yes(text: str) -> None:
    assert is_yes(text)
    assert denial(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "maybe",
        "yesterday",
        "not yes",
        "DISAPPROVE",
        "yes but not today",
        "yes no",
        "please",
        "",
        "eyes",
        "yes if it rains",
        "👍 no",
        "yes?",
        "ok? sure?",
        "no?",
    ],
)
def test_an_unclear_yes_is_not_a_yes(text: str) -> None:
    assert not is_yes(text)


@pytest.mark.parametrize(
    ("text", "reason"), [("no", ""), ("No thanks.", ""), ("no, too late", "too late"), ("no because of rain", "of rain")]
)
def test_a_clear_no_and_its_reason(text: str, reason: str) -> None:
    assert denial(text) == reason


@pytest.mark.parametrize("text", ["no, make it 80", "no: yes", "not", "nobody", "know", "no?", "No way?"])
def test_an_unclear_no_is_not_a_no(text: str) -> None:
    assert denial(text) is None


LABELS = {"guests": "guests", "name": "name", "title": "title", "what": "what"}


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("change the guests to 5", FieldChange("set", "guests", "5")),
        ("set name as Ann", FieldChange("set", "name", "Ann")),
        ("Actually, my name is Bob.", FieldChange("set", "name", "Bob")),
        ("no, the name is wrong", FieldChange("wrong", "name")),
        ("remove the title", FieldChange("remove", "title")),
        ("what: the bus", FieldChange("set", "what", "the bus")),
        ("change the title to Who am I?", FieldChange("set", "title", "Who am I?")),
        ("make it 80", None),
        ("no, I meant 5!", None),
        ("five", None),
        ("no: too late", None),
        ("the colour is red", None),
    ],
)
def test_a_change_by_name_has_the_field_and_the_value(text: str, change: FieldChange | None) -> None:
    assert change_of(text, LABELS) == change


def test_intents_are_whole_messages() -> None:
    assert (intent_of("Never mind!"), intent_of("what do you mean?"), intent_of("never mind the gap")) == ("cancel", "help", "")


# -- validators, rules, inheritance -------------------------------------------------------------------


def no_odd(value: int) -> str | None:
    return "it must be even" if value % 2 else None


def not_four(value: int) -> None:
    if value == 4:
        raise ValueError("four is taken")


class Stay(StandardAgent):
    rooms: int = InputField("Rooms?", ge=1, le=9, validator=[no_odd, not_four, lambda value: value != 8])
    start: dt.date = InputField("From?")
    end: dt.date = InputField("To?")
    note: str | None = InputField("A note?")
    pets: bool = InputField("Pets?", default=False)
    code = OutputField("the code of the stay")

    @rule("end", needs=["start"])
    def forward(self) -> bool:
        return bool(self.end > self.start)

    async def on_running(self, msg: Message) -> AgentResult:
        self.code = f"{self.rooms}-{self.start}-{self.pets}"
        return self.make_result(AgentStatus.COMPLETED, "Booked.")


class LongStay(Stay):
    start: dt.date = InputField("Beginning when?")
    note = None
    months: int = InputField("Months?", gt=0)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("3", "Rooms: it must be even. Rooms?"), ("4", "Rooms: four is taken. Rooms?"), ("8", "Rooms: that is not valid. Rooms?"),
        ("10", "Rooms: it must be between 1 and 9, not 10. Rooms?"), ("2", "From?"),
    ],
)  # fmt: skip
def test_validators_work_in_any_of_three_styles(said: str, told: str) -> None:
    assert talk(Stay, "go", said)[1][-1].raw_message == told


async def later(value: Any) -> bool:
    return True


class Bounded(StandardAgent):
    more: float = InputField("More?", gt=1, lt=3)
    few: int | None = InputField("Few?", le=3)
    word: str = InputField("Word?", min_length=2, max_length=4)
    price: Decimal = InputField("Price?", required=False)
    when: dt.datetime = InputField("When?")
    tags: list[str] = InputField("Tags?")
    slow = InputField("Slow?", validator=lambda value: later(value))  # noqa: PLW0108 - not seen to be async when the class is defined


ASKED_AGAIN = """More: I cannot find a number in 'x'. I would understand "12.50" or "twelve". More?"""


def test_bounds_are_explained_and_values_are_converted() -> None:
    lines = ("go", "1", "x", "2.5", "4", "skip", "w", "words", "word", "skip", "tomorrow at 7 pm", "a, b and c", "any")
    said = [turn.raw_message for turn in talk(Bounded, *lines)[1]]
    assert said[1:4] == ["More: it must be more than 1 and less than 3, not 1. More?", ASKED_AGAIN, "Few?"]
    assert said[4] == "Few: it must be at most 3, not 4. Few?"
    assert said[6:9] == ["Word: it must be at least 2 characters and at most 4 characters. Word?"] * 2 + ["Price?"]
    assert said[9:12] == ["When?", "Tags?", "Slow?"]
    assert "is async; move slow checks to on_running" in said[12]


def test_named_values_are_checked_and_the_valid_ones_stay() -> None:
    stage = Stage(Stay)
    turn = stage.turn("say", "", {"rooms": 3, "start": "2026-05-01", "end": "2026-04-01", "colour": "red"})
    result = stage.play(turn)
    assert result.raw_message == ("Rooms: it must be even. There is no colour here. End: that is not valid. Rooms?")
    assert result.fields == {"start": "2026-05-01"}
    assert result.missing_fields == ("rooms", "end", "note")


class Order(StandardAgent):
    requires_approval = True
    hot: bool = InputField("Hot?")
    extras: list[str] = InputField("Extras?")
    cups: int = InputField("Cups?", default=1)
    pin: str = InputField("PIN?", secret=True, default="0000")


def test_the_approval_shows_defaults_but_no_secrets_in_the_order_of_declaration() -> None:
    _, turns = talk(Order, "go", "yes", "salt and milk", "hot: no", "cups: 2")
    assert [turn.raw_message for turn in turns[2:]] == [
        "Order (hot: yes, extras: salt, milk, cups: 1). Go ahead? (yes/no)",
        "Order (hot: no, extras: salt, milk, cups: 1). Go ahead? (yes/no)",
        "Order (hot: no, extras: salt, milk, cups: 2). Go ahead? (yes/no)",
    ]
    assert list(turns[3].fields) == ["hot", "extras"]


@pytest.mark.parametrize(("said", "cups"), [((), 1), (("cups: 2",), 2)])
def test_the_subject_of_an_approval_has_the_defaults_and_no_secret(said: tuple[str, ...], cups: int) -> None:
    stage, _ = talk(Order, "go", "yes", "salt", *said)
    asked = list(stage.database.inquiries.values())[-1]
    assert msgspec.json.decode(asked.subject)["fields"] == {"hot": True, "extras": ["salt"], "cups": cups}


class Tea(StandardAgent):
    requires_approval = True
    cups: int = InputField("Cups?")
    sugar: int = InputField("Sugar?", default=0)
    day: dt.date = InputField("Day?", default=dt.date(2026, 1, 2))
    pin: int = InputField("PIN?", secret=True, default=1)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("make it 2026-02-02", "Tea (cups: 2, sugar: 0, day: 2026-02-02). Go ahead? (yes/no)"),
        ("no, 2026-02-02", "Tea (cups: 2, sugar: 0, day: 2026-02-02). Go ahead? (yes/no)"),
        ("no, 3 cups", "Tea (cups: 3, sugar: 0, day: 2026-01-02). Go ahead? (yes/no)"),
        ("make it 3 sugar", "Tea (cups: 2, sugar: 3, day: 2026-01-02). Go ahead? (yes/no)"),
        ("make it 3", 'Which one shall be 3? Write "cups: 3" or "sugar: 3". Tea (cups: 2, sugar: 0, day: 2026-01-02). Go ahead? (yes/no)'),
        ("sugar: 3", "Tea (cups: 2, sugar: 3, day: 2026-01-02). Go ahead? (yes/no)"),
    ],
)
def test_a_correction_without_a_name_applies_to_the_values_in_the_approval(said: str, answer: str) -> None:
    assert talk(Tea, "go", "2", said)[1][-1].raw_message == answer


def test_going_back_skips_fields_with_defaults() -> None:
    _, turns = talk(Order, "go", "yes", "cups: 2", "back", "no", "salt")
    assert [turn.raw_message for turn in turns[2:]] == [
        "Extras?", "Hot?", "Extras?", "Order (hot: no, extras: salt, cups: 2). Go ahead? (yes/no)",
    ]  # fmt: skip


def test_help_explains_bounds_and_options() -> None:
    assert talk(Stay, "go", "help")[1][-1].raw_message == "It is the rooms I need; it must be between 1 and 9. Rooms?"
    assert talk(Order, "go", "help")[1][-1].raw_message == "It is the hot I need; it is yes or no. Hot?"


def test_outputs_are_in_the_data_and_defaults_replace_missing_values() -> None:
    _, turns = talk(Stay, "go", "2", "2026-05-01", "2026-05-03", "skip")
    assert (turns[-1].status, turns[-1].data) == ("COMPLETED", {"code": "2-2026-05-01-False"})


def test_a_subclass_inherits_changes_and_drops_fields() -> None:
    assert list(LongStay.input_fields()) == ["rooms", "start", "end", "pets", "months"]
    assert LongStay.input_fields()["start"].prompt == "Beginning when?"
    assert list(Stay.input_fields()) == ["rooms", "start", "end", "note", "pets"]


def test_the_json_schema_has_types_bounds_and_required_fields() -> None:
    class Shirt(StandardAgent):
        colour: Colour = InputField("Colour?")
        size: int = InputField("Size?", ge=30, le=60, description="European size")
        name: str | None = InputField("Name?", max_length=10)
        rush: bool = InputField("Rush?", default=False)
        pin: str = InputField("PIN?", secret=True)

    schema = Shirt.json_schema()
    assert schema["required"] == ["colour", "size", "pin"]
    assert schema["properties"]["size"] == {"type": "integer", "minimum": 30, "maximum": 60, "description": "European size"}
    assert schema["properties"]["rush"]["default"] is False
    assert schema["properties"]["pin"]["writeOnly"] is True
    assert schema["$defs"]["Colour"]["enum"] == ["deep blue", "red"]


def test_an_undefined_annotation_is_an_error_with_its_name() -> None:
    class Lost(StandardAgent):
        what: Nowhere = InputField("What?")  # type: ignore[name-defined]  # noqa: F821 - the point

    with pytest.raises(InvalidInput, match=r"Lost\.what"):
        Lost.json_schema()


@pytest.mark.parametrize("wrong", [object, lambda: None, 3])
def test_flowagent_accepts_only_agents(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="StandardAgent"):
        flowagent(wrong)


def test_flowagent_bare_and_with_arguments() -> None:
    @flowagent
    class Bare(StandardAgent):
        """Do it plainly."""

    @flowagent(triggers=["x"], requires_approval=True, description="Do x", timeout_s=5)
    class Full(StandardAgent):
        pass

    assert (Bare.triggers, Bare.requires_approval, Bare.description) == ((), False, "Do it plainly.")
    assert (Full.triggers, Full.requires_approval, Full.description, Full.timeout_s) == (("x",), True, "Do x", 5)
    with pytest.raises(InvalidInput, match="list of words"):
        flowagent(triggers="x")(Bare)


# -- what is kept of an agent --------------------------------------------------------------------------


class Counting(StandardAgent):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._cache: object = object()

    async def on_initializing(self, msg: Message) -> AgentResult:
        self.count += 1
        if msg.get_text() == "bad":
            self.handle = object()
        return self.make_result(raw_message=f"{self.count}")


def test_instance_variables_survive_the_process() -> None:
    stage, turns = talk(Counting, "a", "b", "c")
    assert [turn.raw_message for turn in turns] == ["1", "2", "3"]
    assert stage.play(memory_of(stage)).view.flags == {"count": 3}


def test_an_instance_variable_that_is_not_json_is_an_error_with_a_remedy() -> None:
    _, turns = talk(Counting, "bad")
    assert turns[-1].status == "ERROR"
    assert "begin its name with _" in turns[-1].raw_message
