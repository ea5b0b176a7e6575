"""What people do in talk: guesses, corrections, ranges, wishes, questions, and languages; a fresh process for each turn."""

from __future__ import annotations

import datetime as dt
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from asterism.conversation.python import AgentResult, InputField, Message, StandardAgent
from asterism.conversation.python.conversation import Conversation
from asterism.engine.runtime.clock import zone_of
from asterism.errors import InvalidInput
from asterism.words.reading.words import checked, words_of
from tests.support.conversation_harness import Stage, memory_of, talk

THURSDAY = "2026-01-01"
"""The day of the harness."""


class Room(StandardAgent):
    requires_approval = True
    triggers: ClassVar[list[str]] = ["book"]
    room: Literal["Birch", "Cedar", "Oak Hall"] = InputField("Which room?")
    day: dt.date = InputField("On which day?", description="The day of the meeting.")
    start: dt.time = InputField("At what time?", hours=(8, 18))
    minutes: int = InputField("For how long?", ge=5, le=720)
    people: int = InputField("How many people?", ge=1, le=40)
    name: str = InputField("Under which name?")


class Leave(StandardAgent):
    triggers: ClassVar[list[str]] = ["leave"]
    first: dt.date = InputField("From which day?")
    last: dt.date = InputField("Until which day?")


class Money(StandardAgent):
    budget: Decimal = InputField("Which budget?", unit="EUR", gt=0, le=1000)


class Clean(StandardAgent):
    triggers: ClassVar[list[str]] = ["clean"]
    host: str = InputField("Which host?")
    gigabytes: int = InputField("How many gigabytes?", ge=1, le=500)


def said(agent: type, *lines: str) -> list[str]:
    return [turn.raw_message for turn in talk(agent, *lines)[1]]


def test_one_message_gives_all_fields_without_a_pattern() -> None:
    turn = talk(Room, "book birch tomorrow at 3pm for 45 minutes, 6 people")[1][-1]
    assert turn.fields == {"room": "Birch", "day": "2026-01-02", "start": "15:00:00", "minutes": 45, "people": 6}
    assert turn.raw_message == "Under which name?"


def test_what_an_answer_gives_for_other_fields_stays() -> None:
    assert said(Room, "book cedar", "tomorrow 15:00")[1:] == ["For how long?"]


def test_a_guess_counts_when_it_is_confirmed_and_not_before() -> None:
    stage, turns = talk(Room, "book ceder", "yes")
    assert [turn.raw_message for turn in turns] == ["Do you mean room: Cedar? (yes/no)", "On which day?"]
    assert (turns[0].fields, turns[1].fields) == ({}, {"room": "Cedar"})
    assert stage.play(memory_of(stage)).view.readings["room"]["confirmed"] is True


def test_a_guess_that_is_wrong_is_dropped_or_replaced() -> None:
    assert said(Room, "book ceder", "no")[1] == "All right. Which room?"
    assert talk(Room, "book ceder", "birch")[1][-1].fields == {"room": "Birch"}
    assert talk(Room, "book ceder", "what is that like?")[1][-1].raw_message.endswith("Do you mean room: Cedar? (yes/no)")
    assert talk(Room, "book ceder", "please cancel")[1][-1].status == "CANCELLED"


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("actually Saturday", {"day": "2026-01-03"}),
        ("not Cedar, Birch", {"room": "Birch"}),
        ("change the day to Saturday", {"day": "2026-01-03"}),
        ("hm, make that Saturday and Birch", {"day": "2026-01-03", "room": "Birch"}),
        ("from 3 to 4:30 pm", {"start": "15:00:00", "minutes": 90}),
        ("15", {}),
        ("not Saturday", {}),
        ("Saturday or Sunday", {}),
        ("how many people fit in Cedar?", {}),
    ],
)
def test_corrections_by_value_and_by_name(line: str, fields: dict[str, Any]) -> None:
    turn = talk(Room, "book cedar tomorrow", line)[1][-1]
    assert turn.fields == {"room": "Cedar", "day": "2026-01-02", **fields} | ({"start": "15:00:00"} if line == "15" else {})


def test_a_number_that_fits_two_fields_is_asked_about() -> None:
    turn = talk(Room, "book cedar tomorrow at 3pm and 15")[1][-1]
    assert turn.raw_message == 'Which one shall be 15? Write "minutes: 15" or "people: 15". For how long?'


def test_a_range_fills_two_fields() -> None:
    assert talk(Leave, "leave", "from monday to friday")[1][-1].fields == {"first": "2026-01-05", "last": "2026-01-09"}
    assert talk(Leave, "leave from 2026-12-21 to 2026-12-24")[1][-1].fields == {"first": "2026-12-21", "last": "2026-12-24"}


def test_at_an_approval_a_no_with_a_value_is_a_correction() -> None:
    class Holiday(Leave):
        requires_approval = True

    _, turns = talk(Holiday, "leave", "from monday to friday", "no, until the 8th", "no, the last day is wrong")
    assert (turns[2].status, turns[2].fields["last"]) == ("WAITING_FOR_APPROVAL", "2026-01-08")
    assert turns[3].raw_message == "What is the last then? Until which day?"


@pytest.mark.parametrize("line", ["no, push it back a week", "postpone it by a week"])
def test_a_shift_in_loose_words_is_read_back_for_both_ends(line: str) -> None:
    later = talk(type("Holiday", (Leave,), {"requires_approval": True}), "leave", "from monday to friday", line, "yes")[1]
    assert later[2].raw_message == "Do you mean first: Monday 2026-01-12, last: Friday 2026-01-16? (yes/no)"
    assert later[3].fields == {"first": "2026-01-12", "last": "2026-01-16"}


def test_a_shift_changes_the_date_that_was_read_back() -> None:
    _, turns = talk(Payment, "pay", "5", "next friday", "no, push it back a week", "yes")
    assert turns[2].raw_message == "Do you mean day: Friday 2026-01-09? (yes/no)"
    assert turns[3].raw_message == "Do you mean day: Friday 2026-01-16? (yes/no)"
    assert turns[4].fields["day"] == "2026-01-16"


class Guest(StandardAgent):
    requires_approval = True
    name: str = InputField("Your name?")
    day: dt.date = InputField("When?")


def test_a_value_that_is_said_not_to_be_right_is_corrected_by_what_follows() -> None:
    _, turns = talk(
        Guest, "hi", "Hargraves", "What?? that's not my name, it's Hargreaves", "2026-03-03", "that is not the day, it's 5 March"
    )
    assert turns[2].fields["name"] == "Hargreaves"
    assert turns[4].fields["day"] == "2026-03-05"
    assert turns[4].raw_message.startswith("Guest (")
    assert talk(Guest, "hi", "Ann", "2026-03-03", "that's not my name")[1][-1].raw_message == "What is the name then? Your name?"


class Payment(StandardAgent):
    requires_approval = True
    amount: int = InputField("How much?")
    day: dt.date = InputField("When?")


class Zahlung(Payment):
    language = "de"


class Pago(Payment):
    language = "es"


@pytest.mark.parametrize(
    ("agent", "line", "field"),
    [
        (Payment, "nope, wrong amount", "amount"),
        (Payment, "no, the amount is wrong", "amount"),
        (Payment, "nope, that is the wrong date", "day"),
        (Payment, "no, not the right date", "day"),
        (Payment, "no, the amount", "amount"),
        (Payment, "nope, wrong", ""),
        (Payment, "no, that's not right", ""),
        (Payment, "no, because something is wrong", ""),
        (Payment, "no, the wrong person", ""),
        (Zahlung, "nein, falscher Betrag", "amount"),
        (Zahlung, "nein, der Betrag stimmt nicht", "amount"),
        (Zahlung, "nein, falsch", ""),
        (Zahlung, "nein, das stimmt nicht", ""),
        (Pago, "no, la fecha está mal", "day"),
        (Pago, "no, fecha equivocada", "day"),
        (Pago, "no, la cantidad es incorrecta", "amount"),
        (Pago, "no, está mal", ""),
    ],
)
def test_at_an_approval_a_fault_is_a_correction_and_no_refusal(agent: type[StandardAgent], line: str, field: str) -> None:
    turn = talk(agent, "pay", "5", "2026-03-03", line)[1][-1]
    if field:
        prompt = agent.input_fields()[field].prompt
        assert (turn.status, turn.missing_fields, turn.raw_message.endswith(prompt)) == ("WAITING_FOR_INPUT", (field,), True)
    else:
        assert (turn.status, turn.missing_fields) == ("WAITING_FOR_APPROVAL", ())
        asks = words_of(agent.language).text("what_is_wrong", names=" (amount, day)")
        assert turn.raw_message.startswith(asks)


@pytest.mark.parametrize("line", ["no, until the 26th", "no, until Friday"])
def test_at_an_approval_a_no_with_a_value_for_no_field_is_asked_about(line: str) -> None:
    turn = talk(Payment, "pay", "5", "2026-03-03", line)[1][-1]
    assert (turn.status, turn.raw_message[:27]) == ("WAITING_FOR_APPROVAL", "I do not see what that chan")


def test_a_reason_with_a_full_stop_has_one_in_the_answer() -> None:
    turn = talk(Payment, "pay", "5", "2026-03-03", "No. Too expensive now.")[1][-1]
    assert (turn.status, turn.raw_message) == ("CANCELLED", "All right, it is not done: Too expensive now.")


def test_a_time_is_shown_as_people_say_it() -> None:
    assert said(Room, "book cedar tomorrow at 3pm", "actually 15:30")[-1] == "All right, start: 15:30. For how long?"


@pytest.mark.parametrize("line", ["no", "no thanks", "cancel it", "no, too expensive"])
def test_at_an_approval_a_no_without_a_fault_is_a_refusal(line: str) -> None:
    assert talk(Payment, "pay", "5", "2026-03-03", line)[1][-1].status == "CANCELLED"


@pytest.mark.parametrize(
    "line", ["please cancel", "I want to cancel", "cancel the booking", "I changed my mind", "never mind, forget the whole thing"]
)
def test_a_cancel_is_understood_in_many_words_also_where_a_text_is_asked_for(line: str) -> None:
    class Name(StandardAgent):
        triggers: ClassVar[list[str]] = ["book"]
        name: str = InputField("Under which name?")

    assert talk(Name, "book", line)[1][-1].status == "CANCELLED"


def test_a_question_a_remark_and_small_talk_are_no_answers() -> None:
    turns = talk(Room, "book cedar", "thanks", "hello", "who are you?", "what is the day for?", "hm", "hmm", "tomorrow")[1]
    assert [turn.raw_message for turn in turns[1:]] == [
        "You are welcome. On which day?",
        "Hello! On which day?",
        "I cannot answer that; I only collect what I ask for. The day of the meeting. On which day?",
        "Day: The day of the meeting. On which day?",
        "Take your time. On which day?",
        'I would understand "Friday", "3 December" or 2026-01-01. On which day?',
        "At what time?",
    ]


def test_complaints_change_with_each_miss_and_say_what_is_understood() -> None:
    turns = said(Room, "book cedar", "xyz", "xyz", "xyz")[1:]
    assert len(set(turns)) == 3
    assert '"Friday"' in turns[1]
    assert 'Write "cancel" to stop.' in turns[2]


def test_a_text_that_may_be_something_else_is_read_back() -> None:
    turns = talk(Room, "book cedar tomorrow at 3pm for 45 minutes, 6 people", "put Smith", "no", "Smith")[1]
    assert turns[1].raw_message == "Shall I take this as the name: 'put Smith'? (yes/no)"
    assert turns[-1].fields["name"] == "Smith"


@pytest.mark.parametrize(
    ("line", "value"), [("12,50 euros", "12.50"), ("€ 40", "40"), ("1.200", None), ("12 dollars", None), ("-5", None), ("2000", None)]
)
def test_money_is_of_the_currency_of_its_field_and_within_its_bounds(line: str, value: str | None) -> None:
    assert talk(Money, "go", line)[1][-1].fields == ({"budget": value} if value else {})


# -- languages and time zones -----------------------------------------------------------------------


class Zimmer(Room):
    language = "de"
    time_zone = "Europe/Berlin"


class Sala(Room):
    language = "es"


def test_a_conversation_in_german() -> None:
    turns = talk(
        Zimmer, "book Cedar morgen um halb drei für anderthalb Stunden", "wir sind zu acht", "doch lieber Samstag", "Jonas", "nein, um vier"
    )[1]
    assert turns[1].fields == {"room": "Cedar", "day": "2026-01-02", "start": "14:30:00", "minutes": 90, "people": 8}
    assert turns[2].raw_message == "Gut, day: 2026-01-03. Under which name?"
    assert (turns[-1].fields["start"], turns[-1].status) == ("16:00:00", "WAITING_FOR_APPROVAL")
    assert talk(Zimmer, "book", "bitte abbrechen")[1][-1].status == "CANCELLED"


def test_a_conversation_in_spanish() -> None:
    turns = talk(Sala, "book Cedar mañana a las 3 de la tarde, somos ocho", "una hora y cuarto", "mejor el sábado")[1]
    assert turns[-1].fields == {"room": "Cedar", "day": "2026-01-03", "start": "15:00:00", "minutes": 75, "people": 8}
    assert turns[-1].raw_message == "De acuerdo, day: 2026-01-03. Under which name?"


def test_the_journal_has_how_a_value_was_read() -> None:
    stage, _ = talk(Zimmer, "book Cedar morgen")
    assert stage.play(memory_of(stage)).view.readings["day"] | {"at": 0} == {
        "text": "morgen", "value": "2026-01-02", "language": "de", "time_zone": "Europe/Berlin", "at": 0,
    }  # fmt: skip


def test_language_and_zone_of_a_conversation_come_before_those_of_its_class() -> None:
    class Other(Stage):
        def talker(self, runtime: Any, vault: Any) -> Any:
            return Conversation(self.agent, runtime=runtime, run_id=self.run_id, vault=vault, language="es", time_zone="Asia/Tokyo")

    stage = Other(Zimmer)
    result: AgentResult = stage.say("book Cedar mañana")
    reading = stage.play(memory_of(stage)).view.readings["day"]
    assert (result.fields["day"], reading["language"], reading["time_zone"]) == ("2026-01-02", "es", "Asia/Tokyo")


class Limits(StandardAgent):
    requires_approval = True
    guests: int = InputField("1?", ge=1, le=9)
    code: str = InputField("2?", min_length=3)
    even: int = InputField("3?", validator=lambda value: value % 2 == 0)


class Grenzen(Limits):
    language = "de"


class Limites(Limits):
    language = "es"


@pytest.mark.parametrize(
    ("agent", "lines"),
    [
        (
            Grenzen,
            [
                "Guests: es muss zwischen 1 und 9 liegen, nicht 12. 1?",
                "Code: erlaubt: mindestens 3 Zeichen. 2?",
                "Even: das ist nicht gültig. 3?",
                "Abgebrochen.",
            ],
        ),
        (
            Limites,
            [
                "Guests: tiene que estar entre 1 y 9, y no 12. 1?",
                "Code: se admite: al menos 3 caracteres. 2?",
                "Even: eso no es válido. 3?",
                "Cancelado.",
            ],
        ),
    ],
)
def test_limits_are_in_the_language_of_the_conversation(agent: type, lines: list[str]) -> None:
    turns = said(agent, "x", "12", "4", "ab", "abc", "7", {"en": "cancel", "de": "abbrechen", "es": "cancelar"}[agent.language])  # type: ignore[attr-defined]
    assert [turns[1], turns[3], turns[5], turns[6]] == lines


@pytest.mark.parametrize(("language", "sentence"), [("de", "Farbe gibt es hier nicht. 1?"), ("es", "Aquí no hay Farbe. 1?")])
def test_a_field_that_is_not_there_is_refused_in_the_language_of_the_conversation(language: str, sentence: str) -> None:
    agent: type[StandardAgent] = {"de": Grenzen, "es": Limites}[language]
    stage = Stage(agent)
    stage.say("x")
    assert stage.play(stage.turn("say", "", {"Farbe": "rot"})).raw_message == sentence


def test_a_failure_is_in_the_language_of_the_conversation() -> None:
    class Arbeit(StandardAgent):
        language = "de"

        async def on_running(self, msg: Message) -> AgentResult:
            raise OSError("no paper")

    assert talk(Arbeit, "los")[1][-1].raw_message == "Da ist leider etwas schiefgegangen: OSError: no paper."


@pytest.mark.parametrize("language", ["de", "es"])
def test_a_language_of_this_package_has_every_sentence_of_its_own(language: str) -> None:
    own = set(tomllib.loads(ENGLISH.with_name(f"{language}.toml").read_text(encoding="utf-8"))["say"])
    assert own == set(words_of("en").say)


def test_language_and_zone_of_a_conversation_hold_in_a_later_process_that_is_given_none() -> None:
    class First(Stage):
        def talker(self, runtime: Any, vault: Any) -> Any:
            own: dict[str, Any] = {} if self.run_id else {"language": "de", "time_zone": "Asia/Tokyo"}
            return Conversation(self.agent, runtime=runtime, run_id=self.run_id, vault=vault, **own)

    stage = First(Payment)
    stage.say("zahlen")
    stage.say("fünf")
    assert stage.say("übermorgen").fields == {"amount": 5, "day": "2026-01-03"}
    assert stage.play(memory_of(stage)).view.readings["day"]["time_zone"] == "Asia/Tokyo"
    assert stage.say("nein danke").status == "CANCELLED"


@pytest.mark.parametrize(("options", "named"), [({"language": "xx"}, "no language 'xx'"), ({"time_zone": "Mars"}, "no time zone 'Mars'")])
def test_an_unknown_language_or_zone_is_refused(options: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        _ = words_of(options["language"]) if "language" in options else zone_of(options["time_zone"])


ENGLISH = Path(__file__).parents[4] / "src" / "asterism" / "words" / "reading" / "en.toml"


def test_a_user_can_add_a_language_by_a_file(tmp_path: Path) -> None:
    own = tmp_path / "pirate.toml"
    own.write_text(
        ENGLISH.read_text(encoding="utf-8").replace('tomorrow = ["tomorrow"', 'tomorrow = ["next tide", "tomorrow"'), encoding="utf-8"
    )

    class Ship(Room):
        language = str(own)

    assert talk(Ship, "book cedar next tide")[1][-1].fields["day"] == "2026-01-02"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('name = "English"', "name = 1", "x.toml: name: is a text"),
        ('today = ["today"', 'today = ["[today"', "x.toml: date.today: '[today' leaves a bracket open"),
        ("{weekday} this week", "{weekdy} this week", "x.toml: date.weekday: '{weekdy} this week' has a slot {weekdy}; there are"),
        ('monday = ["monday", "mon", "mondays"]', "", "x.toml: weekdays.monday: is missing"),
        ("[numbers]", "[nubmers]", "x.toml: nubmers: no such table or key; there are"),
        ('thanks = "You', 'thank = "You', "x.toml: say.thank: no such sentence"),
        ("[units]", "[units", "x.toml: "),
    ],
)
def test_a_wrong_language_file_is_refused_in_one_line(old: str, new: str, error: str) -> None:
    text = ENGLISH.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(InvalidInput) as refused:
        checked(text.replace(old, new, 1).encode(), "x.toml")
    assert str(refused.value).startswith(error)
    assert "\n" not in str(refused.value)


class Load(StandardAgent):
    requires_approval = True
    path: str = InputField("Which file?")
    rows: int = InputField("How many rows?")
    note: str = InputField("A note?")


LOADED = ("go", "data/b.csv", "3", "for Ann")


@pytest.mark.parametrize(
    "line", ["actually data/a.csv", "no, data/a.csv", "data/a.csv", "sorry, I meant data/a.csv.", 'make it "data/a.csv" please']
)
def test_a_path_at_an_approval_replaces_the_one_path(line: str) -> None:
    turn = talk(Load, *LOADED, line)[1][-1]
    assert turn.raw_message == "Load (path: data/a.csv, rows: 3, note: for Ann). Go ahead? (yes/no)"


@pytest.mark.parametrize(
    "line",
    [
        "no data/a.csv is wrong",
        "actually https://example.org/a",
        "not data/b.csv but data/a.csv",
        "actually data/a.csv and 5",
        "actually and/or",
    ],
)
def test_a_path_that_may_mean_something_else_replaces_nothing(line: str) -> None:
    turn = talk(Load, *LOADED, line)[1][-1]
    assert (turn.fields["path"], turn.status in ("WAITING_FOR_APPROVAL", "WAITING_FOR_INPUT")) == ("data/b.csv", True)


class TwoPaths(Load):
    other: str = InputField("Which other file?")


def test_a_path_does_not_choose_between_two() -> None:
    turn = talk(TwoPaths, *LOADED, "data/c.csv", "actually data/a.csv")[1][-1]
    assert (turn.fields["path"], turn.fields["other"]) == ("data/b.csv", "data/c.csv")


@pytest.mark.parametrize("name", ["web-3", "db01", "db01.prod.example.org:8080", "rack_12", "build-box-7"])
def test_digits_of_a_name_are_no_number(name: str) -> None:
    assert said(Clean, f"clean {name}") == ["Which host?"]
    assert talk(Clean, "clean", name, "40")[1][-1].fields == {"host": name, "gigabytes": 40}


@pytest.mark.parametrize("answer", ["40 GB", "40gb", "40 gigabytes"])
def test_a_number_may_have_the_abbreviation_of_its_field(answer: str) -> None:
    assert talk(Clean, "clean", "web-3", answer)[1][-1].fields == {"host": "web-3", "gigabytes": 40}


def test_an_abbreviation_of_something_else_is_read_back() -> None:
    assert said(Clean, "clean", "web-3", "40 kg")[-1] == "Do you mean gigabytes: 40? (yes/no)"


def test_a_date_with_a_hyphen_is_a_date() -> None:
    assert talk(Leave, "leave from june-3")[1][-1].raw_message != "From which day?"
