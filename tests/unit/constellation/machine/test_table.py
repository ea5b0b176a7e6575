from __future__ import annotations

import itertools

import pytest

from asterism.constellation.machine.events import AttemptEnded, AttemptProgressed, ConstellationAgentStatus, ConstellationSubmitted
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.edits import EditRefused
from asterism.devices.model.attempt import DeviceLost
from asterism.engine.control.run_control import BatchEnded, Cancel, CancelEffect, OwnershipAcquired, Pause, TransitionFailed, Unpause
from asterism.engine.kernel.journal import Record, state_history
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.phrase import words_of
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.kernel.run import Run
from asterism.errors import IllegalTransition, Refused
from tests.support.constellation_harness import FLEET, Agent, memory_of
from tests.support.constellations import plan, seed

# As the seed writes it: staying in FINISH and FAIL is an edge there.
SEED = {
    "START": {"CONTINUE", "FAIL"},
    "CONTINUE": {"START", "CONTINUE", "FINISH", "FAIL"},
    "FINISH": {"FINISH"},
    "FAIL": {"FAIL"},
}


SEED_FLEET = tuple(
    AgentProfile(device_id=device, natural_language=True) for device in ("laptop", "gpu_server", "test_server", "prod_server")
)


@pytest.mark.parametrize(("state", "target"), list(itertools.product(ConstellationAgentStatus, ConstellationAgentStatus)))
def test_each_of_the_16_pairs_is_the_seeds(state: ConstellationAgentStatus, target: ConstellationAgentStatus) -> None:
    assert (target in CONSTELLATION_AGENT.matrix()[state]) == (target in SEED[state])


@pytest.mark.parametrize("state", list(ConstellationAgentStatus))
def test_the_terminal_states_are_the_seeds(state: ConstellationAgentStatus) -> None:
    assert CONSTELLATION_AGENT.is_terminal(state) == (state in ("FINISH", "FAIL"))


def records(agent: Agent) -> list[Record]:
    return [packer(CONSTELLATION_AGENT).pack(entry) for entry in agent.entries]


def test_the_history_of_states_comes_from_the_journal() -> None:
    agent = Agent()
    agent.now = 1010.0
    agent.plans(plan=plan("a"))
    agent.now = 1020.0
    agent.ends("a")
    assert state_history(records(agent), constellation_id=agent.constellation.constellation_id) == [
        {"step": 1, "state": "START", "timestamp": 1000.0, "constellation_id": "r-g0"},
        {"step": 2, "state": "CONTINUE", "timestamp": 1010.0, "constellation_id": "r-g0"},
        {"step": 3, "state": "FINISH", "timestamp": 1020.0, "constellation_id": "r-g0"},
    ]


# -- submitting ----------------------------------------------------------------------------------------


def test_a_request_asks_for_a_constellation() -> None:
    agent = Agent()
    asked = agent.question()
    assert agent.state == "START"
    assert asked is not None
    assert (asked.mode, asked.request, asked.number) == ("CREATION", "do it", 1)


def test_a_plan_that_is_given_is_not_asked_for() -> None:
    agent = Agent(plan("a b", "a>b"))
    assert agent.state == "CONTINUE"
    assert agent.question() is None
    assert agent.running() == ["a"]


def test_a_plan_that_cannot_be_carried_out_is_refused_and_leaves_the_run_as_it_was() -> None:
    run: Run[ConstellationMemory] = Run(CONSTELLATION_AGENT, "r")
    before = memory_of(run)
    with pytest.raises(EditRefused, match="a: unknown device 'mars'"):
        run.take(
            ConstellationSubmitted(request="x", fleet=FLEET, plan=parse_plan({"tasks": [{"task_id": "a", "device": "mars"}]})),
            at=1.0,
            actor="me",
        )
    assert memory_of(run) == before


def test_a_run_is_submitted_once() -> None:
    with pytest.raises(Refused, match="submitted already"):
        Agent().take(ConstellationSubmitted(request="again", fleet=FLEET))


# -- terminal states -----------------------------------------------------------------------------------


def finished() -> Agent:
    agent = Agent(plan("a"))
    agent.ends("a")
    assert agent.state == "FINISH"
    return agent


def test_a_drain_at_the_end_makes_no_entry() -> None:
    agent = finished()
    assert agent.drain() is None
    assert agent.run.ended


@pytest.mark.parametrize("event", [Cancel(), Pause(), Unpause(), DeviceLost(device="d"), ConstellationSubmitted(request="x", fleet=FLEET)])
def test_a_command_to_an_ended_run_raises_with_the_history(event: Cancel) -> None:
    agent = finished()
    before = memory_of(agent.run)
    with pytest.raises(IllegalTransition, match="constellation agent in FINISH does not accept") as raised:
        agent.take(event)
    assert raised.value.history[-2:] == ("#3 attempt_ended by me -> CONTINUE", "#4 batch_ended by system -> FINISH")
    assert memory_of(agent.run) == before


def test_a_change_of_owner_is_journaled_in_every_state() -> None:
    for agent in (Agent(), Agent(plan("a")), finished()):
        state = agent.state
        entry = agent.take(OwnershipAcquired(epoch=2, owner="p"))
        assert entry is not None
        assert entry.state == state


def test_late_and_duplicate_results_after_the_end_are_notes() -> None:
    agent = Agent(plan("a"))
    late = agent.end_of("a", result=1)
    agent.batch(late)
    noted = agent.take(AttemptEnded(effect_id=late.effect_id, result=2))
    assert noted is not None
    assert noted.note
    assert agent.task("a").result == 1


# -- signs of life, defects ----------------------------------------------------------------------------


def test_progress_of_a_running_attempt_is_journaled_and_of_another_is_not() -> None:
    agent = Agent(plan("a"))
    attempt = agent.task("a").effect_id
    assert agent.take(AttemptProgressed(effect_id=attempt, fraction=0.5, message="half")) is not None
    assert agent.take(AttemptProgressed(effect_id="r:99.0")) is None
    agent.ends("a")


def test_a_defect_in_handling_a_result_ends_the_run_by_name() -> None:
    agent = Agent(plan("a b c", "b>c"))
    agent.take(TransitionFailed(effect_id=agent.task("a").effect_id, event="attempt_ended", reason="ZeroDivisionError: x"))
    assert agent.state == "FAIL"
    assert (agent.memory.code, agent.memory.reason) == ("defect", "attempt_ended could not be taken: ZeroDivisionError: x")
    assert agent.memory.outcome() == "failed"
    assert agent.statuses() == {"a": "CANCELLED", "b": "CANCELLED", "c": "CANCELLED"}
    agent.finish_cancellations()
    assert agent.run.ended


def test_a_defect_over_a_plan_ends_the_run_by_name() -> None:
    agent = Agent()
    agent.take(TransitionFailed(effect_id=next(iter(agent.run.outstanding)), event="planned", reason="KeyError: 'x'"))
    assert (agent.state, agent.memory.code) == ("FAIL", "defect")
    agent.finish_cancellations()
    assert agent.run.ended


def test_a_defect_after_the_end_is_only_settled() -> None:
    agent = Agent(plan("a"))
    effect = agent.task("a").effect_id
    agent.take(Cancel())
    agent.take(TransitionFailed(effect_id=effect, event="attempt_ended", reason="x"))
    agent.finish_cancellations()
    assert (agent.state, agent.memory.code) == ("FAIL", "cancelled")
    assert agent.run.ended


# -- cancelling, the wall ------------------------------------------------------------------------------


def test_cancel_settles_everything_and_ends_with_the_last_result() -> None:
    agent = Agent(plan("a b c d", "a>c") | {"tasks": [*plan("a b c")["tasks"], {"task_id": "d", "device": "d", "requires_approval": True}]})
    assert agent.running() == ["a", "b", "d"]
    agent.take(Cancel(reason="enough"), actor="ann")
    assert agent.state == "FAIL"
    assert set(agent.statuses().values()) == {"CANCELLED"}
    assert (agent.memory.code, agent.memory.reason, agent.memory.outcome()) == ("cancelled", "cancelled by ann: enough", "cancelled")
    assert [it.effect_id for it in agent.outstanding(CancelEffect).values()] == sorted(agent.run.cancelled_effects)
    assert agent.run.outstanding
    agent.finish_cancellations()
    assert agent.run.ended
    assert not agent.run.abandoned


def test_the_result_of_a_cancelled_attempt_is_ignored() -> None:
    agent = Agent(plan("a"))
    ended = agent.end_of("a", result={"late": True})
    agent.take(Cancel())
    agent.take(ended)
    assert (agent.task("a").status, agent.task("a").result) == ("CANCELLED", None)


def test_cancel_while_the_planner_thinks() -> None:
    agent = Agent()
    reply = agent.reply(plan=plan("a"))
    agent.take(Cancel())
    agent.take(reply)
    agent.finish_cancellations()
    assert agent.state == "FAIL"
    assert agent.run.ended
    assert agent.memory.schedule is None


@pytest.mark.parametrize("given", [None, plan("a")])
def test_a_run_past_its_wall_limit_fails(given: dict[str, object] | None) -> None:
    agent = Agent(given, wall_limit_s=60)
    assert agent.memory.wake_at() == 1060.0
    agent.wait_until(1059.9)
    assert agent.state != "FAIL"
    agent.wait_until(1060.0)
    assert (agent.state, agent.memory.code) == ("FAIL", "wall_limit")
    assert agent.memory.wake_at() is None


# -- the whole, with the seeds' own words --------------------------------------------------------------


def test_a_run_of_the_seeds_example_replays_to_the_live_state() -> None:
    agent = Agent(fleet=SEED_FLEET, replan="when_needed")
    agent.plans(plan=seed("creation"))
    agent.ends("task_001")
    agent.ends("task_002")
    agent.ends("task_003", {"accuracy": 0.92})
    assert memory_of(agent.replayed()) == memory_of(agent.run)
    asked = agent.question()
    assert asked is not None
    assert (asked.mode, asked.batch) == ("EDITING", ("task_003",))
    agent.plans(*seed("editing")["actions"])
    assert agent.running() == ["task_005"]
    assert "task_004" not in agent.constellation.tasks
    assert sorted(agent.constellation.lines) == ["task_001->task_002", "task_002->task_003", "task_003->task_005"]
    agent.ends("task_005")
    agent.plans(*seed("editing")["actions"])
    assert agent.state == "FINISH"
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_second_application_of_the_seeds_edits_changes_nothing() -> None:
    agent = Agent(seed("creation"), fleet=SEED_FLEET, replan="always")
    for task_id, result in (("task_001", None), ("task_002", None), ("task_003", {"accuracy": 0.92})):
        agent.ends(task_id, result)
        if task_id != "task_003":
            agent.plans()
    agent.plans(*seed("editing")["actions"])
    agent.ends("task_005")
    before = agent.constellation.to_dict()
    entry = agent.take(agent.reply(*seed("editing")["actions"]))
    assert entry is not None
    assert [words_of(note).partition(":")[0] for note in entry.side_effects["notes"]] == [
        "add_task task_005",
        "add_dependency task_003->task_005",
        "remove_task task_004",
    ]
    assert agent.constellation.to_dict() == before
    agent.drain()
    assert agent.state == "FINISH"


def test_a_drain_with_nothing_to_do_makes_no_entry() -> None:
    agent = Agent(plan("a"))
    assert agent.take(BatchEnded()) is None
