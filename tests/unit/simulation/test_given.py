"""What a user gives to a world: what could only make a test that tries nothing is refused, in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from asterism.constellation.profile import AgentProfile, Skill
from asterism.constellation.task import TaskError
from asterism.errors import InvalidInput, RunNotFound
from asterism.flows import StandardAgent
from asterism.simulation.device import Behaviour, Faults
from asterism.simulation.invariants import InvariantViolated
from asterism.simulation.people import Answer, Crash, Line, ScheduledEvent, StoreTrouble, everyone_says
from asterism.simulation.world import World

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
    ("make", "words"),
    [
        (lambda: World(ANY), "seed: {'result': 3} is no whole number"),
        (lambda: World(drivers=0), "drivers: 0 is no whole number from 1 on"),
        (lambda: World(fleet=ANY), "fleet[0]: 'result' is no AgentProfile"),
        (lambda: World(fleet=[GPU, GPU]), "fleet[1]: there is another device 'gpu'; ids are unique"),
        (lambda: World(fleet=[GPU], script={"trian": Behaviour()}), "script: there is no 'trian'; there are 'train'"),
        (lambda: World(fleet=[GPU], script={"train": ANY}), "script['train']: {'result': 3} is no Behaviour"),
        (lambda: World(fleet=[GPU], script=ONE), "script: Behaviour(duration_s=1.0"),
        (
            lambda: World(fleet=[GPU], script=ANY["result"]),
            "script: 3 is none; say a Behaviour for each skill, {'train': Behaviour(…)}, or",
        ),
        (lambda: World(fleet=[GPU], script=LATER), "script: <function later at 0x"),
        (lambda: World(fleet=[GPU], faults=ANY), "faults: {'result': 3} is no Faults"),
        (lambda: Behaviour(duration_s=-1), "a behaviour's duration_s: -1 is no time; say seconds, 0 or more"),
        (lambda: Behaviour(error=ANY), "a behaviour's error: {'result': 3} is no TaskError"),
        (lambda: Faults(raised=0.9, hangs=0.2), "faults: chances are numbers from 0 to 1, and together at most 1"),
        (lambda: StoreTrouble(fails=7), "a store's trouble: chances are numbers from 0 to 1"),
        (lambda: StoreTrouble(times=0), "a store's times: 0 is no whole number from 1 on"),
        (lambda: ScheduledEvent(at_s=1, what=ANY), "a happening's what: there is no {'result': 3}; there are 'cancel', "),
        (lambda: ScheduledEvent(at_s=math.nan, what="cancel"), "a happening's at_s: nan is no time"),
        (Crash, "a crash: say entry, from 1 on, or during; not both"),
        (lambda: Crash(entry=3, during="a"), "a crash: say entry, from 1 on, or during; not both"),
        (lambda: Crash(entry=-3), "a crash's entry: -3 is no whole number from 0 on"),
        (lambda: Crash(entry=3, after_s=-1), "a crash's after_s: -1 is no time"),
        (lambda: Answer(verb=ANY), "an answer's verb: there is no {'result': 3}; there are 'approve', "),
        (lambda: Answer(verb="approve", after_s=ANY), "an answer's after_s: {'result': 3} is no time"),
        (lambda: Line(text="yes", after_s=-1), "a line's after_s: -1 is no time"),
        (lambda: Line(command=ANY), "a line's command: {'result': 3} is no Event; say Pause(), Unpause() or Cancel()"),
        (lambda: Crash(entry=True), "a crash's entry: True is no whole number from 0 on"),
        (lambda: Crash(entry=1, after_s=True), "a crash's after_s: True is no time"),
        (lambda: ScheduledEvent(at_s=1, what="edit", actions=ANY), "a happening's actions[0]: 'result' is no dict"),
        (lambda: ScheduledEvent(at_s=1, what="edit"), "a happening: an edit has actions"),
        (lambda: Behaviour(error=TaskError(code=ANY["result"], message="no")), "a behaviour's error: there is no 3; there are 'raised', "),
        (lambda: World(people=ANY), "people: {'result': 3} is no function of a question"),
        (lambda: World(crashes=ANY), "crashes[0]: 'result' is no Crash"),
        (lambda: World(happenings=ANY), "happenings[0]: 'result' is no ScheduledEvent"),
        (lambda: World(loops=ANY), "loops[0]: 'result' is no OrchestrationLoop"),
        (lambda: World(store=ANY), "store: {'result': 3} is no StoreTrouble"),
        (lambda: World(program=ANY), "program: {'result': 3} is no Program"),
        (lambda: World().run_loop(WHERE), "loop: 'birds.py:loop' is no OrchestrationLoop"),
        (lambda: World().run_flow(TRIP, "hello"), "agent: <tests.unit.simulation.test_given.Trip object at"),
        (lambda: World().run_flow(int, "hello"), "agent: <class 'int'> is no class of a StandardAgent"),
        (lambda: World().run_flow(Trip, []), "lines: there is none, and the first begins the conversation"),
        (lambda: World().run_flow(Trip, [ANY["result"]]), "lines[0]: 3 is no Line"),
        (lambda: World(fleet=[GPU], people=lambda _: WHERE).run(ASKS), "people[0]: 'birds.py:loop' is no Answer"),
    ],
)
def test_what_could_only_try_nothing_is_refused_where_it_is_made(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make()
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("happening", "error", "words"),
    [
        (ScheduledEvent(at_s=1, what="lose", device="gpuu"), InvalidInput, "there is no device 'gpuu'"),
        (ScheduledEvent(at_s=1, what="rival", run_id="nix"), RunNotFound, "there is no run 'nix'"),
        (ScheduledEvent(at_s=1, what="cancel", run_id="nix"), RunNotFound, "there is no run 'nix'"),
    ],
)
def test_what_goes_wrong_while_it_lives_is_raised_as_it_is(happening: ScheduledEvent, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        World(7, fleet=[GPU], happenings=[happening]).run(PLAN)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"x": 1}, "script: what it returned for task 'a' of device 'gpu': {'x': 1} is no Behaviour; return Behaviour(result=…)"),
        (None, "script: what it returned for task 'a' of device 'gpu': None is no Behaviour; "),
    ],
)
def test_a_script_that_says_no_behaviour_is_a_mistake_of_the_test_and_not_of_the_device(said: Any, words: str) -> None:
    world = World(7, fleet=[GPU], script=lambda _: said)
    with pytest.raises(InvalidInput) as refused:
        world.run({"tasks": [{**PLAN["tasks"][0], "retry": {"max_attempts": 9}}]})
    assert words in str(refused.value)


def test_what_a_skill_in_a_script_raises_ends_its_attempt_as_on_a_real_device() -> None:
    def train(_: object) -> Behaviour:
        raise ValueError("no data")

    ending = World(7, fleet=[GPU], script=train).run(PLAN)
    error = ending.task("a").error
    assert error is not None
    line = train.__code__.co_firstlineno + 1
    assert (ending.outcome, error.code, error.message) == ("failed", "raised", f"ValueError: no data (test_given.py:{line})")


def test_a_person_who_breaks_is_raised_as_it_is() -> None:
    def breaks(_: object) -> list[Answer]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        World(7, fleet=[GPU], people=breaks).run(ASKS)


def test_one_answer_one_crash_and_one_line_need_no_list() -> None:
    answer: Any = Answer(verb="approve")
    crash: Any = Crash(entry=3)
    world = World(7, fleet=[GPU], people=lambda _: answer, crashes=crash)
    assert (world.run(ASKS).outcome, world.counts["crashed"]) == ("finished", 1)
    assert World(7).run_flow(Trip, "hello there").memory.prompt == "Done."


def test_an_edit_that_cannot_be_used_is_among_the_refusals_in_words() -> None:
    edit = ScheduledEvent(at_s=5, what="edit", actions=({"tool": "zz"},))
    world = World(7, fleet=[GPU], script={"train": Behaviour(duration_s=60)}, happenings=[edit])
    assert world.run(PLAN).outcome == "finished"
    assert len(world.refusals) == 1
    assert world.refusals[0].startswith("action: unknown tool 'zz'; the tools are ")


def test_a_store_that_always_fails_breaks_the_eighth_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.simulation.crew.MAX_PROCESSES", 5)
    with pytest.raises(InvariantViolated, match="5 processes have driven it"):
        World(7, fleet=[GPU], store=StoreTrouble(fails=1)).run(PLAN)


def test_a_world_is_lived_once() -> None:
    world = World(7, fleet=[GPU], people=everyone_says("approve"))
    world.run(PLAN)
    with pytest.raises(InvalidInput, match="a world is lived once; make another one"):
        world.run(PLAN)


def test_a_crash_that_never_comes_is_not_counted() -> None:
    world = World(7, fleet=[GPU], crashes=[Crash(entry=2), Crash(entry=99)])
    world.run(PLAN)
    assert world.counts["crashed"] == 1


def test_only_what_happened_is_counted() -> None:
    world = World(7, fleet=[GPU])
    world.run(PLAN)
    assert world.counts == {"processes": 1, "done": 1}
