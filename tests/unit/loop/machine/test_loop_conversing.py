"""A worker that is a model: its replies and calls, what is denied, what is confirmed."""

from __future__ import annotations

import pytest

from asterism.engine.control.run_control import Answered, AskPerson, Cancel, Forked, Imported
from asterism.engine.kernel.machine import Event
from asterism.errors import Refused
from asterism.loop.machine.effects import AskModel, CallTool
from asterism.loop.machine.events import ModelReplied
from asterism.loop.machine.model import Gate, ToolCall, WorkerProfile
from asterism.loop.python.conversation import result_for
from tests.support.loop_harness import WORKERS, Loop, steps


def conversing(*calls: ToolCall) -> Loop:
    loop = Loop(*steps("a:model"))
    assert [effect.round for effect in loop.outstanding(AskModel).values()] == [1]
    if calls:
        loop.replies("let me see", *calls)
    return loop


def call(call_id: str = "c1", tool: str = "read", **more: object) -> ToolCall:
    return ToolCall(call_id=call_id, tool=tool, arguments={"path": "x"}, **more)  # type: ignore[arg-type]


def calling(loop: Loop) -> list[str]:
    return [effect.call_id for effect in loop.outstanding(CallTool).values()]


def test_a_reply_without_calls_is_the_finding() -> None:
    loop = conversing()
    loop.replies("it is so", tokens=7)
    assert loop.state == "REFLECTING"
    assert (loop.memory.findings[0].output, loop.memory.tokens) == ("it is so", 7)


def test_the_tokens_of_a_cancelled_reply_are_counted() -> None:
    loop = conversing()
    asked = loop.effect(AskModel)
    loop.batch(Cancel())
    loop.batch(ModelReplied(effect_id=asked, text="too late", tokens=7))
    assert (loop.state, loop.memory.tokens) == ("CANCELLED", 7)
    loop.assert_replays()


def test_calls_are_made_and_their_results_lead_to_the_next_reply() -> None:
    loop = conversing(call("c1"), call("c2"))
    assert calling(loop) == ["c1", "c2"]
    loop.returns("c2", "two")
    assert not loop.outstanding(AskModel)
    loop.returns("c1", "one")
    assert [effect.round for effect in loop.outstanding(AskModel).values()] == [2]
    assert [it.result for it in loop.memory.active["a"].rounds[0].calls] == ["one", "two"]
    loop.assert_replays()


def test_a_disallowed_call_is_denied_without_a_question_and_the_model_gets_the_reason() -> None:
    loop = conversing(call(denied="it is not on the list of model"))
    assert (loop.state, calling(loop)) == ("EXECUTING", [])
    assert [effect.round for effect in loop.outstanding(AskModel).values()] == [2]
    assert result_for(loop.memory.active["a"].rounds[0].calls[0]) == {
        "status": "denied",
        "reason": "it is not on the list of model",
        "feedback": "",
    }


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}, "any": True}}


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"pth": "y"}, "remove has no argument pth; it has path, depth, any"),
        ({"depth": "all"}, "argument depth of remove must be integer, not str"),
        ({"depth": True}, "argument depth of remove must be integer, not bool"),
    ],
)
def test_arguments_that_a_tool_does_not_have_are_refused_and_the_question_stays_open(edit: dict[str, object], why: str) -> None:
    loop = conversing(call(tool="remove", gate="destructive", parameters=SCHEMA))
    with pytest.raises(Refused, match=why):
        loop.answers("edit", edit)
    loop.answers("edit", {"path": "y", "depth": 2, "any": None})
    (made,) = loop.outstanding(CallTool).values()
    assert made.arguments == {"path": "y", "depth": 2, "any": None}
    loop.assert_replays()


def test_a_tool_that_accepts_any_argument_accepts_any_edit() -> None:
    loop = conversing(call(tool="remove", gate="destructive", parameters={**SCHEMA, "additionalProperties": True}))
    loop.answers("edit", {"more": 1})
    assert calling(loop) == ["c1"]


def test_a_destructive_call_is_confirmed_with_exactly_its_arguments() -> None:
    loop = conversing(call(tool="remove", gate="destructive"))
    assert (loop.state, calling(loop)) == ("CONFIRMING", [])
    (asked,) = loop.asked()
    assert (asked.subject, asked.risk) == ({"tool": "remove", "arguments": {"path": "x"}}, "high")
    assert asked.prompt == "Let model call remove? (it may destroy something)"
    loop.answers("approve")
    (made,) = loop.outstanding(CallTool).values()
    assert (loop.state, made.arguments, made.confirmed) == ("EXECUTING", {"path": "x"}, True)


def test_a_confirmation_may_edit_the_arguments_and_what_is_called_is_what_was_edited() -> None:
    loop = conversing(call(tool="remove", gate="destructive"))
    loop.answers("edit", {"path": "y"})
    assert [effect.arguments for effect in loop.outstanding(CallTool).values()] == [{"path": "y"}]


def test_a_rejected_call_goes_back_to_the_model_with_the_reason() -> None:
    loop = conversing(call(tool="remove", gate="destructive"))
    loop.answers("reject", reason="keep it")
    assert (loop.state, calling(loop)) == ("EXECUTING", [])
    assert result_for(loop.memory.active["a"].rounds[0].calls[0]) == {"status": "denied", "reason": "me said no", "feedback": "keep it"}
    assert loop.outstanding(AskModel)


def test_always_for_this_run_is_asked_once() -> None:
    loop = conversing(call("c1", "remove", gate="destructive"))
    loop.answers("approve", {"always": True})
    loop.returns("c1")
    loop.replies("", call("c2", "remove", gate="destructive"))
    assert (loop.state, calling(loop)) == ("EXECUTING", ["c2"])


def trusting() -> Loop:
    loop = Loop(*steps("a:model", "b:other"), workers=(*WORKERS, WorkerProfile(name="other", converses=True)))
    loop.replies("", call("c1", "remove", gate="destructive"))
    loop.answers("approve", {"always": True})
    loop.returns("c1")
    return loop


def test_always_is_said_of_one_workers_tool_and_not_of_anothers_of_that_name() -> None:
    loop = trusting()
    loop.replies("removed")
    loop.says("continue")
    loop.replies("", call("c2", "remove", gate="destructive"))
    assert loop.state == "CONFIRMING"
    loop.assert_replays()


def test_always_for_this_run_is_not_for_a_fork_of_it() -> None:
    loop = trusting()
    loop.batch(Forked(origin="o", seq=3, idle_s=0.0))
    loop.finish_cancellations()
    loop.replies("", call("c2", "remove", gate="destructive"))
    assert loop.state == "CONFIRMING"


def test_a_plain_yes_is_to_one_call_only() -> None:
    loop = conversing(call("c1", "remove", gate="destructive"))
    loop.answers("approve")
    loop.returns("c1")
    loop.replies("", call("c2", "remove", gate="destructive"))
    assert loop.state == "CONFIRMING"


def test_a_first_call_is_confirmed_and_the_second_is_not() -> None:
    loop = conversing(call("c1", "new", gate="first_time"))
    assert loop.state == "CONFIRMING"
    loop.answers("approve")
    loop.returns("c1")
    loop.replies("", call("c2", "new", gate="first_time"))
    assert calling(loop) == ["c2"]


@pytest.mark.parametrize("copied", [Forked(origin="o", seq=5, idle_s=0.0), Imported()])
def test_a_copy_of_a_run_confirms_its_own_first_call(copied: Event) -> None:
    """A4: the yes to the first call is of "a run" (docs/reference.md, gates), and a copy is another one."""
    loop = conversing(call("c1", "new", gate="first_time"))
    loop.answers("approve")
    loop.returns("c1")
    loop.batch(copied)
    loop.finish_cancellations()
    loop.replies("", call("c2", "new", gate="first_time"))
    assert (loop.state, calling(loop)) == ("CONFIRMING", [])
    loop.answers("approve")
    loop.returns("c2")
    loop.replies("", call("c3", "new", gate="first_time"))
    assert calling(loop) == ["c3"]
    loop.assert_replays()


def test_calls_without_a_gate_go_on_while_others_await_confirmation() -> None:
    loop = conversing(call("c1"), call("c2", "remove", gate="destructive"))
    assert (loop.state, calling(loop), len(loop.asked())) == ("EXECUTING", ["c1"], 1)
    loop.returns("c1")
    assert loop.state == "CONFIRMING"


def test_several_gates_are_answered_in_one_go() -> None:
    loop = conversing(call("c1", "remove", gate="destructive"), call("c2", "send", gate="external"))
    assert len(loop.asked()) == 2
    loop.batch(loop.answer("approve", number=0), loop.answer("reject", number=1))
    assert (loop.state, calling(loop)) == ("EXECUTING", ["c1"])
    loop.assert_replays()


def test_a_call_that_may_have_been_made_is_asked_about() -> None:
    loop = conversing(call(tool="send"))
    effect = loop.effect(CallTool)
    loop.batch(loop.outstanding(CallTool)[effect].interrupted(effect, "killed"))
    assert loop.state == "WAITING"
    loop.answers("respond", "sent already")
    assert loop.memory.active["a"].rounds[0].calls[0].result == "sent already"


@pytest.mark.parametrize("late", [False, True])
def test_the_model_learns_that_an_interrupted_call_may_have_been_carried_out(*, late: bool) -> None:
    loop = Loop(*steps("a:model"), inquiry_timeout_s=60.0)
    loop.replies("", call(tool="send"))
    effect = loop.effect(CallTool)
    loop.batch(loop.outstanding(CallTool)[effect].interrupted(effect, "killed"))
    why = "nobody answered in time" if late else "me said no"
    if late:
        loop.wait_until(1060.0)
        loop.finish_cancellations()
    else:
        loop.answers("reject", reason="look first")
    assert result_for(loop.memory.active["a"].rounds[0].calls[0]) == {
        "status": "interrupted",
        "reason": f"it was interrupted, may have been carried out, and is not repeated: {why}",
        "feedback": "" if late else "look first",
    }
    assert calling(loop) == []
    loop.assert_replays()


def test_the_conversation_is_bounded_by_name() -> None:
    loop = Loop(*steps("a:model"), max_rounds=2)
    for number in (1, 2):
        loop.replies("", call(f"c{number}"))
        loop.returns(f"c{number}")
    assert loop.state == "REFLECTING"
    assert str(loop.memory.findings[0].reason) == "no answer after 2 replies (max_rounds)"


def test_a_model_that_cannot_be_had_fails_its_step() -> None:
    loop = conversing()
    loop.replies(error="no model")
    assert (loop.memory.findings[0].status, loop.memory.findings[0].reason) == ("failed", "no model")


@pytest.mark.parametrize(("idempotent", "state"), [(True, "EXECUTING"), (False, "WAITING")])
def test_a_fork_in_the_middle_of_a_call_repeats_it_or_asks(*, idempotent: bool, state: str) -> None:
    loop = conversing(call(idempotent=idempotent))
    loop.batch(Forked(origin="o", seq=3, idle_s=0.0))
    loop.finish_cancellations()
    assert loop.state == state
    loop.assert_replays()


@pytest.mark.parametrize("gate", ["destructive", "external", "first_time"])
def test_a_yes_that_a_call_has_used_is_not_the_yes_of_a_fork(gate: Gate) -> None:
    loop = conversing(call(tool="remove", gate=gate, idempotent=True))
    loop.answers("edit", {"path": "y"})
    loop.batch(Forked(origin="o", seq=5, idle_s=0.0))
    loop.finish_cancellations()
    assert (loop.state, [it.subject["arguments"] for it in loop.asked()]) == ("CONFIRMING", [{"path": "y"}])
    loop.answers("approve")
    assert calling(loop) == ["c1"]
    loop.assert_replays()


def test_a_fork_in_the_middle_of_a_confirmation_asks_again() -> None:
    loop = conversing(call(tool="remove", gate="destructive"))
    loop.batch(Forked(origin="o", seq=3, idle_s=0.0))
    loop.finish_cancellations()
    assert (loop.state, len(loop.asked())) == ("CONFIRMING", 1)
    loop.answers("approve")
    assert calling(loop) == ["c1"]


def test_a_fork_within_an_approved_conversation_asks_again_before_it_goes_on() -> None:
    """A4: "a fork asks again" (docs/security.md, Approvals), also where the model was asked after the first call."""
    loop = Loop(*steps("a:model", requires_approval=True))
    loop.answers("approve")
    loop.replies("", call("c1"))
    loop.returns("c1")
    for origin in ("o", "fork of o"):
        loop.batch(Forked(origin=origin, seq=6, idle_s=0.0))
        loop.finish_cancellations()
        assert (loop.state, [it.subject["step_id"] for it in loop.asked()], list(loop.outstanding(AskModel))) == ("WAITING", ["a"], [])
    loop.answers("approve")
    loop.replies("", call("c2"))
    assert calling(loop) == ["c2"]
    loop.assert_replays()


def test_a_fork_within_a_conversation_that_needed_no_approval_goes_on() -> None:
    loop = conversing(call("c1"))
    loop.returns("c1")
    loop.batch(Forked(origin="o", seq=4, idle_s=0.0))
    loop.finish_cancellations()
    assert (loop.asked(), [effect.round for effect in loop.outstanding(AskModel).values()]) == ([], [2])


def test_a_no_to_a_step_that_a_fork_asks_about_closes_the_question_about_its_call() -> None:
    """A4."""
    loop = Loop(*steps("a:model", requires_approval=True))
    loop.answers("approve")
    loop.replies("", call(tool="remove", gate="destructive"))
    loop.batch(Forked(origin="o", seq=3, idle_s=0.0))
    loop.finish_cancellations()
    step = next(inquiry for inquiry, asked in loop.outstanding(AskPerson).items() if "step_id" in asked.subject)
    loop.batch(Answered(effect_id=step, verb="reject"))
    loop.finish_cancellations()
    assert (loop.state, loop.asked()) == ("REFLECTING", [])
    loop.assert_replays()
