"""Exhaustive exploration of the orchestration loop and the flow agent: small ones are sound, and what is planted is found."""

from __future__ import annotations

from types import ModuleType

import pytest

from asterism.conversation.machine import moves, table
from asterism.conversation.machine import moves as children
from asterism.conversation.machine.events import NotifyHandler
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.loop.machine import steps
from asterism.loop.machine import steps as loop_steps
from asterism.loop.machine.memory import LoopMemory
from asterism.loop.machine.model import Step
from tests.simulation import explore
from tests.simulation.exploration.small_run import Budget
from tests.simulation.exploration.space import Explored, Explorer
from tests.simulation.explore import FOUR, GROUPS


def loop(groups: str, budget: Budget, *, critiques: bool = False) -> Explored:
    return Explorer(explore.loop(groups, budget, critiques=critiques)[0]).explore()


def below(worker: str, budget: Budget) -> Explored:
    return Explorer(explore.loop("-", budget, workers=[worker])[0]).explore()


def flow(fields: int, budget: Budget, **given: bool) -> Explored:
    return Explorer(explore.flow(fields, budget, **given)[0]).explore()


def assert_sound(found: Explored) -> None:
    assert found.violation is None, (found.violation, found.path)
    assert found.stuck == ()
    assert found.is_sound
    assert found.ends > 1


@pytest.mark.parametrize("budget", [Budget(edits=1), Budget(crashes=1), Budget(cancels=1), Budget(pauses=1), Budget(lapses=1)])
def test_every_interleaving_of_a_loop_of_three_steps_and_one_trouble_is_sound(budget: Budget) -> None:
    assert_sound(loop("aa-", budget))


@pytest.mark.parametrize(
    "budget", [Budget(edits=1), Budget(failures=1, crashes=1), Budget(cancels=1), Budget(pauses=1), Budget(live_edits=1)]
)
@pytest.mark.parametrize("approval", [False, True])
def test_every_interleaving_of_a_flow_of_three_fields_and_one_trouble_is_sound(budget: Budget, *, approval: bool) -> None:
    assert_sound(flow(3, budget, approval=approval))


@pytest.mark.parametrize("worker", ["model", "child"])
@pytest.mark.parametrize("budget", [Budget(failures=1), Budget(crashes=1), Budget(cancels=1)])
def test_every_interleaving_of_a_loop_with_a_model_or_a_child_and_one_trouble_is_sound(worker: str, budget: Budget) -> None:
    assert_sound(below(worker, budget))


@pytest.mark.parametrize("budget", [Budget(edits=1), Budget(failures=1), Budget(crashes=1, cancels=1, pauses=1)])
def test_every_interleaving_of_a_flow_with_a_child_and_a_trouble_or_two_is_sound(budget: Budget) -> None:
    assert_sound(flow(1, budget, child=True))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["loop-model", "loop-child", "loop-model-child", "flow-1-child"])
def test_every_interleaving_of_a_run_with_a_model_or_a_child_is_sound(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explore.main([name]) == 0, capsys.readouterr().out


def test_a_call_without_the_yes_it_needs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_gate", lambda *_: "")
    found = below("model", Budget())
    assert found.violation is not None
    assert found.violation.number == 9


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("groups", GROUPS)
def test_every_interleaving_of_a_loop_of_up_to_four_steps_is_sound(groups: str) -> None:
    assert_sound(loop(groups, FOUR if len(groups) < 3 else Budget(edits=1, crashes=1)))
    assert_sound(loop(groups, Budget(failures=1, pauses=2), critiques=True))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fields", [1, 2, 3])
@pytest.mark.parametrize("approval", [False, True])
def test_every_interleaving_of_a_flow_of_up_to_three_fields_is_sound(fields: int, *, approval: bool) -> None:
    assert_sound(flow(fields, FOUR, approval=approval))
    assert_sound(flow(fields, Budget(live_edits=1, crashes=1, pauses=1), approval=approval))


def test_a_step_before_its_turn_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(memory: LoopMemory) -> list[Step]:
        return list(memory.plan[memory.position :])

    monkeypatch.setattr(loop_steps, "_next_group", hasty)
    found = loop("--", Budget())
    assert found.violation is not None
    assert found.violation.number == 2


def test_a_question_that_outlives_its_conversation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "close_inquiry", lambda memory, inquiry_id, context: None)
    monkeypatch.setattr(FLOW_AGENT, "moved", lambda memory, context, end: None)
    found = flow(2, Budget(live_edits=1), approval=False)
    assert found.violation is not None or found.stuck


def test_a_cancel_that_is_forgotten_for_a_pause_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_refuse_if_cancelling", lambda memory: None)
    found = flow(1, Budget(cancels=1, pauses=1))
    assert found.violation is not None
    assert found.violation.number == 8


@pytest.mark.parametrize(("module", "child"), [(moves, False), (children, True)])
def test_a_handler_without_its_notification_is_found(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *, child: bool) -> None:
    monkeypatch.setattr(module, "NotifyHandler", lambda effect_id, **more: NotifyHandler(effect_id=f"nobody, and not {effect_id}", **more))
    assert flow(1, Budget(crashes=1), child=child).stuck
