from __future__ import annotations

from typing import Any

from asterism.constellation.model.changes import changes, written
from tests.support.constellations import action, constellation, edit


def difference(*actions: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    it = constellation("a b", "a>b")
    before = written(it)
    edit(it, *actions)
    return [(f"{change.part} {change.id}", change.before, change.after) for change in changes(before, written(it))]


def test_what_is_the_same_is_no_change() -> None:
    assert difference() == []


def test_a_change_has_only_the_fields_that_differ() -> None:
    assert difference(
        action("update_task", task_id="b", priority=3, device="e"), action("update_dependency", dependency_id="a->b", condition="x > 1")
    ) == [
        ("task b", {"device": "d"}, {"device": "e", "priority": 3}),
        ("dependency a->b", {"type": "SUCCESS_ONLY"}, {"type": "CONDITIONAL", "condition": "x > 1"}),
    ]


def test_what_is_new_has_no_before_and_what_is_gone_no_after() -> None:
    assert difference(action("remove_task", task_id="b"), action("add_task", task_id="c", device="d")) == [
        ("task b", {"task_id": "b", "device": "d"}, None),
        ("dependency a->b", {"id": "a->b", "from": "a", "to": "b", "type": "SUCCESS_ONLY"}, None),
        ("task c", None, {"task_id": "c", "device": "d"}),
    ]
