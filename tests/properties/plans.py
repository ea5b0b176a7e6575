"""Random edits and plans over few ids, so that they often meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support.constellations import action

IDS = [f"t{number}" for number in range(7)]
KINDS = ["UNCONDITIONAL", "SUCCESS_ONLY", "COMPLETION_ONLY"]
CONDITIONS = ["x > 1", "x > 2", 'status == "FAILED"']

ids = st.sampled_from(IDS)
line_ids = st.one_of(st.builds("{}->{}".format, ids, ids), st.sampled_from(["k1", "k2"]))
inputs = st.one_of(st.sampled_from([{}, {"x": 1}, {"x": True}]), st.builds(lambda source: {"x": f"${{{source}.x}}"}, ids))
fields = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["one", "two"]),
        "device": st.sampled_from(["d", "d2"]),
        "inputs": inputs,
        "priority": st.integers(-1, 1),
        "retry": st.just({"max_attempts": 2, "backoff_s": 1}),
    },
)
judged: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.sampled_from(KINDS).map(lambda kind: {"type": kind}),
    st.sampled_from(CONDITIONS).map(lambda condition: {"condition": condition}),
)


@st.composite
def lines(draw: st.DrawFn) -> dict[str, Any]:
    """A dependency, four times out of five forwards."""
    low, high = sorted(draw(st.lists(ids, min_size=2, max_size=2, unique=True)), reverse=draw(st.integers(0, 4)) == 4)
    named = draw(st.sampled_from([{}, {}, {}, {}, {"id": "k1"}, {"id": "k2"}]))
    return {**named, "from": low, "to": high, **draw(judged)}


@st.composite
def documents(draw: st.DrawFn, least: int = 1) -> dict[str, Any]:
    """A plan of some of the ids, acyclic."""
    chosen = draw(st.lists(ids, min_size=least, max_size=len(IDS), unique=True))
    pairs = [(low, high) for high in chosen for low in chosen[: chosen.index(high)]]
    kept = draw(st.lists(st.sampled_from(pairs), max_size=8, unique=True)) if pairs else []
    return {
        "tasks": [{"task_id": task_id, "device": "d"} for task_id in chosen],
        "dependencies": [{"from": low, "to": high, **draw(judged)} for low, high in kept],
    }


wrong = st.sampled_from(
    [
        action("remove_task", task_id="never"),
        action("add_task", task_id="t0", size=3),
        action("add_dependency", from_="t0", to="t1", condition="x >"),
        action("add_dependency", from_="t0", to="never"),
        action("update_task", task_id="t0", timeout_s=-1),
        action("update_dependency", dependency_id="never->t0", condition="x > 1"),
        action("explode"),
    ]
)
additions = st.one_of(
    st.builds(lambda task_id, more: action("add_task", **{"task_id": task_id, "device": "d", **more}), ids, fields),
    st.builds(lambda one: {"tool": "add_dependency", "parameters": one}, lines()),
)
changes = st.one_of(
    st.builds(lambda task_id, more: action("update_task", task_id=task_id, **more), ids, fields),
    st.builds(lambda line_id, more: action("update_dependency", dependency_id=line_id, **more), line_ids, judged),
)
removals = st.one_of(
    st.builds(lambda task_id: action("remove_task", task_id=task_id), ids),
    st.builds(lambda line_id: action("remove_dependency", dependency_id=line_id), line_ids),
)
wholes = st.builds(lambda plan, clear: action("build_constellation", config=plan, clear=clear), documents(), st.booleans())
edits = st.one_of(additions, additions, changes, changes, removals, removals, wholes, wrong)
batches = st.lists(edits, min_size=1, max_size=3)
