"""The constellation agent under events in any order: what always holds, and what its journal gives back."""

from __future__ import annotations

from typing import Any

import msgspec
import networkx as nx
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from asterism.constellation.machine.events import AskPlanner, AttemptEnded, Dispatch, PlanningFailed
from asterism.constellation.model.task import TaskStatus
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    Cancel,
    CancelEffect,
    EffectCancelled,
    OwnershipAcquired,
    Pause,
    Unpause,
)
from asterism.engine.kernel.guards import digest_of
from asterism.engine.kernel.machine import Event
from asterism.errors import IllegalTransition, Refused
from asterism.testing.invariants import subject_of
from tests.properties.plans import batches, documents, edits
from tests.support.constellation_harness import FLEET, Agent, memory_of
from tests.support.constellations import action, ready

ERRORS = [None, None, None, "raised", "timeout", "interrupted", "device_lost", "cancelled"]
replies = st.one_of(st.just([]), st.lists(edits, min_size=1, max_size=1), batches)
WORLD = [
    *[None, None, Pause(), Unpause(), Unpause(), Unpause(), OwnershipAcquired(epoch=2, owner="p"), Cancel(reason="enough")],
    *[DeviceLost(device="s"), DeviceFound(device="s"), DeviceLost(device="d"), DeviceFound(device="d"), DeviceFound(device="d")],
]
VERBS = ["approve", "approve", "edit", "respond", "reject", "cancel"]


class AnAgent(RuleBasedStateMachine):
    """One run; nothing is performed, outcomes come when the rules say so."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = Agent()
        self.started: set[str] = set()
        self.late: list[Event] = []

    @initialize(
        document=documents(least=3),
        given=st.booleans(),
        replan=st.sampled_from(["always", "when_needed", "always", "never"]),
        hold=st.sampled_from(["successors", "none", "all"]),
        timeout_s=st.sampled_from([None, 5.0]),
        data=st.data(),
    )
    def begin(self, document: dict[str, Any], *, given: bool, replan: str, hold: str, timeout_s: float | None, data: st.DataObject) -> None:
        for task in document["tasks"]:
            more = data.draw(
                st.sampled_from(
                    [
                        {},
                        {"requires_approval": True},
                        {"device": "s", "skill": "again"},
                        {"device": "s", "skill": "once", "retry": {"max_attempts": 2}},
                        {"deadline_s": 9},
                    ]
                )
            )
            task.update(more)
        options: dict[str, Any] = {
            "replan": replan,
            "hold": hold,
            "inquiry_timeout_s": timeout_s,
            "max_reasks": 2,
            "max_restarts": 1,
            "wall_limit_s": 200,
        }
        self.agent = Agent(document if given else None, **options)
        if not given:
            self.agent.plans(plan=document)

    # -- what happens --------------------------------------------------------------------------------

    def _happens(self, event: Event, *, drain: bool = True) -> None:
        """Take an event; what is refused changes nothing."""
        agent = self.agent
        before = memory_of(agent.run)
        terminal = agent.state in ("FINISH", "FAIL")
        try:
            entry = agent.take(event)
        except (Refused, IllegalTransition):
            assert memory_of(agent.run) == before
            return
        if entry is None or entry.note:
            assert memory_of(agent.run)["schedule"] == before["schedule"]
        if terminal:
            assert agent.state == before["state"]
            assert memory_of(agent.run)["schedule"] == before["schedule"]
        if drain:
            agent.drain()

    def _drawn(self, data: st.DataObject, kind: Any) -> str:
        return data.draw(st.sampled_from(sorted(self.agent.outstanding(kind))))

    @precondition(lambda self: self.agent.outstanding(Dispatch))
    @rule(data=st.data(), error=st.sampled_from(ERRORS), x=st.integers(1, 3), drain=st.booleans())
    def an_attempt_ends(self, data: st.DataObject, error: Any, x: int, *, drain: bool) -> None:
        effect = self._drawn(data, Dispatch)
        told = {"code": error, "message": "why"} if error else None
        ended = msgspec.convert({"effect_id": effect, "result": None if error else {"x": x, "replan": x == 3}, "error": told}, AttemptEnded)
        self._happens(ended, drain=drain)
        self.late.append(ended)

    @precondition(lambda self: self.agent.question())
    @rule(actions=replies, status=st.sampled_from(["CONTINUE", "CONTINUE", "START", "FINISH", "CONTINUE"]), drain=st.booleans())
    def the_planner_answers(self, actions: list[dict[str, Any]], status: str, *, drain: bool) -> None:
        self._happens(self.agent.reply(*actions, status=status), drain=drain)

    @precondition(lambda self: self.agent.question() and self.agent.constellation.tasks)
    @rule(data=st.data(), remove=st.booleans())
    def the_planner_adds_and_removes(self, data: st.DataObject, *, remove: bool) -> None:
        """Edits that are right as far as can be known: what they touch may have started meanwhile."""
        tasks = self.agent.constellation.tasks
        after = data.draw(st.sampled_from(sorted(tasks)))
        added = f"n{self.agent.run.seq}"
        actions = [action("add_task", task_id=added, device="d"), action("add_dependency", from_=after, to=added)]
        editable = sorted(task_id for task_id, task in tasks.items() if task.editable and task_id != after)
        if remove and editable:
            actions.append(action("remove_task", task_id=data.draw(st.sampled_from(editable))))
        self._happens(self.agent.reply(*actions))

    @precondition(lambda self: self.agent.question())
    @rule(document=documents())
    def the_planner_plans(self, document: dict[str, Any]) -> None:
        self._happens(self.agent.reply(plan=document))

    @precondition(lambda self: self.agent.question())
    @rule()
    def the_planner_gives_up(self) -> None:
        if len(self.agent.entries) > 20:
            self._happens(self.agent.reply(status="FAIL"))

    @precondition(lambda self: self.agent.outstanding(AskPlanner))
    @rule(data=st.data())
    def the_planner_is_not_heard(self, data: st.DataObject) -> None:
        self._happens(PlanningFailed(effect_id=self._drawn(data, AskPlanner), code="planning", reason="no model"))

    @precondition(lambda self: self.agent.outstanding(AskPerson))
    @rule(data=st.data(), verb=st.sampled_from(VERBS), value=st.sampled_from([None, {"x": 7}, {"z": 1}, {"x": "${t0.x}"}]))
    def a_person_answers(self, data: st.DataObject, verb: Any, value: Any) -> None:
        self._happens(Answered(effect_id=self._drawn(data, AskPerson), verb=verb, value=value))

    @precondition(lambda self: self.agent.outstanding(CancelEffect))
    @rule(data=st.data())
    def something_is_called_off(self, data: st.DataObject) -> None:
        withdrawal = self._drawn(data, CancelEffect)
        target = self.agent.outstanding(CancelEffect)[withdrawal].effect_id
        effect = self.agent.run.outstanding.get(target)
        if effect is not None:
            self._happens(effect.interrupted(target, "called off"), drain=False)
        self._happens(EffectCancelled(effect_id=withdrawal))

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def an_outcome_comes_again(self, data: st.DataObject) -> None:
        seq = self.agent.run.seq
        self._happens(self.late.pop(data.draw(st.integers(0, len(self.late) - 1))), drain=False)
        assert self.agent.entries[-1].note
        assert self.agent.run.seq == seq + 1

    @rule(event=st.sampled_from(WORLD), after_s=st.sampled_from([0.0, 0.0, 0.5, 3.0, 20.0]))
    def the_world_changes(self, event: Event | None, after_s: float) -> None:
        self.agent.now += after_s
        if event is None:
            self.agent.drain()
        else:
            self._happens(event)

    # -- what always holds ---------------------------------------------------------------------------

    @invariant()
    def the_board_is_the_constellations(self) -> None:
        schedule = self.agent.memory.schedule
        if schedule is None:
            return
        it = schedule.constellation
        graph = nx.DiGraph([(line.source, line.target) for line in it.lines.values()])
        assert nx.is_directed_acyclic_graph(graph)
        assert it.validate_dag() == (True, [])
        assert not it.unevaluated
        assert not it.dirty
        assert set(schedule.running) == {task.task_id for task in it.tasks.values() if task.status is TaskStatus.RUNNING}
        if self.agent.state == "CONTINUE":
            assert set(schedule.startable) == {task.task_id for task in it.tasks.values() if task.status is TaskStatus.PENDING}
            assert set(schedule.startable) == set(ready(it))
            assert set(schedule.unsatisfiable) == {
                task_id for task_id, task in it.tasks.items() if task.editable and it.is_unsatisfiable(task_id)
            }

    @invariant()
    def nothing_runs_before_its_dependencies_or_without_its_approval(self) -> None:
        it = self.agent.constellation
        for effect_id, effect in self.agent.outstanding(Dispatch).items():
            if effect_id in self.agent.run.cancelled_effects:
                continue
            task = it.tasks[effect.task_id]
            assert task.effect_id == effect_id
            assert all(line.verdict is not None and line.verdict.satisfied for line in it.lines_in(task.task_id))
            if task.requires_approval:
                assert effect.approval == task.approved == digest_of(subject_of(effect, task, self.agent.memory))

    @invariant()
    def each_task_has_one_effect_that_is_outstanding(self) -> None:
        run = self.agent.run
        left = {
            effect_id for effect_id, effect in run.outstanding.items() if isinstance(effect, Dispatch | AskPerson)
        } - run.cancelled_effects
        assert left == {task.effect_id for task in self.agent.constellation.tasks.values() if task.effect_id}

    @invariant()
    def it_has_ended_or_waits_for_something_that_it_can_name(self) -> None:
        agent, memory = self.agent, self.agent.memory
        agent.drain()
        if agent.run.ended:
            assert agent.state in ("FINISH", "FAIL")
            assert memory.outcome()
            assert all(task.settled for task in agent.constellation.tasks.values())
            return
        assert agent.run.outstanding or memory.paused or memory.lost_devices or memory.wake_at() is not None
        assert agent.drain() is None, "a second drain has nothing left to do"

    def teardown(self) -> None:
        assert memory_of(self.agent.replayed()) == memory_of(self.agent.run)


def test_a_replay_equals_the_live_run_whatever_happens() -> None:
    run_state_machine_as_test(AnAgent, settings=settings(max_examples=150, stateful_step_count=30))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_replay_equals_the_live_run_whatever_happens_for_long() -> None:
    run_state_machine_as_test(AnAgent, settings=settings(max_examples=800, stateful_step_count=60))


def test_the_fleet_of_these_tests_has_what_the_rules_name() -> None:
    assert {"d", "s"} <= {profile.device_id for profile in FLEET}
