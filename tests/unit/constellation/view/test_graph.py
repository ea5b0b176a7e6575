"""DAGs as text: every line of the constellation is there, and no other."""

from __future__ import annotations

from typing import Any

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.view.graph import MAX_LANES, NODE, draw, mermaid_flowchart


def constellation(tasks: str, *pairs: str, **more: dict[str, Any]) -> TaskConstellation:
    """Tasks by one letter each, dependencies as two letters; ``ab={"condition": …}`` says more of one."""
    return TaskConstellation.from_dict(
        {
            "tasks": [{"task_id": letter} for letter in tasks],
            "dependencies": [{"from": pair[0], "to": pair[1], **more.get(pair, {})} for pair in pairs],
        }
    )


def drawn(it: TaskConstellation) -> list[str]:
    return [f"{row.lanes} {row.task_id}{row.note}".rstrip() for row in draw(it)]


def test_a_chain_is_one_lane() -> None:
    assert drawn(constellation("abc", "ab", "bc")) == ["● a", "│", "● b", "│", "● c"]


def test_independent_tasks_have_no_line_between_them() -> None:
    assert drawn(constellation("ab")) == ["● a", "● b"]


def test_a_diamond_branches_and_joins() -> None:
    assert drawn(constellation("abcd", "ab", "ac", "bd", "cd")) == [
        "●   a",
        "├─╮",
        "● │ b",
        "│ │",
        "│ ● c",
        "├─╯",
        "●   d",
    ]


def test_a_crossing_line_does_not_break_the_other() -> None:
    assert drawn(constellation("abcde", "ab", "ac", "ad", "be", "de")) == [
        "●     a",
        "├─┬─╮",
        "● │ │ b",
        "│ │ │",
        "│ ● │ c",
        "│   ● d",
        "├───╯",
        "●     e",
    ]


def test_the_condition_of_a_dependency_is_above_its_task() -> None:
    one = constellation("ab", "ab", ab={"condition": "accuracy > 0.95"})
    assert drawn(one) == ["● a", "┆ if accuracy > 0.95", "● b"]
    two = constellation("abc", "ac", "bc", ac={"condition": "x > 1"}, bc={"type": "UNCONDITIONAL"})
    assert [row.note for row in draw(two) if row.note] == ["if a: x > 1", "b: in any case"]


def test_branches_are_drawn_one_after_the_other() -> None:
    rows = draw(constellation("abcdef", "ab", "bc", "de", "ef"))
    assert [row.task_id for row in rows if row.task_id] == list("abcdef")
    assert {len(row.lanes) for row in rows} == {1}


def test_a_graph_that_is_too_wide_becomes_a_list() -> None:
    middle = [f"m{number}" for number in range(MAX_LANES + 1)]
    tasks = [{"task_id": name} for name in ("a", *middle, "z")]
    lines = [{"from": "a", "to": name} for name in middle] + [{"from": name, "to": "z"} for name in middle]
    rows = draw(TaskConstellation.from_dict({"tasks": tasks, "dependencies": lines}))
    assert {row.lanes for row in rows} == {NODE}
    assert rows[-1].note == f"after m0, m1, m2 and {len(middle) - 3} more"


def test_a_chain_of_two_thousand_is_drawn() -> None:
    tasks = [{"task_id": f"t{number}"} for number in range(2000)]
    lines = [{"from": f"t{number}", "to": f"t{number + 1}"} for number in range(1999)]
    assert len(draw(TaskConstellation.from_dict({"tasks": tasks, "dependencies": lines}))) == 3999


def test_mermaid_has_every_task_and_dependency_and_escapes_markup() -> None:
    text = mermaid_flowchart(constellation("ab", "ab", ab={"condition": 'status == "FAILED"'}))
    assert text.splitlines()[0] == "flowchart TD"
    assert '    t1 -.->|"if status == #quot;FAILED#quot;"| t2' in text.splitlines()
