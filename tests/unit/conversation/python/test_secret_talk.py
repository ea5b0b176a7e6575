"""What people say around a secret: questions, corrections, its value in any message; and it is in no journal."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent
from asterism.errors import InvalidInput
from tests.support.conversation_harness import Stage, talk
from tests.unit.conversation.python.test_secrets import everything

ACCOUNT, OTHER = "DE89370400440532013000", "AT61 1904 3002 3457 3201"


class Claim(StandardAgent):
    requires_approval = True
    triggers: ClassVar[list[str]] = ["claim"]
    amount: float = InputField("How much?", unit="EUR", gt=0, le=10_000)
    what: str = InputField("What was it for?")
    iban: str = InputField(
        "Which account?",
        secret=True,
        min_length=8,
        pattern=r"\b[A-Z]{2}\d{2}(?: ?\d{4}){3,7}(?: ?\d{1,3})?\b",
        show_last=4,
        words=["account"],
    )

    def get_approval_prompt(self) -> str:
        return f"Claim {self.amount:g} for {self.what}, to {self.iban}?"

    async def on_running(self, msg: Message) -> AgentResult:
        assert self.iban.replace(" ", "")[-4:] in (ACCOUNT[-4:], OTHER[-4:])
        return self.make_result(AgentStatus.COMPLETED, "Claimed.")


class Password(StandardAgent):
    count: int = InputField("How many?")
    password: str = InputField("Password?", secret=True)


def heard(*lines: str, agent: type[StandardAgent] = Claim) -> tuple[Stage, list[str], AgentResult]:
    stage, turns = talk(agent, *lines, forgetful=False)
    return stage, [it.raw_message for it in turns], turns[-1]


def test_a_secret_with_a_pattern_is_recognized_in_the_first_message_and_masked_in_the_journal() -> None:
    stage, texts, last = heard(f"claim 42 euros, my account is {ACCOUNT}", "lunch", "yes")
    assert texts == ["All right, iban: •••3000. What was it for?", "Claim 42 for lunch, to •••3000?", "Claimed."]
    assert (last.status, last.fields["iban"]) == ("COMPLETED", "•••")
    assert ACCOUNT not in everything(stage)
    assert "claim 42 euros, my account is [secret]" in everything(stage)


def test_a_secret_said_at_another_question_is_no_answer_to_it() -> None:
    stage, texts, _ = heard("claim 42 euros", "DE89 3704 0044 0532 0130 00", "lunch")
    assert texts[1:] == ["All right, iban: •••3000. What was it for?", "Claim 42 for lunch, to •••3000?"]
    assert "0532" not in everything(stage)


def test_a_message_whose_secret_is_lost_with_its_process_is_read_without_it() -> None:
    stage, turns = talk(Claim, "claim", f"42 euros, {ACCOUNT}")
    assert turns[-1].raw_message.endswith("What was it for?")
    assert ACCOUNT not in everything(stage)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("why do you need it?", "I cannot answer that"),
        ("which account do you mean?", "Iban: it must be at least 8 characters."),
        ("this takes forever", "I cannot say anything about that."),
        ("make it 45", "All right, amount: 45 EUR."),
        ("the amount is 45", "All right, amount: 45 EUR."),
        ("yes", "It is the iban I need."),
        ("help", "It is the iban I need"),
        ("my usual account", "It is the iban I need."),
        ("actually can we do tuesday", "It is the iban I need."),
        ("unreadable-xyz", "Is that the iban? I show only its end: •••exyz"),
        ("please cancel", "Cancelled."),
    ],
)
def test_what_is_no_secret_is_answered_or_read_back(line: str, answer: str) -> None:
    stage, texts, last = heard("claim 42 euros", "lunch", line)
    assert texts[-1].startswith(answer)
    assert "iban" not in last.fields
    assert line not in everything(stage)


def test_a_guess_for_a_secret_counts_when_it_is_confirmed_and_is_in_no_journal() -> None:
    stage, texts, last = heard("claim 42 euros", "lunch", "DE12-3456-7890-1234", "yes")
    assert texts[2:] == ["Is that the iban? I show only its end: •••1234 (yes/no)", "Claim 42 for lunch, to •••1234?"]
    assert (last.status, last.fields["iban"]) == ("WAITING_FOR_APPROVAL", "•••")
    assert "3456" not in everything(stage)
    _, texts, last = heard("claim 42 euros", "lunch", "DE12-3456-7890-1234", "no", ACCOUNT)
    assert (texts[3], texts[4]) == ("All right. Which account?", "Claim 42 for lunch, to •••3000?")


def test_a_guess_for_a_secret_is_lost_with_its_process_and_asked_for_again() -> None:
    _, turns = talk(Claim, "claim 42 euros", "lunch", "DE12-3456-7890-1234", "yes")
    assert turns[-1].raw_message == "It is the iban I need. Which account?"
    assert "iban" not in turns[-1].fields


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (f"account: {OTHER}", "Claim 42 for lunch, to •••3201?"),
        (f"the account is wrong, use {OTHER}", "Claim 42 for lunch, to •••3201?"),
        (f"no, my account is {OTHER}", "Claim 42 for lunch, to •••3201?"),
        (f"{OTHER}", "Is that the iban? I show only its end: •••3201 (yes/no)"),
        ("the account is wrong", "What is the iban then? Which account?"),
        ("no, wrong account", "What is the iban then? Which account?"),
        ("no, the account", "What is the iban then? Which account?"),
        ("which account did you take?", "Iban: •••3000; it must be at least 8 characters."),
    ],
)
def test_a_secret_is_corrected_at_an_approval(line: str, answer: str) -> None:
    stage, texts, _ = heard(f"claim 42 euros, {ACCOUNT}", "lunch", line)
    assert texts[-1].startswith(answer)
    assert OTHER not in everything(stage)
    assert ACCOUNT not in everything(stage)


def test_a_secret_without_show_last_shows_nothing() -> None:
    _, texts, _ = heard("3", "it is my dog", agent=Password)
    assert texts[-1] == "Is that the password? I do not show it. (yes/no)"


def test_show_last_is_for_secrets_and_at_most_four() -> None:
    for more in ({"show_last": 4}, {"show_last": 5, "secret": True}):
        wrong: Any = more
        with pytest.raises(InvalidInput, match="show_last"):
            InputField("?", **wrong)
