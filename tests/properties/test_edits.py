"""Edits and completions in any order, against networkx and a truth table of our own."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from asterism.constellation.model.batch import apply_edits
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import Applied, EditRefused, parse_action
from asterism.constellation.model.task import TaskStatus
from tests.properties.plans import batches, documents, ids, judged
from tests.support.constellations import end, judge_all, ready

Graph = nx.DiGraph  # networkx' stubs make it generic, networkx itself does not


def satisfied(kind: str, condition: str, status: str, result: Any) -> bool:
    """The table of the design, written down a second time."""
    if kind == "CONDITIONAL":
        if condition == 'status == "FAILED"':
            return status == "FAILED"
        return status == "COMPLETED" and result["x"] > int(condition[-1])
    return {"UNCONDITIONAL": True, "SUCCESS_ONLY": status == "COMPLETED", "COMPLETION_ONLY": status in ("COMPLETED", "FAILED")}[kind]


class EditsAgainstAnOracle(RuleBasedStateMachine):
    """One constellation, and beside it a networkx graph that is told of what was accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.it = TaskConstellation("c")
        self.graph: Graph[str] = Graph()
        self.names: dict[str, tuple[str, str]] = {}

    # -- what happens --------------------------------------------------------------------------------

    @initialize(document=documents(least=4))
    def begin(self, document: dict[str, Any]) -> None:
        assert self._apply([{"tool": "build_constellation", "parameters": {"config": document, "clear": True}}])

    @rule(actions=batches)
    def edit(self, actions: list[dict[str, Any]]) -> None:
        self._apply(actions)

    @rule(actions=batches)
    def edit_and_edit_again(self, actions: list[dict[str, Any]]) -> None:
        """Twice the same batch of additions and updates: the second time nothing changes."""
        actions = [one for one in actions if not one["tool"].startswith(("remove", "build"))]
        if len({str(one["parameters"].get("task_id", one["parameters"])) for one in actions}) < len(actions):
            return
        if sum(one["tool"] == "update_dependency" for one in actions) > 1:  # they may be of one dependency, under its id and its ends
            return
        if self._apply(actions) is not None:
            before = self.it.to_dict()
            updates = [one for one in actions if one["tool"].startswith("update")]
            again = self._apply(updates)
            assert again is not None
            assert not again.changed
            assert len(again.notes) == len(updates)
            assert self.it.to_dict() == before

    @rule(actions=batches)
    def edit_and_refuse(self, actions: list[dict[str, Any]]) -> None:
        self._refuse(actions)

    def _refuse(self, actions: list[dict[str, Any]]) -> None:
        """A batch that is refused once it is applied leaves nothing behind."""
        before = self._seen()

        def refuse(_: Applied) -> None:
            raise EditRefused("unavailable", "batch", "refused by the last look")

        with pytest.raises(EditRefused):
            apply_edits(self.it, [parse_action(one) for one in actions], refuse)
        assert self._seen() == before

    def _seen(self) -> tuple[Any, ...]:
        return self.it.to_dict(), dict(self.it.unevaluated), ready(self.it)

    @precondition(lambda self: self.it.lines)
    @rule(data=st.data(), changed=judged, remove=st.booleans(), refuse=st.booleans())
    def edit_a_dependency(self, data: st.DataObject, changed: dict[str, Any], *, remove: bool, refuse: bool) -> None:
        line_id = data.draw(st.sampled_from(sorted(self.it.lines)))
        tool, more = ("remove_dependency", {}) if remove else ("update_dependency", changed)
        actions = [{"tool": tool, "parameters": {"dependency_id": line_id, **more}}]
        if refuse:
            self._refuse(actions)
        else:
            self._apply(actions)

    @rule(source=ids, after=ids)
    def join(self, source: str, after: str) -> None:
        """One dependency: taken if and only if networkx says that the graph stays acyclic."""
        target, tasks = after, self.it.tasks
        if source not in tasks or target not in tasks or not tasks[target].editable:
            return
        if self.graph.has_edge(source, target) or f"{source}->{target}" in self.names:
            return
        closes = source == target or nx.has_path(self.graph, target, source)
        action = {"tool": "add_dependency", "parameters": {"from": source, "to": target}}
        if closes:
            with pytest.raises(EditRefused) as raised:
                apply_edits(self.it, [parse_action(action)])
            refusal = raised.value.refusal
            path = refusal.what.split(" -> ")
            assert refusal.code == "cycle"
            assert path[0] == path[-1] == source
            assert all(self.graph.has_edge(*pair) for pair in itertools.pairwise(path[1:]))
        else:
            apply_edits(self.it, [parse_action(action)])
            self._told(action)
            judge_all(self.it)

    @precondition(lambda self: self._startable())
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.it.tasks[data.draw(st.sampled_from(self._startable()))].status = TaskStatus.RUNNING

    @precondition(lambda self: any(task.status is TaskStatus.RUNNING for task in self.it.tasks.values()))
    @rule(data=st.data(), status=st.sampled_from(["COMPLETED", "COMPLETED", "FAILED", "CANCELLED"]), x=st.integers(1, 3))
    def settle(self, data: st.DataObject, status: str, x: int) -> None:
        running = sorted(task.task_id for task in self.it.tasks.values() if task.status is TaskStatus.RUNNING)
        end(self.it, data.draw(st.sampled_from(running)), TaskStatus(status), {"x": x} if status == "COMPLETED" else None)

    @precondition(lambda self: any(self._doomed(task_id) for task_id in self.it.tasks))
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        end(self.it, data.draw(st.sampled_from(sorted(filter(self._doomed, self.it.tasks)))), TaskStatus.SKIPPED)

    # -- what always holds ---------------------------------------------------------------------------

    @invariant()
    def the_graph_is_the_oracles_and_acyclic(self) -> None:
        assert set(self.it.tasks) == set(self.graph.nodes)
        assert {(line.source, line.target) for line in self.it.lines.values()} == set(self.graph.edges)
        assert {line_id: (line.source, line.target) for line_id, line in self.it.lines.items()} == self.names
        assert nx.is_directed_acyclic_graph(self.graph)
        assert self.it.validate_dag() == (True, [])

    @invariant()
    def ready_and_doomed_are_the_oracles(self) -> None:
        assert set(ready(self.it)) == set(self._startable())
        assert {task_id for task_id in self.it.tasks if self.it.is_unsatisfiable(task_id)} >= set(filter(self._doomed, self.it.tasks))

    @invariant()
    def it_goes_out_and_comes_back(self) -> None:
        again = TaskConstellation.from_dict(self.it.to_dict())
        assert again.to_dict() == self.it.to_dict()
        assert ready(again) == ready(self.it)

    @invariant()
    def ancestors_are_the_oracles(self) -> None:
        for task_id in self.it.tasks:
            assert self.it.ancestors(task_id) == nx.ancestors(self.graph, task_id)
            assert self.it.descendants(task_id) == nx.descendants(self.graph, task_id)

    # -- the oracle ----------------------------------------------------------------------------------

    def _apply(self, actions: list[dict[str, Any]]) -> Applied | None:
        """Apply a batch; None if it was refused, and then nothing has changed. What has started is never touched."""
        before = self._seen()
        frozen = {
            task["task_id"]: task for task in before[0]["tasks"] if task.get("status", "PENDING") not in ("PENDING", "WAITING_DEPENDENCY")
        }
        held = {line["id"]: line for line in before[0]["dependencies"] if line["to"] in frozen}
        try:
            applied = apply_edits(self.it, [parse_action(one) for one in actions])
        except EditRefused:
            assert self._seen() == before
            return None
        judge_all(self.it)
        after = self.it.to_dict()
        assert {task["task_id"]: task for task in after["tasks"] if task["task_id"] in frozen} == frozen
        assert {line["id"]: line for line in after["dependencies"] if line["to"] in frozen} == held
        assert self.it.version == before[0]["version"] + applied.changed
        if not applied.changed:
            assert after == before[0]
        else:
            for one in actions:
                self._told(one)
        return applied

    def _told(self, action: dict[str, Any]) -> None:
        tool, said = action["tool"], action["parameters"]
        if tool == "add_task":
            self.graph.add_node(said["task_id"])
        elif tool == "remove_task" and said["task_id"] in self.graph:
            self.graph.remove_node(said["task_id"])
            self.names = {name: pair for name, pair in self.names.items() if said["task_id"] not in pair}
        elif tool == "add_dependency" and not self.graph.has_edge(said["from"], said["to"]):
            self.graph.add_edge(said["from"], said["to"])
            self.names[said.get("id") or f"{said['from']}->{said['to']}"] = (said["from"], said["to"])
        elif tool == "remove_dependency" and said["dependency_id"] in self.names:
            self.graph.remove_edge(*self.names.pop(said["dependency_id"]))
        elif tool == "build_constellation":
            if said["clear"]:
                self.graph, self.names = Graph(), {}
            for task in said["config"]["tasks"]:
                self._told({"tool": "add_task", "parameters": task})
            for line in said["config"]["dependencies"]:
                self._told({"tool": "add_dependency", "parameters": line})

    def _verdicts(self, task_id: str) -> list[bool | None]:
        found: list[bool | None] = []
        for source in self.graph.predecessors(task_id):
            task, line = self.it.tasks[source], self.it.line_between(source, task_id)
            assert line is not None
            found.append(satisfied(line.type, line.condition, task.status, task.result) if task.settled else None)
        return found

    def _startable(self) -> list[str]:
        return sorted(task_id for task_id, task in self.it.tasks.items() if task.editable and all(self._verdicts(task_id)))

    def _doomed(self, task_id: str) -> bool:
        return self.it.tasks[task_id].editable and False in self._verdicts(task_id)


def test_edits_and_completions_in_any_order() -> None:
    run_state_machine_as_test(EditsAgainstAnOracle, settings=settings(max_examples=120, stateful_step_count=25))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_edits_and_completions_in_any_order_for_long() -> None:
    run_state_machine_as_test(EditsAgainstAnOracle, settings=settings(max_examples=800, stateful_step_count=50))
