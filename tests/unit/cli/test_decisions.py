"""Yes and no as answers: on the command line, and typed at a terminal."""

from __future__ import annotations

import pytest

from asterism.cli.decisions import DECISIONS, answer_to
from asterism.cli.questions import _chosen
from asterism.machines.run_control import Answered, Verb
from asterism.runtime.ports.store import InquiryRow


def question(*verbs: Verb) -> InquiryRow:
    return InquiryRow(inquiry_id="run:1.0", run_id="run", prompt="Is it so? (yes/no)", verbs=verbs)


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
    word: str, verbs: tuple[Verb, ...], verb: Verb, value: str | None
) -> None:
    said = answer_to(question(*verbs), Answered(effect_id="", verb=DECISIONS[word], reason="why"), word)
    assert (said.verb, said.value, said.reason) == (verb, value, "why")


def test_a_verb_that_the_question_lacks_is_not_changed() -> None:
    assert answer_to(question("respond"), Answered(effect_id="", verb="approve"), "approve").verb == "approve"


def test_a_terminal_takes_yes_and_no_for_approve_and_reject() -> None:
    choices = ["approve", "edit", "reject", "later"]
    assert [_chosen(word, choices) for word in ("yes", "y", "no", "n", "a", "later", "x", "")] == [
        "approve", "approve", "reject", "reject", "approve", "later", "", "",
    ]  # fmt: skip
    assert [_chosen(word, ["respond", "later"]) for word in ("yes", "n")] == ["", ""]
