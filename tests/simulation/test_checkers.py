"""The checkers find defects planted in the code under test, and report the seed."""

from __future__ import annotations

import functools
import sqlite3
from collections import Counter
from types import ModuleType
from typing import Any

import msgspec
import pytest

from asterism.constellation.machine import planner_requests, planning, questions, table, tasks
from asterism.constellation.machine.events import AttemptEnded, Dispatch, RunOptions
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.task_coupling import TaskSchedule, move_task
from asterism.constellation.model.batch import _Batch
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.line import TRUTH_TABLE, DependencyType
from asterism.conversation.machine import moves
from asterism.conversation.machine import table as flow_table
from asterism.conversation.machine.events import HandlerEnded, HandlerNotified
from asterism.conversation.machine.memory import FlowMemory
from asterism.conversation.python import agent_state, performer
from asterism.conversation.python.performer import NotifyPerformer
from asterism.devices.dispatch import dispatcher
from asterism.devices.dispatch.lane import Lane
from asterism.devices.model.attempt import TaskError
from asterism.engine.control import common_rows, inquiries
from asterism.engine.control.children import ChildSignaled, child_run_id, signal_children
from asterism.engine.control.run_control import Answered, Cancel, RunMemory
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import Commit
from asterism.engine.runtime import children
from asterism.engine.runtime.children import SignalPerformer
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.run_executor import RunExecutor
from asterism.loop.machine import reflection
from asterism.loop.machine import steps as loop_steps
from asterism.loop.machine import table as loop_table
from asterism.loop.machine.memory import Activity, LoopMemory
from asterism.loop.machine.model import Finding
from asterism.stores.sqlite import SqliteStore
from asterism.testing.device import Behaviour
from asterism.testing.invariants import InvariantViolated
from asterism.testing.world import World
from tests.simulation.__main__ import main
from tests.simulation.search.campaign import Tally, campaign

SEEDS = 1000


def found(numbers: set[int], *profiles: str) -> Tally:
    tally = campaign(0, profiles, runs=SEEDS)
    assert tally.failure is not None, f"not found in {SEEDS} seeds of {profiles}"
    assert any(f"invariant {number} " in tally.failure[2] for number in numbers), tally.failure[2]
    return tally


def test_an_edit_of_a_running_task_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Batch, "_editable", lambda self, task_id: self._known(task_id))
    found({3}, "planner")


def test_an_effect_performed_before_its_append_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = RunExecutor._append

    async def too_late(self: RunExecutor, entries: Any, folded: Any) -> None:
        for entry in entries:
            for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
                self._perform(effect_id, effect)
        await real(self, entries, folded)

    monkeypatch.setattr(RunExecutor, "_append", too_late)
    found({2, 6}, "crashes", "store")


def test_an_approval_accepted_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real_take, real_answer = Run.take, tasks.take_answer
    said_yes: dict[int, dict[str, Dispatch]] = {}
    alive: list[ConstellationMemory] = []  # no two may have one id()
    real_check = inquiries.check_answer

    def check(memory: RunMemory, event: Answered, context: StepContext) -> None:
        if event.effect_id not in said_yes.get(id(memory), {}):
            real_check(memory, event, context)

    def take(self: Run[Any], event: Any, *, at: float, actor: str, key: str = "", **sent: Any) -> Any:
        if (
            isinstance(event, Answered)
            and event.effect_id in said_yes.get(id(self.memory), {})
            and not self.machine.is_terminal(self.state)
        ):
            return self._step(event, self.context(event, at=at, actor=actor, **sent), key)
        return real_take(self, event, at=at, actor=actor, key=key, **sent)

    def answer(memory: ConstellationMemory, schedule: TaskSchedule, event: Answered, context: StepContext) -> None:
        alive.append(memory)
        known = said_yes.setdefault(id(memory), {})
        if event.effect_id in known:
            context.schedule(known[event.effect_id])
            return
        question = memory.questions.get(event.effect_id)
        real_answer(memory, schedule, event, context)
        if question is not None and event.verb == "approve":
            known[event.effect_id] = question

    monkeypatch.setattr(Run, "take", take)
    monkeypatch.setattr(table, "take_answer", answer)
    monkeypatch.setattr(common_rows, "check_answer", check)
    tally = found({6}, "people")
    assert tally.failure is not None
    assert "accepts a result of" in tally.failure[2]


def test_a_command_that_never_reaches_a_child_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(self: SignalPerformer, effect_id: str, request: Any, report: Any) -> ChildSignaled:
        return ChildSignaled(effect_id=effect_id)

    monkeypatch.setattr(SignalPerformer, "perform", lost)
    found({6}, "trees")


def test_a_handler_that_is_never_notified_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def deaf(self: NotifyPerformer, effect_id: str, request: Any, report: Any) -> HandlerNotified:
        return HandlerNotified(effect_id=effect_id)

    monkeypatch.setattr(NotifyPerformer, "perform", deaf)
    found({8}, "failing moves")


def test_an_accepted_cancel_without_effect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(memory: FlowMemory, reason: str, context: StepContext) -> None:
        signal_children(memory.live_children(), Cancel(reason=reason), context)

    monkeypatch.setattr(flow_table, "request_cancel", deaf)
    found({8}, "conversations")


def test_a_child_started_again_after_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    times: Counter[str] = Counter()

    def another(effect_id: str) -> str:
        times[effect_id] += 1
        return child_run_id(effect_id) + "0" * (times[effect_id] - 1)

    monkeypatch.setattr(children, "child_run_id", another)
    found({6}, "trees")


def test_a_task_started_while_on_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConstellationMemory, "held", lambda memory: set())
    found({2}, "planner")


def test_an_ignored_dependency_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRUTH_TABLE, DependencyType.SUCCESS_ONLY, TRUTH_TABLE[DependencyType.COMPLETION_ONLY])
    found({2}, "devices")


@pytest.mark.parametrize("move", ["take_creation", "take_edit"])
def test_a_plan_or_edit_without_approval_is_found(move: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, move, functools.partial(getattr(table, move), approved=True))
    found({9}, "decisions")


def test_a_task_without_its_approval_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "approved", lambda memory, attempt, context: "")
    found({9}, "calm")


def test_a_cycle_in_the_graph_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskConstellation, "cycle_through", lambda self, source, target: None)
    found({1}, "planner")


def test_memory_that_is_not_in_the_journal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tasks.settle_task

    def settle(memory: ConstellationMemory, schedule: TaskSchedule, task: Any, event: Any, context: StepContext) -> None:
        real(memory, schedule, task, event, context)
        if not context.replayed:
            memory.asks += 1

    monkeypatch.setattr(tasks, "settle_task", settle)
    found({5}, "calm")


def test_a_store_with_two_concurrent_writers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SqliteStore._append

    def append(self: SqliteStore, connection: sqlite3.Connection, commit: Commit) -> None:
        ((epoch,),) = connection.execute("SELECT epoch FROM runs WHERE run = ?", (commit.run_id,))
        connection.execute("UPDATE runs SET epoch = ? WHERE run = ?", (commit.epoch, commit.run_id))
        real(self, connection, commit)
        connection.execute("UPDATE runs SET epoch = ? WHERE run = ?", (epoch, commit.run_id))

    monkeypatch.setattr(SqliteStore, "_append", append)
    found({7}, "fenced")


def test_a_run_that_waits_for_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "is_done", lambda memory, schedule: False)
    found({8}, "calm")


def test_an_outcome_that_a_crash_loses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = RunExecutor.acquire

    async def acquire(self: RunExecutor, owner: str) -> None:
        kept, self.run.outstanding = self.run.outstanding, {}
        await real(self, owner)
        self.run.outstanding = {**kept, **self.run.outstanding}

    monkeypatch.setattr(RunExecutor, "acquire", acquire)
    found({5, 6, 8}, "crashes")


def test_an_inbox_row_accepted_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = RunExecutor._append

    async def forgetful(self: RunExecutor, entries: Any, folded: Any) -> None:
        await real(self, entries, folded)
        self._delivered.clear()

    monkeypatch.setattr(RunExecutor, "_append", forgetful)
    found({6}, "storm")


def test_randomness_outside_the_seed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(10**9))
    real = Driver.__init__

    def named(self: Driver, **options: Any) -> None:
        real(self, **{**options, "owner": f"process {next(numbers)}"})

    monkeypatch.setattr(Driver, "__init__", named)
    found({10}, "calm")


def test_a_task_with_too_many_attempts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tasks.take_end

    def once_more(memory: ConstellationMemory, schedule: TaskSchedule, event: AttemptEnded, context: StepContext) -> None:
        task = schedule.constellation.tasks[memory.attempts[event.effect_id].task_id]
        task.attempts -= task.attempts == task.retry.max_attempts
        real(memory, schedule, event, context)

    monkeypatch.setattr(table, "take_end", once_more)
    found({8}, "devices")


def test_a_retry_without_backoff_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_backoff_s", lambda task, effect, context: 0.0)
    found({2}, "devices")


def test_a_planner_request_over_the_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_requests, "over_limit", lambda memory: "")
    found({8}, "decisions")


def test_an_inquiry_open_after_its_expiry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = inquiries.open_inquiry

    def unwoken(memory: ConstellationMemory, *what: Any, **more: Any) -> str:
        before = list(memory._timers)
        inquiry: str = real(memory, *what, **more)
        memory._timers = before
        return inquiry

    monkeypatch.setattr(questions, "open_inquiry", unwoken)
    asks = {"task_id": "a", "device": "d", "skill": "once", "requires_approval": True}
    works = {"task_id": "b", "device": "d", "skill": "once"}  # else no process would drive the run
    fleet = [AgentProfile(device_id="d", skills=(Skill(name="once"),))]
    world = World(fleet=fleet, script={"once": Behaviour(duration_s=60)})
    with pytest.raises(InvariantViolated, match="has expired, but is still open"):
        world.run({"tasks": [asks, works]}, options=RunOptions(inquiry_timeout_s=20, wall_limit_s=100))


def test_a_pause_not_forwarded_to_children_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_rows, "signal_children", lambda children, command, context: None)
    found({6}, "trees")


def test_a_device_over_its_concurrency_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Lane.__init__

    def wide(self: Lane, device: Any, places: Any) -> None:
        real(self, device, places)
        self.slots += 1

    monkeypatch.setattr(Lane, "__init__", wide)
    found({2}, "calm")


def test_an_attempt_running_after_its_timeout_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = dispatcher.Dispatcher._stop

    def patient(self: dispatcher.Dispatcher, lane: Any, item: Any, error: TaskError) -> None:
        if error.code not in ("timeout", "deadline"):
            real(self, lane, item, error)

    monkeypatch.setattr(dispatcher.Dispatcher, "_stop", patient)
    found({8}, "devices")


def test_a_step_with_too_many_attempts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = reflection._again

    def anew(memory: LoopMemory, finding: Finding, *, elsewhere: bool) -> Activity | None:
        return real(memory, msgspec.structs.replace(finding, attempt=0), elsewhere=elsewhere)

    monkeypatch.setattr(reflection, "_again", anew)
    found({8}, "storm of loops")


@pytest.mark.parametrize(
    ("module", "move", "bound", "profile"),
    [
        (LoopMemory, "past_bound", "max_tokens", "loops"),
        (loop_table, "take_plan", "max_calls", "loops"),
        (loop_table, "take_reply", "max_calls", "loops"),
        (loop_steps, "begin_round", "max_rounds", "tools"),
    ],
)
def test_an_ignored_limit_of_a_loop_is_found(
    module: ModuleType | type, move: str, bound: str, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(module, move)

    def boundless(memory: LoopMemory, *given: Any) -> Any:
        options, memory.options = memory.options, msgspec.structs.replace(memory.options, **{bound: 10**9})
        try:
            return real(memory, *given)
        finally:
            memory.options = options

    monkeypatch.setattr(module, move, boundless)
    assert bound in (found({8}, profile).failure or ("", "", ""))[2]


def test_a_loop_that_fails_before_its_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = reflection._replan

    def hasty(memory: LoopMemory, told: str, context: StepContext) -> Any:
        memory.replans += 1
        return real(memory, told, context)

    monkeypatch.setattr(reflection, "_replan", hasty)
    assert "max_replans, which is not reached" in (found({8}, "loops").failure or ("", "", ""))[2]


def test_a_conversation_that_acts_again_after_an_interruption_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = moves.take_result

    def eager(memory: FlowMemory, event: HandlerEnded, context: StepContext) -> None:
        real(memory, event, context)
        memory.last_running = "again" if memory.interrupted else memory.last_running

    monkeypatch.setattr(flow_table, "take_result", eager)
    found({9}, "conversations")


def test_an_inquiry_open_after_its_conversation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgotten(memory: FlowMemory, inquiry_id: str, context: StepContext) -> None:
        memory.inquiries.clear()

    monkeypatch.setattr(moves, "close_inquiry", forgotten)
    found({8}, "conversations")


def test_a_child_running_after_its_conversation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "signal_children", lambda children, command, context: None)
    found({8}, "storm of conversations")


@pytest.mark.parametrize("module", [performer, agent_state])
def test_a_written_secret_is_found(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hide", lambda value, *_: value)
    found({11}, "conversations")


def test_a_violation_is_reported_with_its_seed_its_history_and_the_command_to_reproduce_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planning, "skip_unsatisfiable", lambda memory, schedule, context: False)
    monkeypatch.setattr(table, "is_done", lambda memory, schedule: False)
    assert main(["--seconds", "60", "--profile", "calm"]) == 1
    told = capsys.readouterr().err
    assert "again: python -m tests.simulation --profile calm --one " in told
    assert "invariant 8 (every run ends, or waits on something it can name) is violated" in told
    assert " by system -> CONTINUE" in told


def test_a_move_with_a_missing_delta_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(schedule: TaskSchedule, task: Any, event: Any, context: StepContext) -> None:
        move_task(schedule, task, event, context)
        context.touched.pop(("task", task.task_id), None)

    monkeypatch.setattr("asterism.constellation.machine.tasks.move_task", silent)
    assert "task:" in (found({12}, "calm").failure or ("", "", ""))[2]
