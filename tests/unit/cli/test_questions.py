"""Yes and no as answers: on the command line, and typed at a terminal."""

from __future__ import annotations

import pytest

from asterism.cli.questions import AnswerVerb, TypedAnswer, _chosen
from asterism.engine.control.run_control import Verb
from asterism.engine.ports.store import InquiryRow


def question(*verbs: Verb) -> InquiryRow:
    return InquiryRow(inquiry_id="run:1.0", run_id="run", question="Is it so? (yes/no)", verbs=verbs)


@pytest.mark.parametrize(
    ("word", "verbs", "verb", "value"),
    [
        ("yes", ("approve", "reject", "respond"), "approve", None),
        ("no", ("approve", "reject", "respond"), "reject", None),
        ("yes", ("respond",), "respond", "yes"),
        ("no", ("respond",), "respond", "no"),
        ("no", ("respond", "reject"), "reject", None),
        ("yes", (), "approve", None),
    ],
)
def test_a_yes_or_no_is_a_response_only_to_a_question_without_that_verb(
    word: AnswerVerb, verbs: tuple[Verb, ...], verb: Verb, value: str | None
) -> None:
    said = TypedAnswer(word=word, reason="why").to(question(*verbs))
    assert (said.effect_id, said.verb, said.value, said.reason) == ("run:1.0", verb, value, "why")


def test_a_verb_that_the_question_lacks_is_not_changed() -> None:
    assert TypedAnswer(word="approve").to(question("respond")).verb == "approve"


def test_a_terminal_takes_yes_and_no_for_approve_and_reject() -> None:
    choices = ["approve", "edit", "reject", "later"]
    assert [_chosen(word, choices) for word in ("yes", "y", "no", "n", "a", "later", "x", "")] == [
        "approve", "approve", "reject", "reject", "approve", "later", "", "",
    ]  # fmt: skip
    assert [_chosen(word, ["respond", "later"]) for word in ("yes", "n")] == ["", ""]
