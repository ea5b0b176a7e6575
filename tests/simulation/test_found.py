"""Regression tests for defects found by campaigns (docs/results/reliability.md names the seeds)."""

from __future__ import annotations

from asterism.constellation.machine.events import RunOptions
from asterism.devices.model.attempt import TaskError
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.refusal import verdict_words
from asterism.testing.device import Behaviour
from asterism.testing.people import Crash, ScheduledEvent, StoreFaults, everyone_says
from asterism.testing.program import FailingMoves, Program
from asterism.testing.world import World

FLEET = AgentProfile(device_id="d", skills=(Skill(name="once"),))


def test_an_inquiry_is_closed_when_the_run_fails_over_its_answer() -> None:
    plan = {"tasks": [{"task_id": "a", "device": "d", "skill": "once", "requires_approval": True}]}
    world = World(fleet=[FLEET], people=everyone_says("approve"), program=Program(defects=1000))
    ending = world.run(plan)
    assert (ending.outcome, ending.memory.code) == ("failed", "defect")
    assert [inquiry.answer for inquiry in world.database.inquiries.values()] == ["withdrawn"]


def test_a_command_that_meets_a_defect_is_rejected_and_may_be_sent_again() -> None:
    plan = {"tasks": [{"task_id": "a", "device": "d", "skill": "once"}]}
    for seed in range(10):
        world = World(
            fleet=[FLEET],
            script={"once": Behaviour(duration_s=50)},
            scheduled_events=[ScheduledEvent(at_s=2, what="cancel")],
            program=Program(failing=FailingMoves(seed=seed, commands=0.5)),
            resends=5,
        )
        ending = world.run(plan)
        verdicts = [row.verdict for row in world.database.inbox.values()]
        assert (ending.outcome, verdicts[-1]) == ("cancelled", "accepted")
        assert all("a defect of asterism: cancel could not be taken: " in verdict_words(verdict) for verdict in verdicts[:-1])
        assert world.counts["sent again"] == len(verdicts) - 1


def test_moves_fail_over_commands_and_results_with_separate_chances() -> None:
    plan = {"tasks": [{"task_id": "a", "device": "d", "skill": "once", "requires_approval": True}]}
    pause = ScheduledEvent(at_s=0.2, what="pause")
    outcomes = World(
        fleet=[FLEET], people=everyone_says("approve"), scheduled_events=[pause], program=Program(failing=FailingMoves(outcomes=1))
    )
    assert outcomes.run(plan).memory.reason.startswith("answered could not be taken: ")
    assert outcomes.refusals == []
    commands = World(
        fleet=[FLEET], people=everyone_says("approve"), scheduled_events=[pause], program=Program(failing=FailingMoves(commands=1))
    )
    assert commands.run(plan).outcome == "finished"
    assert [told.partition(" could")[0] for told in commands.refusals] == ["a defect of asterism: pause"]


def test_an_unreadable_inbox_row_gets_a_verdict_when_it_arrives_during_a_write() -> None:
    plan = {"tasks": [{"task_id": "a", "device": "d", "skill": "once"}]}
    rows = [ScheduledEvent(at_s=0.1 * number, what="inbox_row", kind="Nonsense") for number in range(1, 40)]
    world = World(4, fleet=[FLEET], script={"once": Behaviour(duration_s=5)}, scheduled_events=rows, store=StoreFaults(fails=0.5, times=3))
    assert world.run(plan).outcome == "finished"
    assert all(row.verdict for row in world.database.inbox.values())


def test_a_run_in_backoff_can_be_forked() -> None:
    plan = {"tasks": [{"task_id": "a", "device": "d", "skill": "once", "retry": {"max_attempts": 3, "backoff_s": 10, "on": ["raised"]}}]}
    fails = Behaviour(error=TaskError(code="raised", message="simulated"))
    origin = World(fleet=[FLEET], script={"once": fails}).run(plan)
    for seed in range(10):  # the draws depend on the name of the fork
        ending = World(seed, fleet=[FLEET], script={"once": Behaviour()}).run_fork(origin, len(origin.records), new=f"fork-{seed}")
        assert ending.task("a").attempts == 3


def test_a_run_whose_alert_names_an_expired_question_can_be_forked() -> None:
    plan = {
        "tasks": [{"task_id": "a", "device": "d", "skill": "once", "requires_approval": True}],
        "on_failure": [{"task_id": "alert", "device": "d", "skill": "say", "inputs": {"text": "${run.error}", "why": "${a.error}"}}],
    }
    say = Skill(name="say", parameters={"additionalProperties": True}, idempotent=True)
    fleet = [AgentProfile(device_id="d", skills=(Skill(name="once"), say))]
    later = [ScheduledEvent(at_s=70, what="pause"), ScheduledEvent(at_s=71, what="unpause")]
    origin = World(fleet=fleet, scheduled_events=later).run(plan, options=RunOptions(inquiry_timeout_s=60))
    for at in range(1, len(origin.records) + 1):
        ending = World(fleet=fleet, scheduled_events=later).run_fork(origin, at)
        assert ending.memory.reason == "a (once) is FAILED: nobody answered in time (within 60 s)"


def test_an_unreadable_inbox_row_does_not_block_a_run_that_has_just_ended() -> None:
    plan = {"tasks": [{"task_id": "a", "device": "d", "skill": "once"}]}
    for after_ms in range(0, 1000, 50):
        row = ScheduledEvent(at_s=5 + after_ms / 1000, what="inbox_row", kind="Nonsense")
        world = World(fleet=[FLEET], script={"once": Behaviour(duration_s=5)}, scheduled_events=[row], store=StoreFaults(slow=1.0))
        assert world.run(plan).outcome == "finished"


def test_a_child_created_by_a_fenced_owner_is_recognised() -> None:
    inner = {"tasks": [{"task_id": "b", "device": "d", "skill": "once"}]}
    plan = {"tasks": [{"task_id": "a", "constellation": inner}]}
    for seed in range(20):  # the two owners search for and write the child in any order
        world = World(seed, fleet=[FLEET], scheduled_events=[ScheduledEvent(at_s=0.9, what="fence")], store=StoreFaults(slow=1.0))
        assert world.run(plan).outcome == "finished"


def test_a_new_task_under_the_id_of_a_removed_one_is_not_a_repetition() -> None:
    again = {"task_id": "a", "name": "another", "device": "d", "skill": "other"}
    changes = ({"tool": "remove_task", "parameters": {"task_id": "a"}}, {"tool": "add_task", "parameters": again})
    world = World(
        fleet=[AgentProfile(device_id="d", skills=(Skill(name="once"), Skill(name="other")))],
        script={"once": Behaviour(duration_s=5)},
        crashes=[Crash(entry=3, after_s=1)],
        people=everyone_says("approve", after_s=10),
        scheduled_events=[
            ScheduledEvent(at_s=2, what="pause"),
            ScheduledEvent(at_s=20, what="edit", actions=changes),
            ScheduledEvent(at_s=40, what="unpause"),
        ],
    )
    ending = world.run({"tasks": [{"task_id": "a", "device": "d", "skill": "once"}]})
    assert (ending.outcome, ending.task("a").name) == ("finished", "another")
    assert [(it.skill, it.status) for it in world.performance_log.performances] == [("once", "killed"), ("other", "done")]
