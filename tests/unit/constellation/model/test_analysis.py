from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.model.analysis import critical_path, parallel_width
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.graph import find_cycle
from tests.support.constellations import constellation


def test_the_critical_path_is_the_heaviest_chain() -> None:
    it = constellation("a b c d e", "a>b b>d a>c c>d")
    assert critical_path(it) == (3.0, ["a", "b", "d"])
    assert critical_path(it, {"a": 1.0, "b": 2.0, "c": 5.0, "d": 1.0, "e": 6.5}) == (7.0, ["a", "c", "d"])
    assert critical_path(it, {"a": 1.0, "b": 2.0, "c": 5.0, "d": 1.0, "e": 7.5}) == (7.5, ["e"])


def test_a_task_without_a_weight_weighs_nothing() -> None:
    assert critical_path(constellation("a b c", "a>b b>c"), {"b": 2.0})[0] == 2.0


@pytest.mark.parametrize(
    ("ids", "arrows", "width"),
    [
        ("a", "", 1),
        ("a b c", "", 3),
        ("a b c", "a>b b>c", 1),
        ("a b c d", "a>b a>c b>d c>d", 2),
        ("a b c d e f", "a>b a>c a>d b>e e>f", 3),
        ("a b c d", "a>b c>d b>d", 2),
    ],
)
def test_the_width_is_the_most_tasks_on_one_level(ids: str, arrows: str, width: int) -> None:
    assert parallel_width(constellation(ids, arrows)) == width


def test_an_empty_constellation_has_neither() -> None:
    assert critical_path(TaskConstellation()) == (0.0, [])
    assert parallel_width(TaskConstellation()) == 0


def test_the_order_in_which_dependencies_were_written_does_not_matter() -> None:
    written = constellation("a b c d", "c>d b>c a>b")
    assert critical_path(written) == (4.0, ["a", "b", "c", "d"])
    assert parallel_width(written) == 1


def test_a_cycle_is_found_as_a_path_that_ends_where_it_starts() -> None:
    edges = {"a": ["b"], "b": ["c", "d"], "c": [], "d": ["b"]}
    assert find_cycle("abcd", edges.__getitem__) == ["b", "d", "b"]
    assert find_cycle("ac", {"a": ["c"], "c": []}.__getitem__) is None


def test_the_longest_path_of_weightless_tasks_weighs_nothing() -> None:
    assert critical_path(constellation("a b", "a>b"), {})[0] == 0.0


@pytest.mark.parametrize(("each", "width"), [({"items": [1, 2, 3]}, 3), ({"items": [1, 2, 3], "max_concurrent": 2}, 2), ("${a.files}", 1)])
def test_the_width_of_a_fan_out_is_the_number_of_its_items_that_can_run_at_once(each: Any, width: int) -> None:
    tasks = [{"task_id": "a", "device": "d"}, {"task_id": "b", "device": "d", "for_each": each}]
    assert parallel_width(TaskConstellation.from_dict({"tasks": tasks, "dependencies": [{"from": "a", "to": "b"}]})) == width
