from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from asterism.constellation.machine.events import (
    AskPlanner,
    AttemptAttached,
    AttemptBegun,
    AttemptEnded,
    AttemptProgressed,
    AttemptQueued,
    Dispatch,
    Planned,
    PlanningFailed,
)
from asterism.constellation.model.documents import PlanDocument, parse_plan
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal
from asterism.constellation.python.performers import AttemptPerformer, PlannerPerformer
from asterism.devices.model.attempt import DeviceQuestion, TaskError
from asterism.devices.port import Attempt, AttemptResult, AttemptSigns
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.data import MAX_BYTES
from asterism.engine.kernel.machine import Event
from asterism.errors import InvalidInput
from asterism.testing.loop import run as run_in_virtual_time
from tests.support.constellation_harness import Agent
from tests.support.constellations import action, plan


class Dispatcher:
    """Says half way, then ends as told."""

    def __init__(self, end: AttemptResult) -> None:
        self.end = end
        self.seen: list[Attempt] = []

    async def perform(self, attempt: Attempt, signs: AttemptSigns) -> AttemptResult:
        self.seen.append(attempt)
        signs.progress(0.5, "half")
        return self.end


class APlanner:
    def __init__(self, reply: Proposal | PlanningUnavailable) -> None:
        self.reply = reply
        self.asked: list[PlannerRequest] = []

    async def propose(self, question: PlannerRequest) -> Proposal:
        self.asked.append(question)
        if isinstance(self.reply, PlanningUnavailable):
            raise self.reply
        return self.reply


def dispatched(agent: Agent, end: AttemptResult) -> tuple[Dispatcher, AttemptEnded, list[Event]]:
    dispatcher, told = Dispatcher(end), list[Event]()
    (effect_id,) = agent.outstanding(Dispatch)
    outcome = asyncio.run(AttemptPerformer(dispatcher).perform(effect_id, agent.run.request(effect_id), told.append))
    assert isinstance(outcome, AttemptEnded)
    return dispatcher, outcome, told


def asked(agent: Agent, reply: Proposal | PlanningUnavailable) -> tuple[APlanner, Any]:
    planner = APlanner(reply)
    (effect_id,) = agent.outstanding(AskPlanner)
    return planner, asyncio.run(PlannerPerformer(planner).perform(effect_id, agent.run.request(effect_id), lambda event: None))


def test_an_attempt_carries_its_key_and_the_results_of_its_predecessors() -> None:
    agent = Agent(plan("a b", "a>b"))
    agent.ends("a", {"x": 1})
    dispatcher, outcome, told = dispatched(agent, AttemptResult(result={"y": 2}))
    effect = agent.task("b").effect_id
    (attempt,) = dispatcher.seen
    assert (attempt.key, attempt.run_id, attempt.task_id, attempt.device_id, attempt.number) == (effect, "r", "b", "d", 1)
    assert attempt.results == {"a": {"x": 1}}
    assert outcome == AttemptEnded(effect_id=effect, result={"y": 2})
    assert told == [AttemptProgressed(effect_id=effect, fraction=0.5, message="half")]


def test_a_result_of_any_device_has_a_largest_size() -> None:
    largest = "x" * (MAX_BYTES - 2)  # and its quotes
    assert dispatched(Agent(plan("a")), AttemptResult(result=largest))[1].result == largest
    _, outcome, _ = dispatched(Agent(plan("a")), AttemptResult(result=f"{largest}x"))
    assert outcome.result is None
    assert outcome.error is not None
    assert outcome.error.code == "bad_result"
    assert "1,048,577 bytes, and the limit is 1,048,576; write it to a file and return its path" in outcome.error.words


def test_the_error_of_an_attempt_is_in_its_result() -> None:
    error = TaskError(code="crashed", message="signal 11")
    _, outcome, _ = dispatched(Agent(plan("a")), AttemptResult(error=error))
    assert outcome.error == error


def test_the_machine_accepts_the_result_of_an_attempt() -> None:
    agent = Agent(plan("a"))
    _, outcome, _ = dispatched(agent, AttemptResult(result=1))
    agent.batch(outcome)
    assert agent.state == "FINISH"


class SlowPlanner:
    """Answers after a day; may ignore its cancellations until then, or end the program."""

    def __init__(self, *, stubborn: bool = False, exits: bool = False) -> None:
        self.stubborn = stubborn
        self.exits = exits
        self.ends_at = 0.0

    async def propose(self, question: PlannerRequest) -> Proposal:
        loop = asyncio.get_running_loop()
        self.ends_at = loop.time() + 86_400
        if self.exits:
            raise SystemExit(3)
        while loop.time() < self.ends_at:
            try:
                await asyncio.sleep(self.ends_at - loop.time())
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
        return Proposal()


def outlived(planner: SlowPlanner) -> tuple[Any, float]:
    agent = Agent()
    (effect_id,) = agent.outstanding(AskPlanner)

    async def main() -> tuple[Any, float]:
        began = asyncio.get_running_loop().time()
        async with PlannerPerformer(planner, 600.0) as performer:
            outcome = await performer.perform(effect_id, agent.run.request(effect_id), lambda event: None)
            took = asyncio.get_running_loop().time() - began
        return outcome, took

    found: tuple[Any, float] = run_in_virtual_time(main(), 1)
    return found


def test_a_planner_that_does_not_answer_in_time_is_cancelled() -> None:
    outcome, took = outlived(SlowPlanner())
    assert (outcome.code, outcome.reason, outcome.notes) == ("timeout", "the planner has not answered within 600 s", ())
    assert took == 600


def test_a_planner_that_ignores_its_cancellation_is_left_behind_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    outcome, took = outlived(SlowPlanner(stubborn=True))
    note = "the planner was cancelled, has not ended after 5 s, and may still be running"
    assert (outcome.code, outcome.notes, took) == ("timeout", (note,), 605)
    assert [(record.name, record.message) for record in caplog.records] == [("asterism.constellation.planner", note)]


def test_a_planner_that_exits_does_not_end_the_event_loop() -> None:
    with pytest.raises(SystemExit):
        outlived(SlowPlanner(exits=True))


def test_a_planner_is_asked_for_a_constellation() -> None:
    agent = Agent()
    planner, outcome = asked(agent, Proposal(plan=parse_plan(plan("a")), thought="one task"))
    (question,) = planner.asked
    assert (question.mode, question.request, question.constellation, question.batch) == ("CREATION", "do it", None, ())
    assert list(question.fleet) == ["d", "d2", "s", "s2"]
    assert isinstance(outcome, Planned)
    agent.batch(outcome)
    assert agent.running() == ["a"]


def test_a_planner_is_asked_for_edits_with_the_current_constellation() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a", {"x": 1})
    planner, outcome = asked(agent, Proposal(actions=(action("remove_task", task_id="b"),), status="FINISH"))
    (question,) = planner.asked
    assert (question.mode, question.batch, question.constellation) == ("EDITING", ("a",), agent.constellation.to_dict())
    agent.batch(outcome)
    assert agent.state == "FINISH"


def test_the_planner_gets_feedback_on_its_last_answer() -> None:
    agent = Agent()
    agent.plans()
    planner, _ = asked(agent, Proposal())
    assert planner.asked[0].feedback == "reply: it holds no constellation"


def test_an_unavailable_planner_is_a_planning_failure() -> None:
    agent = Agent()
    _, outcome = asked(agent, PlanningUnavailable("no model answers", "backup"))
    assert outcome == PlanningFailed(effect_id=next(iter(agent.run.outstanding)), code="backup", reason="no model answers")


def test_after_a_restart_the_planner_gets_the_reason_the_old_plan_and_its_budget() -> None:
    agent = Agent(plan("a"), replan="always", max_tokens=100)
    agent.ends("a", {"x": 1})
    agent.plans(status="START", thought="another way", usage=Usage(input_tokens=30, output_tokens=10))
    planner, _ = asked(agent, Proposal())
    (question,) = planner.asked
    assert (question.reason, [before["generation"] for before in question.previous_rounds]) == ("another way", [0])
    assert question.budget_left is not None
    assert question.budget_left.tokens == 60


def test_usage_and_messages_are_part_of_the_result() -> None:
    spent = Usage(model="m", requests=2, input_tokens=5, cost_usd=0.1)
    _, outcome = asked(Agent(), Proposal(plan=parse_plan(plan("a")), usage=spent, prompt="plan it", reply="{}"))
    assert isinstance(outcome, Planned)
    assert (outcome.usage, outcome.prompt, outcome.reply) == (spent, "plan it", "{}")
    _, failed = asked(Agent(), PlanningUnavailable("no", "auth", spent))
    assert isinstance(failed, PlanningFailed)
    assert failed.usage == spent


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"result": {"n": math.nan}}, "nan is not a JSON number"),
        ({"thought": "half \ud800"}, "half a character"),
        ({"actions": ({"tool": "add_task", "parameters": {"at": object}},)}, "which JSON does not have"),
        ({"plan": PlanDocument(tasks=(TaskSpec(task_id="a", inputs={"x": math.inf}),))}, "inf is not a JSON number"),
    ],
)
def test_an_answer_that_cannot_be_journaled_is_a_planning_failure(given: dict[str, Any], told: str) -> None:
    _, outcome = asked(Agent(), Proposal(usage=Usage(requests=3), **given))
    assert isinstance(outcome, PlanningFailed)
    assert (outcome.code, outcome.usage.requests) == ("invalid_reply", 3)
    assert told in str(outcome.reason)


def test_what_a_planner_returns_instead_of_a_proposal_is_a_planning_failure() -> None:
    answer: Any = {"x": 1}
    _, outcome = asked(Agent(), answer)
    assert (outcome.code, str(outcome.reason)) == ("invalid_reply", "the planner returned a dict, not a Proposal")


class Reporting:
    """A report that the journal takes when the test says so."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.recorded: list[asyncio.Future[None]] = []

    def __call__(self, event: Event) -> asyncio.Future[None]:
        self.events.append(event)
        self.recorded.append(asyncio.get_running_loop().create_future())
        return self.recorded[-1]


class Beginning:
    """Queues an attempt if told to, and notes when it may begin."""

    def __init__(self, *, queues: bool) -> None:
        self.queues = queues
        self.has_begun = False

    async def perform(self, attempt: Attempt, signs: AttemptSigns) -> AttemptResult:
        if self.queues:
            signs.queued()
            signs.queued()
        await signs.begun()
        await signs.begun()
        self.has_begun = True
        return AttemptResult()


def beginning(skill: str, task_id: str, *, queues: bool) -> tuple[list[Event], bool, bool]:
    """Perform an attempt; return the reports, and whether it began before and after they were recorded."""
    agent = Agent({"tasks": [{"task_id": name, "device": "s", "skill": skill} for name in "ab"]})
    effect = agent.task(task_id).effect_id
    report, device = Reporting(), Beginning(queues=queues)

    async def main() -> tuple[bool, bool]:
        performing = asyncio.create_task(AttemptPerformer(device).perform(effect, agent.run.request(effect), report))
        for _ in range(5):
            await asyncio.sleep(0)
        before = device.has_begun
        for recorded in report.recorded:
            recorded.set_result(None)
        await performing
        return before, device.has_begun

    return report.events, *asyncio.run(main())


def test_an_attempt_that_counts_as_begun_begins_without_a_word() -> None:
    assert beginning("once", "a", queues=False) == ([], True, True)


def test_a_queued_attempt_begins_when_the_journal_says_so_and_at_once_if_it_may_be_repeated() -> None:
    assert beginning("once", "b", queues=True) == ([AttemptBegun(of="r:2.1")], False, True)
    assert beginning("again", "b", queues=True) == ([AttemptBegun(of="r:2.1")], True, True)


def test_an_attempt_that_must_wait_unexpectedly_says_so_once() -> None:
    said = [AttemptQueued(of="r:2.0"), AttemptBegun(of="r:2.0")]
    assert beginning("once", "a", queues=True) == (said, False, True)
    assert beginning("again", "a", queues=True) == (said, True, True)


class Attaching:
    """Reports handles, and notes those that it may rely on."""

    def __init__(self, *handles: str) -> None:
        self.handles = handles
        self.durable: list[str] = []

    async def perform(self, attempt: Attempt, signs: AttemptSigns) -> AttemptResult:
        for handle in self.handles:
            await signs.attached(handle)
            self.durable.append(handle)
        return AttemptResult()


def attaching(*handles: str) -> tuple[list[Event], list[str]]:
    """Perform an attempt; return the reports, and the handles that were durable before they were recorded."""
    agent = Agent(plan("a"))
    effect = agent.task("a").effect_id
    report, device = Reporting(), Attaching(*handles)

    async def main() -> list[str]:
        performing = asyncio.create_task(AttemptPerformer(device).perform(effect, agent.run.request(effect), report))
        for _ in range(5):
            await asyncio.sleep(0)
        before = list(device.durable)
        for recorded in report.recorded:
            recorded.set_result(None)
        await performing
        return before

    before = asyncio.run(main())
    return report.events, before


def test_a_handle_is_durable_when_the_journal_says_so() -> None:
    assert attaching("h1") == ([AttemptAttached(of="r:2.0", handle="h1")], [])


def test_a_handle_has_a_largest_size() -> None:
    with pytest.raises(InvalidInput, match="the handle has more than 4,096 bytes"):
        attaching("x" * 4097)


def test_a_question_of_a_device_ends_a_leg() -> None:
    question = DeviceQuestion(prompt="Which one?", state={"task": "17"})
    assert dispatched(Agent(plan("a")), AttemptResult(question=question))[1].question == question


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"prompt": ""}, "0 characters"),
        ({"prompt": "x" * 10_001}, "10,001 characters"),
        ({"prompt": 3}, "is invalid"),
        ({"verbs": ("edit",)}, "accepts edit"),
        ({"verbs": ()}, "accepts no answer"),
        ({"verbs": ("reject",)}, "accepts reject"),
        ({"state": {"x": "y" * 65_536}}, "the state of the device's question has 65,544 bytes"),
        ({"schema": {"x": "y" * 65_536}}, "the schema of the device's question"),
        ({"state": {"x": math.nan}}, "nan"),
        ({"state": object()}, "is invalid"),
    ],
)
def test_a_question_that_no_journal_or_inbox_can_hold_is_a_bad_result(fields: dict[str, Any], why: str) -> None:
    question = DeviceQuestion(**{"prompt": "Which one?", **fields})
    _, outcome, _ = dispatched(Agent(plan("a")), AttemptResult(question=question))
    assert outcome.error is not None
    assert outcome.error.code == "bad_result"
    assert why in outcome.error.words
