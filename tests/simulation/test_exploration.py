"""Exhaustive exploration: it counts right, it finds what is planted, and small worlds are sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asterism.constellation.machine.events import Hold, RunOptions
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model import batch
from asterism.constellation.model.task import SETTLED, TaskStar, TaskStatus
from asterism.engine.kernel.run import Run
from asterism.testing.invariants import life_without_schedule
from tests.simulation.exploration.small_flows import FlowSpace
from tests.simulation.exploration.small_run import Budget, SmallRun
from tests.simulation.exploration.small_worlds import AgentSpace, small_edits, small_plans
from tests.simulation.exploration.space import NO_END, Explored, Explorer
from tests.simulation.explore import ALWAYS, FIVE, ROWS, agents, main

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "reliability.md"


class Grid:
    """So many steps right and so many up, in any order; from the corner at (1, 1) nothing leads on, if it is a trap."""

    def __init__(self, size: int, *, trap: bool = False) -> None:
        self._size = size
        self._trap = trap

    def start(self) -> tuple[int, int]:
        return 0, 0

    def moves(self, state: tuple[int, int]) -> Iterator[tuple[str, Callable[[], tuple[int, int]]]]:
        right, up = state
        if self._trap and state == (1, 1):
            return
        if right < self._size:
            yield "right", lambda: (right + 1, up)
        if up < self._size:
            yield "up", lambda: (right, up + 1)

    def key(self, state: tuple[int, int]) -> tuple[int, int]:
        return state

    def is_end(self, state: tuple[int, int]) -> bool:
        return state == (self._size, self._size)


class WholeAgent(AgentSpace):
    """Tells states apart by all that they remember."""

    def remembered(self, run: Run[ConstellationMemory]) -> dict[str, Any]:
        facts = SmallRun.remembered(self, run)
        board = run.memory.schedule
        facts["life"] = life_without_schedule(run.memory)
        if board is not None:
            facts["constellation"] = board.constellation.to_dict()
            facts["schedule"] = [list(board.startable), list(board.running), list(board.unsatisfiable)]
        return facts


class WholeFlow(FlowSpace):
    """Tells states apart by all that they remember."""

    remembered = SmallRun.remembered


def assert_same_moves(whole: SmallRun[Any], told: SmallRun[Any]) -> None:
    """States that ``told`` takes for one can do the same, and are taken for one after it; no move changes the state it is made in."""
    can: dict[Hashable, tuple[bool, Counter[tuple[str, Hashable]]]] = {}
    stack = [whole.start()]
    seen = {whole.key(stack[0])}
    while stack:
        state = stack.pop()
        before, moves = whole.key(state), Counter[tuple[str, Hashable]]()
        for name, take in whole.moves(state):
            after = take()
            moves[name, told.key(after)] += 1
            if (key := whole.key(after)) not in seen:
                seen.add(key)
                stack.append(after)
        assert whole.key(state) == before
        assert can.setdefault(told.key(state), (told.is_end(state), moves)) == (told.is_end(state), moves)
    assert 10 < len(can) < len(seen)


def explored(size: int, budget: Budget, *, hold: Hold = "successors") -> list[Explored]:
    return [Explorer(space).explore() for space in agents(size, budget, options=RunOptions(replan="always", hold=hold))]


def test_interleavings_are_counted_once() -> None:
    found = Explorer(Grid(4)).explore()
    assert (found.states, found.moves, found.interleavings, found.ends) == (25, 40, 70, 1)  # 70 = 8 over 4
    assert found.is_sound


def test_a_stuck_state_is_reported_with_its_path() -> None:
    found = Explorer(Grid(3, trap=True)).explore()
    assert sorted(found.stuck) == ["right", "up"]
    assert not found.is_sound


def test_a_world_without_an_end_is_not_sound() -> None:
    class Endless(Grid):
        def is_end(self, state: tuple[int, int]) -> bool:
            return False

    found = Explorer(Endless(2)).explore()
    assert found.stuck == (NO_END,)
    assert not found.is_sound


def test_unexplored_states_are_counted() -> None:
    found = Explorer(Grid(9), most=10).explore()
    assert found.cut > 0
    assert not found.is_sound


def test_there_is_one_small_plan_for_each_graph_up_to_renaming() -> None:
    assert [len(small_plans(size)) for size in (1, 2, 3, 4)] == [1, 2, 6, 31]  # OEIS A003087


def test_every_interleaving_of_two_tasks_and_one_edit_is_sound() -> None:
    for found in (*explored(2, Budget(edits=1, cancels=1)), *explored(2, Budget(live_edits=1, crashes=1))):
        assert found.violation is None, (found.violation, found.path)
        assert found.is_sound


def assert_same_moves_of_agents(budget: Budget, options: RunOptions = ALWAYS) -> None:
    for plan in small_plans(2):
        whole, told = (kind(plan, budget, options=options, edits=small_edits) for kind in (WholeAgent, AgentSpace))
        assert_same_moves(whole, told)


def test_fields_left_out_of_a_state_key_change_no_move() -> None:
    assert_same_moves_of_agents(Budget(edits=1))
    whole, told = (kind(1, Budget(edits=1, cancels=1), approval=True) for kind in (WholeFlow, FlowSpace))
    assert_same_moves(whole, told)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("budget", [Budget(edits=1, failures=1, cancels=1), Budget(edits=2), Budget(live_edits=1, crashes=1, pauses=1)])
def test_fields_left_out_of_a_state_key_change_no_move_under_faults(budget: Budget) -> None:
    assert_same_moves_of_agents(budget)


@pytest.mark.slow
def test_fields_left_out_of_a_waiting_state_key_change_no_move() -> None:
    assert_same_moves_of_agents(Budget(edits=1, crashes=1), RunOptions(replan="always", approve_plan=True, approve_edits=True))
    whole, told = (kind(1, Budget(edits=1, crashes=1, cancels=1), child=True) for kind in (WholeFlow, FlowSpace))
    assert_same_moves(whole, told)


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["successors", "none", "all"])
def test_every_interleaving_of_two_tasks_under_faults_is_sound(hold: Hold) -> None:
    for found in explored(2, FIVE, hold=hold):
        assert found.violation is None, (found.violation, found.path)
        assert found.is_sound
        assert found.interleavings > 10_000


def test_a_start_that_ignores_the_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConstellationMemory, "held", lambda memory: set())
    assert any(found.violation is not None and found.violation.number == 2 for found in explored(2, Budget(edits=1)))


def test_an_edit_of_a_running_task_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskStar, "editable", property(lambda task: not task.settled))
    monkeypatch.setattr(batch, "EDITABLE", frozenset(TaskStatus) - SETTLED)
    assert any(found.violation is not None and found.violation.number == 3 for found in explored(2, Budget(edits=1)))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "name", ["agent-2-yes", "agent-2-consent", "agent-2-once", "agent-2-queue", "agent-3", "agent-3-edits", "agent-4-edit"]
)
def test_every_documented_row_is_sound(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", ["agent-1-handlers", "agent-2-handlers"])
def test_the_rows_with_handlers_are_sound(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 0, capsys.readouterr().out


def test_a_row_lists_each_world_and_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["loop--", "flow-1"]) == 0
    lines = [line.split(" | ")[:3] for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["| loop--, world 1", "| loop--", "| flow-1, world 1", "| flow-1"]
    assert [line[1:] for line in lines[::2]] == [line[1:] for line in lines[1::2]]


def test_a_row_that_was_cut_is_not_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flow-1", "--most", "50"]) == 1
    assert " | 0 | 0 |" not in capsys.readouterr().out


def test_without_a_name_the_rows_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "agent-4-edit" in capsys.readouterr().out


def test_the_results_list_every_row_that_can_be_walked() -> None:
    table = RESULTS.read_text(encoding="utf-8").split("\n## Exhaustive exploration\n", 1)[1].split("\n## ", 1)[0]
    listed = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(ROWS)
