"""Arguments of a world: invalid ones are rejected with an error that says what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from asterism.conversation.python import StandardAgent
from asterism.devices.model.attempt import TaskError
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import InvalidInput, RunNotFound
from asterism.testing.device import Behaviour, Faults
from asterism.testing.invariants import InvariantViolated
from asterism.testing.people import Answer, Crash, Line, ScheduledEvent, StoreFaults, everyone_says
from asterism.testing.world import World

GPU = AgentProfile(device_id="gpu", skills=(Skill(name="train", idempotent=True),))
PLAN = {"tasks": [{"task_id": "a", "device": "gpu", "skill": "train"}]}
ANY: Any = {"result": 3}
ASKS = {"tasks": [{**PLAN["tasks"][0], "requires_approval": True}]}


class Trip(StandardAgent):
    """Nothing to collect, and nothing to do."""


async def later(_: object) -> Behaviour:
    return Behaviour()


ONE: Any = Behaviour()
LATER: Any = later
WHERE: Any = "birds.py:loop"
TRIP: Any = Trip()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: World(ANY), "seed: {'result': 3} is not an integer"),
        (lambda: World(drivers=0), "drivers: 0 is not an integer of at least 1"),
        (lambda: World(fleet=ANY), "fleet[0]: 'result' is not of type AgentProfile"),
        (lambda: World(fleet=[GPU, GPU]), "fleet[1]: duplicate device id 'gpu'"),
        (lambda: World(fleet=[GPU], script={"trian": Behaviour()}), "script: unknown 'trian'; known: 'train'"),
        (lambda: World(fleet=[GPU], script={"train": ANY}), "script['train']: {'result': 3} is not of type Behaviour"),
        (lambda: World(fleet=[GPU], script=ONE), "script: Behaviour(duration_s=1.0"),
        (
            lambda: World(fleet=[GPU], script=ANY["result"]),
            "script: 3 is not a script; give a Behaviour for each skill, {'train': Behaviour(…)}, or",
        ),
        (lambda: World(fleet=[GPU], script=LATER), "script: <function later at 0x"),
        (lambda: World(fleet=[GPU], faults=ANY), "faults: {'result': 3} is not of type Faults"),
        (lambda: Behaviour(duration_s=-1), "behaviour: duration_s: -1 is not a number of seconds, 0 or more"),
        (lambda: Behaviour(error=ANY), "behaviour: error: {'result': 3} is not of type TaskError"),
        (lambda: Faults(raised=0.9, hangs=0.2), "faults: chances must be from 0 to 1 with a sum of at most 1"),
        (lambda: StoreFaults(fails=7), "store faults: chances must be from 0 to 1"),
        (lambda: StoreFaults(times=0), "store faults: times: 0 is not an integer of at least 1"),
        (lambda: ScheduledEvent(at_s=1, what=ANY), "scheduled event: what: unknown {'result': 3}; known: 'cancel', "),
        (lambda: ScheduledEvent(at_s=math.nan, what="cancel"), "scheduled event: at_s: nan is not a number of seconds"),
        (Crash, "crash: give either entry (from 1) or during"),
        (lambda: Crash(entry=3, during="a"), "crash: give either entry (from 1) or during"),
        (lambda: Crash(entry=-3), "crash: entry: -3 is not an integer of at least 0"),
        (lambda: Crash(entry=3, after_s=-1), "crash: after_s: -1 is not a number of seconds"),
        (lambda: Answer(verb=ANY), "answer: verb: unknown {'result': 3}; known: 'approve', "),
        (lambda: Answer(verb="approve", after_s=ANY), "answer: after_s: {'result': 3} is not a number of seconds"),
        (lambda: Line(text="yes", after_s=-1), "line: after_s: -1 is not a number of seconds"),
        (lambda: Line(command=ANY), "line: command: {'result': 3} is not of type Event; use Pause(), Unpause() or Cancel()"),
        (lambda: Crash(entry=True), "crash: entry: True is not an integer of at least 0"),
        (lambda: Crash(entry=1, after_s=True), "crash: after_s: True is not a number of seconds"),
        (lambda: ScheduledEvent(at_s=1, what="edit", actions=ANY), "scheduled event: actions[0]: 'result' is not of type dict"),
        (lambda: ScheduledEvent(at_s=1, what="edit"), "scheduled event: give actions"),
        (lambda: Behaviour(error=TaskError(code=ANY["result"], message="no")), "behaviour: error: unknown 3; known: 'raised', "),
        (lambda: World(people=ANY), "people: {'result': 3} is not a function"),
        (lambda: World(crashes=ANY), "crashes[0]: 'result' is not of type Crash"),
        (lambda: World(scheduled_events=ANY), "scheduled_events[0]: 'result' is not of type ScheduledEvent"),
        (lambda: World(loops=ANY), "loops[0]: 'result' is not of type OrchestrationLoop"),
        (lambda: World(store=ANY), "store: {'result': 3} is not of type StoreFaults"),
        (lambda: World(program=ANY), "program: {'result': 3} is not of type Program"),
        (lambda: World().run_loop(WHERE), "loop: 'birds.py:loop' is not of type OrchestrationLoop"),
        (lambda: World().run_flow(TRIP, "hello"), "agent: <tests.unit.testing.test_validation.Trip object at"),
        (lambda: World().run_flow(int, "hello"), "agent: <class 'int'> is not a subclass of StandardAgent"),
        (lambda: World().run_flow(Trip, []), "lines: empty; the first line starts the conversation"),
        (lambda: World().run_flow(Trip, [ANY["result"]]), "lines[0]: 3 is not of type Line"),
        (lambda: World(fleet=[GPU], people=lambda _: WHERE).run(ASKS), "people[0]: 'birds.py:loop' is not of type Answer"),
    ],
)
def test_an_invalid_argument_is_rejected_at_once(make: Callable[[], object], text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make()
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("event", "error", "text"),
    [
        (ScheduledEvent(at_s=1, what="lose", device="gpuu"), InvalidInput, "there is no device 'gpuu'"),
        (ScheduledEvent(at_s=1, what="rival", run_id="nix"), RunNotFound, "there is no run 'nix'"),
        (ScheduledEvent(at_s=1, what="cancel", run_id="nix"), RunNotFound, "there is no run 'nix'"),
    ],
)
def test_an_error_during_the_run_is_raised_unchanged(event: ScheduledEvent, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        World(7, fleet=[GPU], scheduled_events=[event]).run(PLAN)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ({"x": 1}, "script: the return value for task 'a' of device 'gpu': {'x': 1} is not of type Behaviour; return Behaviour(result=…)"),
        (None, "script: the return value for task 'a' of device 'gpu': None is not of type Behaviour; "),
    ],
)
def test_a_script_that_returns_no_behaviour_is_an_error_of_the_test_not_of_the_device(returned: Any, text: str) -> None:
    world = World(7, fleet=[GPU], script=lambda _: returned)
    with pytest.raises(InvalidInput) as refused:
        world.run({"tasks": [{**PLAN["tasks"][0], "retry": {"max_attempts": 9}}]})
    assert text in str(refused.value)


def test_an_error_of_a_skill_in_a_script_fails_the_attempt_as_on_a_real_device() -> None:
    def train(_: object) -> Behaviour:
        raise ValueError("no data")

    ending = World(7, fleet=[GPU], script=train).run(PLAN)
    error = ending.task("a").error
    assert error is not None
    line = train.__code__.co_firstlineno + 1
    assert (ending.outcome, error.code, error.words) == ("failed", "raised", f"ValueError: no data (test_validation.py:{line})")


def test_an_error_of_the_people_function_is_raised_unchanged() -> None:
    def breaks(_: object) -> list[Answer]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        World(7, fleet=[GPU], people=breaks).run(ASKS)


def test_a_single_answer_crash_or_line_needs_no_list() -> None:
    answer: Any = Answer(verb="approve")
    crash: Any = Crash(entry=3)
    world = World(7, fleet=[GPU], people=lambda _: answer, crashes=crash)
    assert (world.run(ASKS).outcome, world.counts["crashed"]) == ("finished", 1)
    assert World(7).run_flow(Trip, "hello there").memory.prompt == "Done."


def test_an_invalid_edit_is_listed_in_the_refusals() -> None:
    edit = ScheduledEvent(at_s=5, what="edit", actions=({"tool": "zz"},))
    world = World(7, fleet=[GPU], script={"train": Behaviour(duration_s=60)}, scheduled_events=[edit])
    assert world.run(PLAN).outcome == "finished"
    assert len(world.refusals) == 1
    assert world.refusals[0].startswith("action: unknown tool 'zz'; the tools are ")


def test_a_store_that_always_fails_violates_invariant_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.testing.driver_processes.MAX_PROCESSES", 5)
    with pytest.raises(InvariantViolated, match="5 processes have driven the run"):
        World(7, fleet=[GPU], store=StoreFaults(fails=1)).run(PLAN)


def test_a_world_runs_only_once() -> None:
    world = World(7, fleet=[GPU], people=everyone_says("approve"))
    world.run(PLAN)
    with pytest.raises(InvalidInput, match="a world runs only once; create another World"):
        world.run(PLAN)


def test_a_crash_that_is_never_reached_is_not_counted() -> None:
    world = World(7, fleet=[GPU], crashes=[Crash(entry=2), Crash(entry=99)])
    world.run(PLAN)
    assert world.counts["crashed"] == 1


def test_counts_hold_only_events_that_happened() -> None:
    world = World(7, fleet=[GPU])
    world.run(PLAN)
    assert world.counts == {"processes": 1, "done": 1}
