from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from asterism.constellation.machine.events import Dispatch, Edited
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.edits import EditRefused
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.control.run_control import Answered, AskPerson, Cancel, CancelEffect, Pause, Unpause, Verb
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import Refused
from tests.support.constellation_harness import Agent, agent_of_rules, memory_of, retried
from tests.support.constellations import action


def careful(skill: str = "once", **more: Any) -> dict[str, Any]:
    """A task on ``s`` that wants a yes."""
    task = {"task_id": "a", "name": "act", "device": "s", "skill": skill, "inputs": {"x": 1}, "requires_approval": True, **more}
    return {"tasks": [task]}


def interrupted(**more: Any) -> Agent:
    agent = Agent({"tasks": [{"task_id": "a", "device": "s", "skill": "once", "inputs": {"x": 1}, **more}]})
    agent.ends("a", error="interrupted")
    return agent


# -- approval ------------------------------------------------------------------------------------------


def test_a_task_that_wants_a_yes_asks_for_exactly_what_will_be_done() -> None:
    agent = Agent(careful())
    asked = agent.inquiry()
    assert asked.subject == {"task_id": "a", "device": "s", "skill": "once", "description": "act", "arguments": {"x": 1}}
    assert (asked.prompt, asked.verbs, asked.risk) == ("Run a (act) on s?", ("approve", "edit", "reject"), "high")
    assert (agent.task("a").status, agent.task("a").inquiry_id, agent.task("a").attempts) == (
        "RUNNING",
        next(iter(agent.run.outstanding)),
        0,
    )


def test_a_yes_runs_it_once() -> None:
    agent = Agent(careful())
    answer = agent.answer("approve")
    agent.batch(answer)
    assert agent.attempt("a").arguments == {"x": 1}
    noted = agent.take(answer)
    assert noted is not None
    assert noted.note
    agent.drain()
    assert agent.task("a").attempts == 1
    agent.ends("a")
    assert agent.state == "FINISH"


def test_an_edited_yes_runs_what_the_person_wrote() -> None:
    agent = Agent(careful())
    agent.answers("edit", {"x": 2, "y": "new"})
    assert agent.attempt("a").arguments == {"x": 2, "y": "new"}
    assert not agent.outstanding(AskPerson)
    assert memory_of(agent.replayed()) == memory_of(agent.run)


TYPED: dict[str, Any] = {
    "type": "object",
    "properties": {"longest": {"type": "string"}, "times": {"type": "integer"}, "parts": {"type": "array"}},
}
MISTYPED = [
    ({"longest": 5}, "longest: count takes string, not int"),
    ({"times": 0.5}, "times: count takes integer, not float"),
    ({"times": 2, "parts": {"a": 1}}, "parts: count takes array, not dict"),
]


def typed(agent: type[Agent] = Agent, **more: Any) -> Agent:
    """An agent that asks about a task whose skill has typed parameters."""
    fleet = (AgentProfile(device_id="s", skills=(Skill(name="count", parameters={**TYPED, **more}),)),)
    return agent(careful("count", inputs={"longest": "all"}), fleet=fleet)


@pytest.mark.parametrize(("value", "told"), MISTYPED)
def test_an_edited_yes_with_an_argument_of_another_type_is_refused_as_in_a_plan_and_the_question_stays(
    value: dict[str, Any], told: str
) -> None:
    agent = typed()
    before = memory_of(agent.run)
    with pytest.raises(Refused) as refused:
        agent.answers("edit", value)
    assert str(refused.value) == f"a.inputs.{told}"
    with pytest.raises(EditRefused) as of_a_plan:
        typed().take(Edited(base_version=1, actions=(action("add_task", task_id="a2", device="s", name="count", inputs=value),)))
    assert str(of_a_plan.value) == f"a2.inputs.{told}"
    assert memory_of(agent.run) == before
    agent.answers("edit", {"longest": "5", "times": "3"})
    assert agent.attempt("a").arguments == {"longest": "5", "times": "3"}


def test_an_edited_yes_may_give_what_a_skill_takes_besides() -> None:
    agent = typed(additionalProperties=True)
    agent.answers("edit", {"more": 1})
    assert agent.attempt("a").arguments == {"longest": "all", "more": 1}


@pytest.mark.parametrize("rules", [1, 2])
@pytest.mark.parametrize(("value", "_"), MISTYPED)
def test_an_edited_yes_that_earlier_rules_have_taken_is_replayed(rules: int, value: dict[str, Any], _: str) -> None:
    agent = typed(agent_of_rules(rules))
    agent.answers("edit", value)
    assert memory_of(agent.replayed(CONSTELLATION_AGENT)) == memory_of(agent.run)


@pytest.mark.parametrize("verb", ["reject", "cancel"])
def test_a_no_stops_the_task(verb: Verb) -> None:
    agent = Agent(careful())
    agent.answers(verb, reason="not today")
    error = agent.task("a").error
    assert error is not None
    assert (agent.task("a").status, error.code, error.words) == ("CANCELLED", "rejected", "me said no: not today")
    assert agent.state == "FAIL"


@pytest.mark.parametrize(
    ("verb", "value", "told"),
    [
        ("respond", 1, "accepts approve, edit, reject, not respond"),
        ("edit", [1], "as a JSON object"),
        ("edit", None, "as a JSON object"),
        ("edit", {"z": 1}, "a.inputs.z: once takes x, y"),
        ("edit", {"x": "${b.secret}"}, "only the arguments shown are approved"),
    ],
)
def test_an_answer_that_the_question_does_not_take_is_refused_and_changes_nothing(verb: Verb, value: Any, told: str) -> None:
    agent = Agent(careful())
    before = memory_of(agent.run)
    with pytest.raises(Refused, match=told):
        agent.take(agent.answer(verb, value))
    assert memory_of(agent.run) == before


def test_a_no_without_a_reason_says_who_said_it() -> None:
    agent = Agent(careful())
    agent.answers("reject")
    error = agent.task("a").error
    assert error is not None
    assert error.words == "me said no"


def test_an_answer_to_what_is_no_question_is_refused() -> None:
    agent = Agent({"tasks": [{"task_id": "a", "device": "s", "skill": "once"}]})
    (attempt,) = agent.run.outstanding
    with pytest.raises(Refused, match=rf"^{attempt} is not open any more$"):
        agent.take(Answered(effect_id=attempt, verb="approve"))


def test_an_expired_question_counts_as_rejected() -> None:
    agent = Agent(careful(), inquiry_timeout_s=60)
    assert agent.inquiry().expires_at == 1060.0
    assert agent.memory.wake_at() == 1060.0
    agent.wait_until(1060.0)
    error = agent.task("a").error
    assert error is not None
    assert (agent.task("a").status, error.code) == ("FAILED", "rejected")
    assert error.words == "nobody answered in time (within 60 s)"
    agent.finish_cancellations()
    assert (agent.state, agent.run.ended) == ("FAIL", True)


@pytest.mark.parametrize(("skill", "status"), [("once", "FAILED"), ("again", "PENDING")])
def test_a_retry_that_names_no_errors_repeats_nothing_that_may_have_happened(skill: str, status: str) -> None:
    agent = Agent({"tasks": [{"task_id": "a", "device": "s", "skill": skill, "retry": {"max_attempts": 3}}]})
    agent.ends("a", error="crashed")
    assert agent.task("a").status == status


def test_an_expired_question_counts_as_rejected_in_a_paused_run_too() -> None:
    agent = Agent(careful(), inquiry_timeout_s=60)
    agent.batch(Pause())
    agent.wait_until(1060.0)
    assert agent.task("a").status == "FAILED"


def test_a_deadline_passes_while_a_question_is_open() -> None:
    agent = Agent(careful(deadline_s=30))
    agent.wait_until(1030.0)
    error = agent.task("a").error
    assert error is not None
    assert (agent.task("a").status, error.code) == ("FAILED", "deadline")
    assert error.words == "nobody answered in time (within 30 s of the start of the run)"


def test_an_answer_to_a_cancelled_question_is_refused() -> None:
    agent = Agent(careful(), inquiry_timeout_s=60)
    late = agent.answer("approve")
    agent.wait_until(1060.0)
    with pytest.raises(Refused, match="is not open any more"):
        agent.take(late)
    agent.finish_cancellations()
    noted = agent.take(late)
    assert noted is not None
    assert noted.note


def test_a_yes_given_while_paused_starts_nothing_until_the_run_goes_on() -> None:
    agent = Agent(careful())
    agent.take(Pause())
    agent.answers("approve")
    assert agent.task("a").status == "PENDING"
    assert not agent.run.outstanding
    agent.batch(Unpause())
    assert agent.attempt("a").arguments == {"x": 1}
    assert not agent.outstanding(AskPerson), "it was approved already"


def test_a_retry_of_what_was_approved_does_not_ask_again() -> None:
    agent = Agent(careful(retry={"max_attempts": 2, "backoff_s": 0}))
    agent.answers("edit", {"x": 5})
    agent.ends("a", error="raised")
    assert agent.attempt("a").number == 2
    assert agent.attempt("a").arguments == {"x": 5}


def test_a_yes_for_one_device_is_no_yes_for_another() -> None:
    agent = Agent(careful())
    agent.take(DeviceLost(device="s"))
    agent.answers("approve")
    assert agent.inquiry().subject["device"] == "s2"


def test_a_yes_for_some_arguments_is_no_yes_for_others() -> None:
    agent = Agent(careful())
    agent.take(Pause())
    agent.answers("approve")
    agent.task("a").inputs = {"x": 2}
    agent.batch(Unpause())
    assert agent.inquiry().subject["arguments"] == {"x": 2}
    assert agent.running() == ["a"]


# -- what may have finished ------------------------------------------------------------------------------


def test_an_interrupted_task_that_may_not_be_repeated_asks() -> None:
    agent = interrupted()
    asked = agent.inquiry()
    assert asked.prompt == "a on s was interrupted and may have finished (a: interrupted). Run it again?"
    assert asked.verbs == ("approve", "respond", "reject")
    assert (agent.task("a").status, agent.task("a").attempts) == ("RUNNING", 1)
    assert agent.state == "CONTINUE"


def test_a_person_may_have_it_run_again() -> None:
    agent = interrupted()
    agent.answers("approve")
    assert (agent.attempt("a").number, agent.task("a").attempts) == (2, 2)


def test_running_it_again_does_not_ask_for_the_approval_it_had() -> None:
    agent = Agent(careful())
    agent.answers("approve")
    agent.ends("a", error="interrupted")
    agent.answers("approve")
    assert agent.attempt("a").number == 2


def test_a_person_may_say_what_it_returned() -> None:
    agent = interrupted()
    agent.answers("respond", {"rows": 3})
    assert (agent.task("a").status, agent.task("a").result) == ("COMPLETED", {"rows": 3})
    assert agent.state == "FINISH"


@pytest.mark.parametrize("value", [None, "three", {"wrds": 3}, {}, {"words": 3, "more": 1}])
def test_a_result_that_the_skill_never_has_is_refused_and_the_question_stays(value: Any) -> None:
    output = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}
    counter = AgentProfile(device_id="c", skills=(Skill(name="count", output=output),))
    agent = Agent({"tasks": [{"task_id": "a", "device": "c", "skill": "count"}]}, fleet=(counter,))
    agent.ends("a", error="interrupted")
    with pytest.raises(Refused, match="count returns an object with words; give such an object"):
        agent.take(agent.answer("respond", value))
    agent.answers("respond", {"words": 3})
    assert agent.task("a").result == {"words": 3}


def test_a_person_may_say_that_it_failed() -> None:
    agent = interrupted()
    agent.answers("reject", reason="half written")
    error = agent.task("a").error
    assert error is not None
    assert (agent.task("a").status, error.words) == ("FAILED", "me said no: half written")


def approved_and_interrupted(agent: type[Agent] = Agent) -> Agent:
    it = agent(careful())
    it.answers("approve")
    it.ends("a", error="interrupted")
    return it


@pytest.mark.parametrize("verb", ["reject", "cancel"])
@pytest.mark.parametrize("make", [interrupted, approved_and_interrupted])
def test_a_retry_of_an_interrupted_task_that_a_person_rejected_asks_again(make: Callable[[], Agent], verb: Verb) -> None:
    agent = make()
    agent.answers(verb)
    agent = retried(agent)
    assert not agent.outstanding(Dispatch)
    assert agent.inquiry().prompt.endswith("was interrupted before this retry and may have finished. Run it again?")
    assert agent.inquiry().verbs == ("approve", "respond", "reject")
    agent.answers(verb)
    agent = retried(agent)
    agent.answers("approve")
    assert agent.attempt("a").arguments == {"x": 1}
    agent.ends("a")
    assert agent.state == "FINISH"


def test_a_retry_of_an_interrupted_task_asks_again_if_nobody_had_answered() -> None:
    late = Agent({"tasks": [{"task_id": "a", "device": "s", "skill": "once"}]}, inquiry_timeout_s=60)
    late.ends("a", error="interrupted")
    late.wait_until(1060.0)
    late.finish_cancellations()
    cancelled = interrupted()
    cancelled.batch(Cancel())
    cancelled.finish_cancellations()
    for agent in (late, cancelled):
        assert agent.run.ended
        assert not retried(agent).outstanding(Dispatch)


def test_an_approved_retry_that_fails_by_itself_does_not_ask_again() -> None:
    agent = interrupted()
    agent.answers("approve")
    agent.ends("a", error="raised")
    assert retried(agent).attempt("a").number == 1


def test_a_retry_by_earlier_rules_is_replayed() -> None:
    agent = approved_and_interrupted(agent_of_rules(4))
    agent.answers("reject")
    agent = retried(agent)
    assert agent.attempt("a").arguments == {"x": 1}
    assert memory_of(agent.replayed(CONSTELLATION_AGENT)) == memory_of(agent.run)


def test_an_answer_of_another_kind_is_refused() -> None:
    agent = interrupted()
    with pytest.raises(Refused, match="accepts approve, respond, reject, not edit"):
        agent.take(agent.answer("edit", {"x": 2}))


def test_other_tasks_go_on_while_a_question_is_open() -> None:
    agent = Agent({"tasks": [*careful()["tasks"], {"task_id": "b", "device": "d"}, {"task_id": "c", "device": "d"}],
                   "dependencies": [{"from": "b", "to": "c"}]})  # fmt: skip
    agent.ends("b")
    agent.ends("c")
    assert agent.statuses() == {"a": "RUNNING", "b": "COMPLETED", "c": "COMPLETED"}
    assert agent.state == "CONTINUE"


def test_a_cancelled_question_has_no_consequence() -> None:
    agent = Agent(careful(), inquiry_timeout_s=60)
    agent.wait_until(1060.0)
    (withdraw,) = agent.outstanding(CancelEffect).values()
    entry = agent.take(Answered(effect_id=withdraw.effect_id, cancelled=True))
    assert entry is not None
    assert not entry.note
    assert agent.task("a").status == "FAILED"


def test_a_device_that_comes_back_does_not_start_what_waits_for_a_person() -> None:
    agent = Agent(careful())
    agent.batch(DeviceLost(device="s"), DeviceFound(device="s"))
    assert list(agent.outstanding(AskPerson)) == [agent.task("a").inquiry_id]
