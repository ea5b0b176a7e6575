"""What people do around values: several changes at once, "yes, but", complaints at a text, wishes in other words, and other languages."""

from __future__ import annotations

import datetime as dt
import enum
from typing import Any, ClassVar

import pytest

from asterism.conversation.python import InputField, StandardAgent
from tests.support.conversation_harness import talk


class Seating(enum.Enum):
    INSIDE = "inside"
    TERRACE = "terrace"


class Table(StandardAgent):
    requires_approval = True
    triggers: ClassVar[list[str]] = ["table", "tisch", "mesa"]
    guests: int = InputField("How many?", ge=1, le=20)
    day: dt.date = InputField("Which day?")
    name: str = InputField("Which name?")
    seating: Seating | None = InputField("Where?")

    def get_approval_prompt(self) -> str:
        return f"{self.guests}, {self.day}, {self.name}, {self.seating and self.seating.value}?"


class Tisch(Table):
    language = "de"


class Mesa(Table):
    language = "es"


class Leave(StandardAgent):
    requires_approval = True
    triggers: ClassVar[list[str]] = ["leave"]
    first: dt.date = InputField("From?")
    last: dt.date = InputField("Until?")
    reason: str | None = InputField("Why?")

    def get_approval_prompt(self) -> str:
        return f"{self.first} to {self.last}, {self.reason}?"


def said(agent: type[StandardAgent], *lines: str) -> str:
    return talk(agent, *lines)[1][-1].raw_message


START: dict[type[StandardAgent], str] = {
    Table: "table for 4 on 2026-03-06",
    Tisch: "tisch für 4 am 2026-03-06",
    Mesa: "mesa para 4 el 2026-03-06",
}
READY = ("table for 4 on 2026-03-06", "Ann Lee", "terrace")


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("the day is 2026-03-07, and make it 5", "5, 2026-03-07, Ann Lee, terrace?"),
        ("make it 5 and the name is Bob Ray", "5, 2026-03-06, Bob Ray, terrace?"),
        ("no, the name is wrong, it should be Bob Ray", "4, 2026-03-06, Bob Ray, terrace?"),
        ("the name is wrong", "What is the name then? Which name?"),
        ("name: O'Brien-Schäfer, with a hyphen", 'Shall I take this as the name: "O\'Brien-Schäfer, with a hyphen"? (yes/no)'),
        ("name should be just Bob Ray please", "4, 2026-03-06, Bob Ray, terrace?"),
        ("yes, but on 2026-03-07", "4, 2026-03-07, Ann Lee, terrace?"),
        ("yes but inside", "4, 2026-03-06, Ann Lee, inside?"),
        (
            "what have you got so far?",
            "So far: guests: 4; day: Friday 2026-03-06; name: Ann Lee; seating: terrace. 4, 2026-03-06, Ann Lee, terrace?",
        ),
    ],
)
def test_corrections_at_an_approval(line: str, reply: str) -> None:
    assert said(Table, *READY, line) == reply


def test_yes_but_only_if_is_no_yes() -> None:
    assert talk(Table, *READY, "yes but only if it is free")[1][-1].status == "WAITING_FOR_APPROVAL"


@pytest.mark.parametrize(
    ("agent", "line"), [(Tisch, "ja, aber einen Tag später"), (Mesa, "sí, pero el 2026-01-03"), (Table, "yes, but one day later")]
)
def test_yes_but_confirms_a_guess_and_then_changes_it(agent: type[StandardAgent], line: str) -> None:
    start, day = {"de": ("tisch für 4", "freitagg"), "es": ("mesa para 4", "vierness"), "en": ("table for 4", "fridayy")}[agent.language]
    turns = talk(agent, start, day, line)[1]
    assert "2026-01-02" in turns[1].raw_message
    assert turns[2].fields["day"] == "2026-01-03"


def test_a_labelled_name_of_the_first_message_is_taken() -> None:
    assert talk(Table, "table for 4 on 2026-03-06, name Hargreaves")[1][-1].fields["name"] == "Hargreaves"
    assert talk(Table, "table for 4 on 2026-03-06, name: Hargreaves")[1][-1].fields["name"] == "Hargreaves"
    assert talk(Table, "table for 4 on 2026-03-06", "tom hargreaves, thanks")[1][-1].fields["name"] == "tom hargreaves"


def test_a_text_that_was_guessed_can_be_doubted_by_name() -> None:
    lines = ("table for 4 on 2026-03-06", "I want to change my booking")
    assert said(Table, *lines, "the name is wrong") == "All right. Which name?"
    assert "name" not in talk(Table, *lines, "stop that please, the name is wrong")[1][-1].fields


def test_a_guess_is_asked_about_until_it_is_answered() -> None:
    turns = talk(Table, "table", "fridayy", "and my mother comes as well", "make it 4", "yes")[1]
    assert [("2026-01-02" in turn.raw_message) for turn in turns] == [False, True, True, True, False]
    assert turns[-1].fields == {"guests": 4, "day": "2026-01-02"}
    assert talk(Table, "table for 4", "fridayy", "no, something else")[1][-1].fields == {"guests": 4}


@pytest.mark.parametrize(
    "line",
    [
        "no, push it back a week",
        "and I need friday off",
        "actually make it a bit later",
        "no bc the dates are not sure",
        "42 bucks",
        "pls do this now",
    ],
)
def test_what_may_be_no_text_is_read_back(line: str) -> None:
    assert said(Leave, "leave", "2026-03-02 to 2026-03-04", line).startswith("Shall I take this as the reason")


@pytest.mark.parametrize(
    "line", ["no, it's private", "no reason, drop it", "no, I don't want to give any reason", "no preference", "don't mind"]
)
def test_a_refusal_leaves_an_optional_text_out(line: str) -> None:
    assert said(Leave, "leave", "2026-03-02 to 2026-03-04", line).endswith("2026-03-02 to 2026-03-04, None?")


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        (Table, "nvm cancel"),
        (Table, "forget it, too complicated"),
        (Tisch, "vergessen Sie's, abbrechen"),
        (Tisch, "stopp, ich will das nicht mehr"),
        (Mesa, "olvídalo"),
        (Mesa, "ya no lo quiero"),
    ],
)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_cancels_in_other_words(agent: type[StandardAgent], line: str, at: int) -> None:
    assert talk(agent, *(START[agent], "Ann Lee", "terrace")[:at], line)[1][-1].status == "CANCELLED"


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        (Tisch, "Ja, passt so. Danke für Ihre Geduld!"),
        (Tisch, "jawohl, buchen"),
        (Mesa, "todo correcto, resérvala"),
        (Table, "yep looks good, go ahead"),
    ],
)
def test_yes_in_other_words(agent: type[StandardAgent], line: str) -> None:
    assert talk(agent, START[agent], "Ann Lee", "terrace", line)[1][-1].status == "COMPLETED"


@pytest.mark.parametrize(
    ("agent", "line", "seating"),
    [
        (Tisch, "drinnen", "inside"),
        (Tisch, "draußen bitte", "terrace"),
        (Table, "outside", "terrace"),
        (Mesa, "fuera", "terrace"),
        (Table, "I don't mind", None),
        (Tisch, "egal", None),
        (Mesa, "me da igual", None),
    ],
)
def test_options_in_other_words(agent: type[StandardAgent], line: str, seating: Any) -> None:
    turn = talk(agent, START[agent], "Ann Lee", line)[1][-1]
    assert (turn.status, turn.fields["seating"]) == ("WAITING_FOR_APPROVAL", seating)


class Money(StandardAgent):
    amount: float = InputField("How much?", unit="EUR", gt=0)


class Geld(Money):
    language = "de"


class Dinero(Money):
    language = "es"


@pytest.mark.parametrize(
    ("agent", "line", "amount"),
    [
        (Geld, "vierunddreißig Euro fünfzig", 34.5),
        (Geld, "34,50€", 34.5),
        (Money, "45 euros 50", 45.5),
        (Money, "45 euros 50 people", None),
        (Money, "42 bucks", None),
        (Dinero, "no, muy caro", None),
    ],
)
def test_amounts(agent: type[StandardAgent], line: str, amount: float | None) -> None:
    assert talk(agent, "hi", line)[1][-1].fields.get("amount") == amount


def test_another_currency_is_named() -> None:
    assert said(Money, "hi", "42 bucks") == "Amount: it is asked for in EUR. How much?"


@pytest.mark.parametrize(
    ("agent", "line", "day"),
    [
        (Table, "a week on Saturday", "2026-01-10"),
        (Table, "the 12/20", None),
        (Table, "Valentine's Day", "2026-02-14"),
        (Tisch, "am Tag der Arbeit", "2026-05-01"),
        (Mesa, "el día de Reyes", "2026-01-06"),
        (Table, "Thanksgiving", None),
        (Table, "12/5", None),
    ],
)
def test_days_by_name(agent: type[StandardAgent], line: str, day: str | None) -> None:
    start = {"de": "tisch für 4", "es": "mesa para 4", "en": "table for 4"}[agent.language]
    assert talk(agent, start, line)[1][-1].fields.get("day") == day


def test_a_german_so_is_no_sunday_and_a_full_stop_belongs_to_a_date() -> None:
    assert "day" not in talk(Tisch, "tisch", "so 8 bis 10 Leute")[1][-1].fields
    assert talk(Tisch, "tisch für 4 am 2026-03-06", "Ann Lee", "terrace", "day: der 20.3.")[1][-1].fields["day"] == "2026-03-20"
