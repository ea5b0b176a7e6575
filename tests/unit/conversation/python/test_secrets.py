"""A secret is in no prompt, journal, inbox, result or log, whichever way it is told; and it does not outlive its process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, OutputField, StandardAgent, flow
from asterism.conversation.python.secret_fields import SecretStore
from asterism.errors import InvalidInput
from tests.support.conversation_harness import Stage, act, talk

SECRET = "hunter22"  # noqa: S105 - of nobody


class Login(StandardAgent):
    requires_approval = True
    user = InputField("User?")
    password: str = InputField("Password?", secret=True, min_length=4)

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, f"In with {self.password}.", data={"used": self.password})


class Wire(StandardAgent):
    requires_approval = True
    amount: int = InputField("How much?")
    account: str = InputField("Account?", secret=True, show_last=4)

    async def on_running(self, msg: Message) -> AgentResult:
        if "Tuesday" in msg.text:
            return self.make_result(AgentStatus.COMPLETED, "Sent.")
        return self.make_result(AgentStatus.WAITING_FOR_INPUT, "Which day?")


class Leaky(Login):
    requires_approval = False

    async def on_running(self, msg: Message) -> AgentResult:
        raise ValueError(f"wrong password {self.password}")


class Chatty(Login):
    requires_approval = False

    async def on_running(self, msg: Message) -> AgentResult:
        self.report(f"trying {self.password}")
        self.metadata[self.password] = [self.password]
        self.tried = self.password
        return self.make_result(AgentStatus.COMPLETED, "In.")


class Passing(Login):
    requires_approval = False

    async def on_running(self, msg: Message) -> AgentResult:
        await self.child("below", flow(Login, f"log in with {self.password}"))
        return self.make_result(AgentStatus.COMPLETED, "In.")


class Asking(StandardAgent):
    resumable = True

    async def on_running(self, msg: Message) -> AgentResult:
        await self.child("login", flow(Login, user="ann"))
        return self.make_result(AgentStatus.COMPLETED, "In.")


class Pin(StandardAgent):
    pin: int = InputField("PIN?", secret=True)


class Counting(StandardAgent):
    pin: str = InputField("PIN?", secret=True)
    count: int = InputField("How many?")

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, "Counted.")


class Short(StandardAgent):
    pin: str = InputField("PIN?", secret=True)
    express: bool = InputField("Express?")
    exact = OutputField()

    async def on_running(self, msg: Message) -> AgentResult:
        self.exact, self.extra = 1, 2
        return self.make_result(AgentStatus.COMPLETED, "Sent.")


def everything(stage: Stage) -> str:
    database = stage.database
    records = [record for records in database.records.values() for record in records]
    told = (records, database.inbox.values(), database.inquiries.values())
    return json.dumps([[str(it) for it in things] for things in told], ensure_ascii=False)


def said(stage: Stage, *turns: Any) -> list[AgentResult]:
    """Lines, and fields by name, to one process after the other."""

    async def play() -> list[AgentResult]:
        found = []
        for it in turns:
            result = await (stage.turn("say", "", it) if isinstance(it, dict) else act(stage, it))
            assert result is not None
            found.append(result)
        return found

    turned: list[AgentResult] = stage.play(play())
    return turned


@pytest.mark.parametrize(
    "turns",
    [
        ["go", "ann", SECRET, "yes"],
        ["go", "ann", {"password": SECRET}, "yes"],
        [{"user": "ann", "password": SECRET}, "yes"],
        ["go", {"password": SECRET}, "ann", "yes"],
        ["go", {"user": "ann", "password": SECRET}, "yes"],
        ["go", "ann", "another", f"change the password to {SECRET}", "yes"],
        ["go", "ann", "another", {"password": SECRET}, "yes"],
        ["go", "ann", "another", "back", SECRET, "yes"],
    ],
    ids=str,
)
def test_a_secret_is_used_and_in_no_prompt_journal_inbox_or_result(turns: list[Any]) -> None:
    stage = Stage(Login, forgetful=False)
    results = said(stage, *turns)
    assert results[-1].status == "COMPLETED"
    assert (results[-1].raw_message, results[-1].data, results[-1].fields["password"]) == ("In with •••.", {"used": "•••"}, "•••")
    assert "Login (user: ann, password: •••). Go ahead? (yes/no)" in [it.raw_message for it in results]
    assert SECRET not in everything(stage)


def test_a_secret_given_before_it_is_asked_for_is_in_no_journal() -> None:
    stage = Stage(Login, forgetful=False)
    said(stage, f"log in, my password is {SECRET}", f"password: {SECRET}", "ann")
    assert SECRET not in everything(stage)


def test_a_secret_is_in_no_error_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    stage, turns = talk(Leaky, "go", "ann", SECRET, forgetful=False)
    assert turns[-1].raw_message == "Sorry, something went wrong: ValueError: wrong password •••."
    assert "Traceback" in caplog.text
    assert "Traceback" not in everything(stage)
    assert SECRET not in everything(stage) + caplog.text


def test_a_rejected_secret_is_not_quoted() -> None:
    stage, turns = talk(Pin, "go", "swordfish", forgetful=False)
    assert turns[-1].raw_message == "Pin: I cannot find a number in '•••'. PIN?"
    assert "swordfish" not in everything(stage)


def test_a_secret_is_in_no_report_no_metadata_and_no_instance_variable() -> None:
    stage, turns = talk(Chatty, "go", "ann", SECRET, forgetful=False)
    assert (turns[-1].status, turns[-1].metadata) == ("COMPLETED", {"•••": ["•••"]})
    assert "trying •••" in everything(stage)
    assert SECRET not in everything(stage)


def test_a_secret_that_equals_the_name_of_a_field_does_not_remove_the_field() -> None:
    stage, turns = talk(Short, "go", "x", "yes", forgetful=False)
    assert (turns[-1].status, turns[-1].fields["express"], turns[-1].data) == ("COMPLETED", True, {"exact": 1})
    assert "extra" in everything(stage), "an instance variable"


def test_a_short_secret_does_not_change_other_values() -> None:
    _, turns = talk(Counting, "go", "4", "4", forgetful=False)
    assert (turns[-1].status, turns[-1].fields["count"]) == ("COMPLETED", 4)


def test_a_secret_is_not_passed_to_a_child() -> None:
    stage, turns = talk(Passing, "go", "ann", SECRET, forgetful=False)
    assert "child below would receive a secret" in turns[-1].raw_message
    assert SECRET not in everything(stage)
    with pytest.raises(InvalidInput, match="password of Login is secret"):
        flow(Login, password=SECRET)
    stage = Stage(Asking, forgetful=False)
    results = said(stage, "go", SECRET, "yes")
    assert [it.raw_message for it in results[:2]] == ["Password?", "Login (user: ann, password: •••). Go ahead? (yes/no)"]
    assert results[-1].status == "COMPLETED"
    stage = Stage(Asking, forgetful=False)
    said(stage, "go", {"password": SECRET}, "yes")
    assert SECRET not in everything(stage)


@pytest.mark.parametrize("line", [SECRET, f" {SECRET}\n", "password is hunter23"])
def test_a_secret_sent_again_while_the_agent_works_is_not_stored(line: str) -> None:
    began, released = asyncio.Event(), asyncio.Event()

    class Slow(Login):
        requires_approval = False

        async def on_running(self, msg: Message) -> AgentResult:
            began.set()
            await released.wait()
            return self.make_result(AgentStatus.COMPLETED, "In.")

    stage = Stage(Slow, forgetful=False)

    async def play() -> AgentResult:
        async with stage.process() as (runtime, conversation, _):
            await conversation.say("go")
            await conversation.say("ann")
            turn = asyncio.ensure_future(conversation.say(SECRET))
            await began.wait()
            await conversation.put(runtime, line, {})
            released.set()
            result: AgentResult = await turn
            return result

    assert stage.play(play()).status == "COMPLETED"
    assert "hunter2" not in everything(stage)
    assert [row.kind for row in stage.database.inbox.values()].count("message_received") == 2


class Coloured(Login):
    colour = InputField("Colour?")


@pytest.mark.parametrize("again", [SECRET, f" {SECRET} "])
def test_a_secret_sent_again_answers_no_other_question(again: str) -> None:
    stage = Stage(Coloured, forgetful=False)
    results = said(stage, "go", "ann", SECRET, again, "blue", again, "yes")
    assert [it.raw_message for it in results[2:4]] == ["Colour?", "Colour?"]
    assert (results[-1].status, results[-1].fields["colour"]) == ("COMPLETED", "blue")
    assert SECRET not in everything(stage)


def test_a_secret_sent_while_its_question_is_paused_is_not_stored() -> None:
    stage = Stage(Login, forgetful=False)
    results = said(stage, "go", "ann", "!pause", SECRET, "resume", SECRET, "yes")
    assert [it.status for it in results[2:5]] == ["PAUSED", "PAUSED", "WAITING_FOR_INPUT"]
    assert (results[-1].status, SECRET in everything(stage)) == ("COMPLETED", False)


def test_a_secret_is_recognized_only_in_its_own_conversation() -> None:
    vault = SecretStore()
    vault.put("run-1", "token", SECRET, {})
    vault.keep("run-1.5.0", {"pin": 12345}, "")
    assert [vault.knows("run-1", text) for text in (SECRET, "12345", "hunter", "")] == [True, True, False, False]
    assert not any(
        vault.knows(run, text) for run in ("run-2", "run", "run-1.5") for text in (SECRET, "12345") if (run, text) != ("run-1.5", "12345")
    )


def test_a_secret_is_asked_for_again_after_a_restart() -> None:
    assert talk(Login, "go", "ann", SECRET, "yes")[1][-1].raw_message == "Password?", "it has died with the process that heard it"
    stage = Stage(Login, forgetful=False)

    async def play() -> list[AgentResult]:
        said = [await act(stage, line) for line in ("go", "ann", SECRET)]
        stage.forgetful = True
        said += [await act(stage, "yes")]
        stage.forgetful = False
        return [it for it in said + [await act(stage, line) for line in (SECRET, "yes")] if it]

    turns = stage.play(play())
    assert [turn.status for turn in turns[2:]] == ["WAITING_FOR_APPROVAL", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "COMPLETED"]
    assert turns[3].raw_message == "Password?"


@pytest.mark.parametrize(
    ("said_then", "status"),
    [
        ({"account": "9999000000003000"}, "WAITING_FOR_APPROVAL"),  # with the same end
        ({"account": "DE00000000003000"}, "WAITING_FOR_INPUT"),
        ({"amount": 6}, "WAITING_FOR_APPROVAL"),
        ("Tuesday", "COMPLETED"),
    ],
)
def test_an_approval_holds_no_longer_when_a_secret_changes(said_then: Any, status: str) -> None:
    """A6, "an approval names the digest of what was shown": a yes is to the secret that the agent had then."""
    stage = Stage(Wire, forgetful=False)
    turns = said(stage, {"amount": 5, "account": "DE00000000003000"}, "yes", said_then)
    assert (turns[0].status, turns[1].raw_message, turns[2].status) == ("WAITING_FOR_APPROVAL", "Which day?", status)


def test_an_approval_holds_no_longer_when_a_secret_is_lost_and_given_again() -> None:
    """A6: nothing says that it is the same one."""
    stage = Stage(Wire, forgetful=False)
    said(stage, {"amount": 5, "account": "DE00000000003000"}, "yes")
    stage.vault = SecretStore()
    turns = said(stage, "Tuesday", "DE00000000003000")
    assert [turn.status for turn in turns] == ["WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL"]


def test_a_question_for_approval_shows_the_end_of_a_secret_that_its_prompt_shows() -> None:
    """A8, "a question shows the request": an approval of one account is not one of another."""
    stage = Stage(Wire, forgetful=False)
    (turn,) = said(stage, {"amount": 5, "account": "DE00000000003000"})
    (asked,) = stage.database.inquiries.values()
    assert "•••3000" in turn.raw_message
    assert json.loads(asked.subject) | {"agent": ""} == {"agent": "", "fields": {"amount": 5}, "secrets": {"account": "•••3000"}}


def test_a_secret_lost_with_its_process_is_asked_for_again_and_other_fields_stay() -> None:
    stage = Stage(Login, dies_after=2)
    (turn,) = said(stage, {"user": "ann", "password": SECRET})
    assert stage.deaths == 1
    assert (turn.raw_message, turn.fields) == ("Password?", {"user": "ann"})


def test_a_body_is_not_entered_without_a_lost_secret() -> None:
    class Own(Login):
        async def on_waiting_for_approval(self, msg: Message) -> AgentResult | None:
            return await self.on_running(msg)

    _, turns = talk(Own, "go", "ann", SECRET, "go on")
    assert (turns[-1].raw_message, turns[-1].status) == ("I have to ask you again. Password?", "WAITING_FOR_INPUT")


@pytest.mark.parametrize(
    ("lines", "verb", "value", "why"),
    [
        (("go", "ann"), "respond", SECRET, "asks for a secret, and answers are journaled"),
        (("go", "ann", SECRET), "edit", {"password": SECRET + "!"}, r"asks for a secret \(password\)"),
        (("go",), "respond", {"password": SECRET}, r"asks for a secret \(password\)"),
    ],
)
def test_a_secret_cannot_be_given_through_the_inbox(lines: tuple[str, ...], verb: Any, value: Any, why: str) -> None:
    stage = Stage(Login, forgetful=False)

    async def play() -> None:
        for line in lines:
            await act(stage, line)
        async with stage.process() as (runtime, _, _):
            (asked,) = await runtime.store.inquiries(run_id=stage.run_id)
            with pytest.raises(InvalidInput, match=why):
                await runtime.post_answer(asked.inquiry_id, verb, actor="ann", value=value)

    stage.play(play())
    assert SECRET not in everything(stage)


def test_a_question_for_a_secret_can_be_cancelled_through_the_inbox() -> None:
    stage = Stage(Login, forgetful=False)

    async def play() -> str:
        for line in ("go", "ann"):
            await act(stage, line)
        async with stage.process() as (runtime, _, _):
            (asked,) = await runtime.store.inquiries(run_id=stage.run_id)
            await runtime.post_answer(asked.inquiry_id, "cancel", actor="ann")
            return (await runtime.drive(stage.run_id)).outcome

    assert stage.play(play()) == "cancelled"


def test_an_agent_in_a_program_accepts_a_secret_by_name() -> None:
    async def play() -> AgentResult:
        agent = Login()
        await agent.reply("go", user="ann", password=SECRET)
        return await agent.reply("yes")

    assert asyncio.run(play()).raw_message == "In with •••."
