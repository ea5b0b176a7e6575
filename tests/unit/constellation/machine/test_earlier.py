from __future__ import annotations

from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.requests import MAX_ROUNDS, MAX_TASKS, MAX_TEXT, digest, previous_rounds_of, round_of
from tests.support.constellation_harness import Agent
from tests.support.constellations import constellation, plan


def test_a_round_says_what_was_asked_what_came_of_it_and_what_each_task_returned() -> None:
    agent = Agent(plan("a b", "a>b"))
    agent.ends("a", {"n": 1})
    agent.ends("b", error="raised")
    found = round_of("r", agent.memory)
    assert {name: found[name] for name in ("run", "request", "outcome")} == {"run": "r", "request": "do it", "outcome": "failed"}
    assert found["tasks"] == [
        {"task_id": "a", "device": "d", "status": "COMPLETED", "result": {"n": 1}},
        {"task_id": "b", "device": "d", "status": "FAILED", "error": "b: raised"},
    ]
    assert found["dependencies"] == [{"from": "a", "to": "b"}]
    assert found["summary"].startswith("2 tasks")


def test_results_are_cut_with_a_note() -> None:
    agent = Agent(plan("a"))
    agent.ends("a", {"text": "x" * 10_000})
    result = round_of("r", agent.memory)["tasks"][0]["result"]
    assert len(result) < MAX_TEXT + 40
    assert result.endswith("… (10011 characters in all)")


def test_of_many_tasks_the_first_are_listed_and_the_others_counted() -> None:
    ids = " ".join(f"t{number}" for number in range(MAX_TASKS + 5))
    found = digest(constellation(ids, f"t0>t1 t1>t{MAX_TASKS + 1}").to_dict())
    assert (len(found["tasks"]), found["left_out"], found["dependencies"]) == (MAX_TASKS, 5, [{"from": "t0", "to": "t1"}])


def test_only_the_newest_rounds_and_generations_are_listed() -> None:
    memory = ConstellationMemory()
    memory.previous_rounds = tuple({"run": f"r{number}"} for number in range(MAX_ROUNDS + 2))
    memory.archive = [constellation("a").to_dict() | {"generation": number} for number in range(MAX_ROUNDS + 2)]
    found = previous_rounds_of(memory)
    assert len(found) == 2 * MAX_ROUNDS
    assert (found[0]["run"], found[-1]["generation"]) == ("r2", MAX_ROUNDS + 1)
