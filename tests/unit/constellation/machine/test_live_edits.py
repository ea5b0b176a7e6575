"""Edits from outside while a run goes on: whole or not at all, and judged by what they touch."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import Edited
from asterism.constellation.model.edits import EditRefused
from asterism.engine.control.run_control import Cancel, Pause, Unpause
from asterism.engine.kernel.refusal import Refusal, refusal_of, verdict_of
from tests.support.constellation_harness import Agent, memory_of, refusal_in
from tests.support.constellations import action, lines, plan, tasks


def added(task_id: str, *, after: str = "") -> tuple[dict[str, Any], ...]:
    task = action("add_task", task_id=task_id, device="d")
    return (task, action("add_dependency", from_=after, to=task_id)) if after else (task,)


def refused(agent: Agent, *actions: dict[str, Any], version: int = 1) -> Refusal:
    before = memory_of(agent.run)
    with pytest.raises(EditRefused) as raised:
        agent.take(Edited(actions=actions, base_version=version))
    assert memory_of(agent.run) == before
    return raised.value.refusal


def test_a_task_that_is_added_starts_when_its_dependencies_are_satisfied() -> None:
    agent = Agent(plan("a"))
    agent.batch(Edited(actions=added("n", after="a"), base_version=1))
    assert (agent.constellation.version, agent.running()) == (2, ["a"])
    agent.ends("a")
    assert agent.running() == ["n"]
    agent.ends("n")
    assert agent.state == "FINISH"


def test_the_entry_says_who_edited_when_and_what() -> None:
    agent = Agent(plan("a"))
    entry = agent.take(Edited(actions=added("n"), base_version=1), actor="ada", key="k")
    assert entry is not None
    assert (entry.actor, entry.at, entry.key, entry.state) == ("ada", agent.now, "k", "CONTINUE")
    assert entry.event == Edited(actions=added("n"), base_version=1)


@pytest.mark.parametrize("name", ["agian", "", "does it again"])
def test_a_live_edit_names_its_skill_exactly(name: str) -> None:
    agent = Agent(plan("a"))
    told = refused(agent, action("add_task", task_id="n", name=name, device="s", description="does it again"))
    assert told.code == "unknown_skill"
    why = "s has no skill 'agian'; did you mean again?" if name == "agian" else "nearest: again, once"
    assert why in str(told.why)


def test_a_task_whose_planner_named_its_skill_in_words_can_be_edited_live() -> None:
    agent = Agent(
        {
            "tasks": [{"task_id": "a", "device": "d"}, {"task_id": "n", "device": "s", "description": "does it again"}],
            "dependencies": [{"from": "a", "to": "n"}],
        }
    )
    agent.batch(Edited(actions=(action("update_task", task_id="n", priority=3),), base_version=1))
    assert (agent.task("n").resolved_skill, agent.task("n").priority) == ("again", 3)
    assert refused(agent, action("update_task", task_id="n", name="agian")).code == "unknown_skill"
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_the_same_edit_again_changes_nothing_and_the_journal_says_so() -> None:
    agent = Agent(plan("a"))
    agent.take(Edited(actions=added("n"), base_version=1))
    again = agent.take(Edited(actions=added("n"), base_version=1))
    assert again is not None
    assert (agent.constellation.version, again.side_effects) == (
        2,
        {"notes": [{"code": "there_already", "data": {"edit": "add_task", "id": "n"}}]},
    )


def test_a_batch_that_touches_what_has_started_is_refused_whole() -> None:
    agent = Agent(plan("a"))
    told = refused(agent, *added("n"), action("update_task", task_id="a", priority=1))
    assert (told.code, told.what) == ("read_only", "a")
    assert "n" not in agent.constellation.tasks


@pytest.mark.parametrize(
    ("actions", "code", "index"),
    [
        ((*added("n"), action("explode"), action("remove_task", task_id="a")), "unknown_edit", 1),
        ((*added("n"), *added("m"), action("remove_task", task_id="a"), *added("o")), "read_only", 2),
        ((*added("n"), action("add_task", task_id="m", device="moon"), *added("o")), "unknown_device", 1),
        ((*added("n"), *added("n", after="c"), action("add_dependency", from_="n", to="c")), "cycle", 3),
        ((*added("n"), action("remove_dependency", dependency_id="b->c"), *added("m")), "bad_reference", 1),
        (
            (
                action("remove_dependency", dependency_id="b->c"),
                action("update_task", task_id="c", inputs={}),
                action("remove_task", task_id="a"),
            ),
            "read_only",
            2,
        ),
        ((action("add_task", task_id="n", device="d", inputs={"x": "${b}"}), *added("m")), "bad_reference", 0),
        ((action("remove_task", task_id="a"),), "read_only", None),
        (({"tool": "remove_task"},) * 1001, "too_many", None),
    ],
)
def test_the_refusal_of_a_batch_names_the_edit_that_causes_it(actions: tuple[Any, ...], code: str, index: int | None) -> None:
    agent = Agent({"tasks": [*tasks("a b"), *tasks("c", inputs={"x": "${b}"})], "dependencies": lines("a>b b>c")})
    with pytest.raises(EditRefused) as raised:
        agent.take(Edited(actions=actions, base_version=1))
    assert (raised.value.refusal.code, raised.value.refusal.index) == (code, index)
    assert str(raised.value).startswith("actions[") is (index is not None)


def test_a_batch_adds_a_task_with_its_dependencies_before_it_can_start() -> None:
    agent = Agent(plan("a b", "a>b"))
    agent.batch(Edited(actions=(*added("n", after="a"), action("remove_task", task_id="b")), base_version=1))
    assert (agent.running(), agent.statuses()["n"]) == (["a"], "WAITING_DEPENDENCY")


def test_an_edit_against_an_older_version_is_checked_by_the_parts_it_touches() -> None:
    agent = Agent(plan("a b"))
    agent.batch(Edited(actions=added("n"), base_version=1))
    agent.batch(Edited(actions=added("m"), base_version=1))
    assert agent.constellation.version == 3
    told = refused(agent, action("remove_task", task_id="a"), version=1)
    assert str(told.why).endswith("(it was written against version 1, the constellation is at version 3)")


@pytest.mark.parametrize(
    ("actions", "code"),
    [
        (("nonsense",), "bad_content"),
        (({"tool": "explode"},), "unknown_edit"),
        ((action("update_task", task_id="a", inputs=[[1]]),), "bad_content"),
        ((action("add_task", task_id="n", device="nowhere"),), "unknown_device"),
        ((action("add_task", task_id="n", device="d", inputs={"x": "${b}"}),), "bad_reference"),
        ((action("add_dependency", from_="c", to="c"),), "cycle"),
        (({"tool": "remove_task"},) * 1001, "too_many"),
    ],
)
def test_rubbish_is_refused_by_code(actions: tuple[Any, ...], code: str) -> None:
    assert refused(Agent(plan("a b c", "a>c")), *actions).code == code


def test_there_is_nothing_to_edit_before_a_plan_and_after_the_end() -> None:
    agent = Agent()
    assert refused(agent, *added("n")).code == "no_constellation"
    agent.take(Cancel())
    told = refused(agent, *added("n"))
    assert (told.code, str(told.why)) == ("ended", "it has ended (cancelled) and cannot be edited any more")


def test_a_paused_run_is_edited_and_starts_nothing() -> None:
    agent = Agent(plan("a"))
    agent.take(Pause())
    agent.batch(Edited(actions=added("n"), base_version=1))
    assert (agent.constellation.version, agent.running()) == (2, ["a"])
    agent.batch(Unpause())
    assert agent.running() == ["a", "n"]


def test_an_open_request_stays_open_and_its_answer_is_checked_by_the_parts_it_touches() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    asked = agent.question()
    assert asked is not None
    assert asked.base_version == 1
    agent.batch(Edited(actions=(*added("n"), action("remove_task", task_id="b")), base_version=1))
    agent.plans(action("update_task", task_id="b", priority=3), *added("m"))
    again = agent.question()
    assert again is not None
    assert (refusal_in(again).code, again.base_version) == ("unknown_task", 2)
    assert "m" not in agent.constellation.tasks
    agent.plans(*added("m"))
    assert agent.running() == ["n", "m"]


def test_a_planner_may_not_finish_over_a_task_that_was_added_meanwhile() -> None:
    agent = Agent(plan("a"), replan="always")
    agent.ends("a")
    agent.batch(Edited(actions=added("n"), base_version=1))
    agent.plans(status="FINISH")
    assert (agent.state, agent.running()) == ("CONTINUE", ["n"])


def test_a_verdict_contains_its_refusal() -> None:
    for what, index in (("a -> b -> a", None), ("a", 0)):
        assert refusal_of(verdict_of(EditRefused("cycle", what, "no", index))) == Refusal(code="cycle", what=what, why="no", index=index)
    assert refusal_of("constellation agent in START does not accept edited") is None


def test_a_refused_batch_leaves_no_trace_not_even_in_the_order_of_things() -> None:
    agent = Agent(plan("a b c", "a>c b>c"))
    refused(agent, action("remove_dependency", dependency_id="a->c"), action("remove_task", task_id="b"))
    assert agent.constellation.predecessors("c") == ["a", "b"]
    assert memory_of(agent.replayed()) == memory_of(agent.run)
