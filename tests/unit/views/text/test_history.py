"""The history of a run and its numbers, from entries made by hand: no clock, no disk."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import (
    AttemptBegun,
    AttemptEnded,
    AttemptLooked,
    AttemptProgressed,
    AttemptQueued,
    ConstellationSubmitted,
    Edited,
    LookAtAttempt,
)
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.task import TaskStatus
from asterism.constellation.view.graph import mermaid_flowchart
from asterism.constellation.view.metrics import measure
from asterism.constellation.view.show import ShownConstellation, task_status_words
from asterism.constellation.view.task_details import item_lines
from asterism.constellation.view.task_lines import plan_lines
from asterism.devices.model.attempt import DeviceQuestion, TaskError
from asterism.engine.control.run_control import Answered, BatchEnded, Cancel, Forked, OwnershipAcquired
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.permissions import ALL
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.run import Run
from asterism.views.view import unread_view
from tests.support.constellation_harness import Agent
from tests.support.machine_harness import as_shown

WORK = AgentProfile(device_id="desk", skills=(Skill(name="work", idempotent=True),), concurrency=8)


def unread() -> ShownConstellation:
    return ShownConstellation(unread_view(FORM, "r"))


class Written:
    """A journal that is written by hand: each event at its time."""

    def __init__(self, plan: dict[str, Any], concurrency: int = 8) -> None:
        desk = msgspec.structs.replace(WORK, concurrency=concurrency)
        self.run = Run(CONSTELLATION_AGENT, "r")
        self.entries: list[Entry] = []
        self.at(0, ConstellationSubmitted(request="x", fleet=(desk,), plan=parse_plan(plan)), "ada")
        self.at(0, OwnershipAcquired(epoch=1, owner="me"))
        self.at(0, BatchEnded())

    def at(self, at: float, event: Event, actor: str = "system") -> None:
        entry = self.run.take(as_shown(self.run, event), at=100.0 + at, actor=actor, permissions=ALL)
        if entry:
            self.entries.append(entry)

    def end(self, at: float, task: str, error: TaskError | None = None) -> None:
        effect = self.run.memory.constellation.tasks[task].effect_id
        self.at(at, AttemptEnded(effect_id=effect, result=None if error else {"n": 1}, error=error), "device:desk")
        self.at(at, BatchEnded())

    def history(self) -> tuple[ShownConstellation, list[str]]:
        history = unread()
        lines_read = history.read(self.entries)
        return history, [f"{it.part} {it.text}".strip() for it in lines_read if it.weight == "event"]


def queued() -> Written:
    """Three tasks of three seconds each, on a device that performs one at a time; the last one works."""
    written = Written(plan(*"abc"), concurrency=1)
    for at, ended, begun in ((3, "a", "b"), (6, "b", "c")):
        effect = written.run.memory.constellation.tasks[begun].effect_id
        written.end(at, ended)
        written.at(at, AttemptBegun(of=effect), "device:desk")
    return written


def plan(*tasks: str, pairs: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    listed = [{"task_id": name, "name": "work", "device": "desk", **more.get(name, {})} for name in tasks]
    return {"tasks": listed, "dependencies": [{"from": pair[0], "to": pair[1]} for pair in pairs]}


def test_a_diamond_has_its_critical_path_and_its_width() -> None:
    written = Written(plan(*"abcd", pairs=("ab", "ac", "bd", "cd")))
    written.end(1, "a")
    written.end(3, "b")
    written.end(6, "c")
    written.end(7, "d")
    history, told = written.history()
    metrics = measure(history, now=999)
    assert (metrics.critical_path, metrics.critical_path_s) == (["a", "c", "d"], 7.0)
    assert (metrics.wall_s, metrics.wall_over_critical_path) == (7.0, 1.0)
    assert (metrics.parallel_width, metrics.most_at_once, metrics.worked_s) == (2, 2, 9.0)
    assert told[0] == "a started on desk"
    assert told[-2:] == ["d completed: n=1", "run finished"]


def test_backoffs_and_people_count_as_waiting() -> None:
    written = Written(plan("a", "b", a={"retry": {"max_attempts": 2, "backoff_s": 4}}, b={"requires_approval": True}))
    written.end(1, "a", TaskError(code="raised", message="bad\x1bluck"))
    again = written.run.memory.constellation.tasks["a"].not_before - 100
    written.at(2, Answered(effect_id=written.run.memory.constellation.tasks["b"].effect_id, verb="approve"), "ada")
    written.at(2, BatchEnded())
    written.at(again, BatchEnded())
    written.end(10, "a")
    written.end(11, "b")
    history, told = written.history()
    by_task = measure(history, now=0).by_task
    assert by_task["a"].attempts == 2
    assert by_task["a"].waited_s == pytest.approx(again - 1)
    assert by_task["b"].people_s == 2
    assert by_task["b"].worked_s == 9
    assert any(line.startswith("a bad\\x1bluck; retry in ") for line in told)
    assert "b waits for a person: Run b (work) on desk?" in told
    assert "b ada answers approve" in told
    assert "a started on desk, attempt 2" in told


def test_each_skipped_task_has_a_line_with_its_reason() -> None:
    written = Written(plan(*"abc", pairs=("ab", "bc")))
    written.end(1, "a", TaskError(code="raised", message="no"))
    _, told = written.history()
    assert told == [
        "a started on desk",
        "a failed: no",
        "b skipped: a is FAILED",
        "c skipped: b is SKIPPED",
        "run failed: a (work) is FAILED: no",
    ]


def test_a_cancel_has_one_line() -> None:
    written = Written(plan(*"ab", pairs=("ab",)))
    written.at(1, Cancel(reason="enough"), "ada")
    _, told = written.history()
    assert told == [
        "a started on desk",
        "cancelled by ada: enough",
        "a cancelled: cancelled by ada: enough",
        "b cancelled: cancelled by ada: enough",
    ]


def test_the_last_progress_report_stays_until_the_attempt_ends() -> None:
    written = Written(plan("a"))
    effect = written.run.memory.constellation.tasks["a"].effect_id
    written.at(1, AttemptProgressed(effect_id=effect, fraction=0.5, message="first\nsecond"), "device:desk")
    history, _ = written.history()
    assert (history.signs["a"].fraction, history.signs["a"].message) == (0.5, "second")
    assert measure(history, now=104).wall_s == 4
    written.end(5, "a")
    history, _ = written.history()
    assert not history.signs
    assert history.constellation.tasks["a"].status is TaskStatus.COMPLETED


def test_each_external_edit_has_a_line_with_its_actor() -> None:
    written = Written(plan("a"))
    adds = {"tool": "add_task", "parameters": {"task_id": "n", "device": "desk", "skill": "work"}}
    waits = {"tool": "add_dependency", "parameters": {"from": "a", "to": "n"}}
    written.at(1, Edited(actions=(adds, waits), base_version=1), "ada")
    written.at(2, Edited(actions=({"tool": "update_task", "parameters": {"task_id": "n", "priority": 2}},), base_version=2), "ada")
    _, told = written.history()
    assert told[-3:] == [
        "n ada adds the task on desk",
        "ada adds the dependency a->n, version 2",
        "n ada changes the task: priority=2, version 3",
    ]


def test_a_rejected_edit_has_a_line_with_the_reason() -> None:
    written = Written(plan("a"))
    why = '{"code":"read_only","what":"a","why":"it is RUNNING"}'
    entry = written.run.note(Edited(actions=(), base_version=1), at=101.0, actor="ada", key="k", why=why)
    written.entries.append(entry)
    assert written.history()[1][-1] == "edit by ada refused: a: it is RUNNING (read_only)"


def test_an_edit_that_changes_nothing_has_no_edit_line() -> None:
    written = Written(plan("a"))
    adds = {"tool": "add_task", "parameters": {"task_id": "n", "device": "desk", "skill": "work"}}
    written.at(1, Edited(actions=(adds,), base_version=1), "ada")
    written.at(2, Edited(actions=(adds,), base_version=2), "ada")
    history, told = written.history()
    assert told.count("n ada adds the task on desk, version 2") == 1
    again = unread().read(written.entries)[-1]
    assert (again.text, again.weight) == ("add_task n: it is there already", "detail")
    assert history.constellation.version == 2


def test_a_rejected_answer_has_a_line_with_the_reason() -> None:
    written = Written(plan("a"))
    entry = written.run.note(Answered(effect_id="r:1.0", verb="edit"), at=101.0, actor="ada", key="k", why="x: unknown device 'moon'")
    written.entries.append(entry)
    assert written.history()[1][-1] == "answer edit by ada refused: x: unknown device 'moon'"


def test_a_planner_that_gives_up_has_no_plan_line() -> None:
    agent = Agent()
    agent.plans(status="FAIL", result={"summary": "nothing here can fly"})
    told = [it.text for it in unread().read(agent.entries) if it.weight == "event"]
    assert told[0] == "planner answered FAIL without a plan"


def test_time_without_an_owner_is_not_work() -> None:
    written = Written(plan("a"))
    effect = written.run.memory.constellation.tasks["a"].effect_id
    written.at(4, AttemptProgressed(effect_id=effect, fraction=0.5))
    written.at(44, OwnershipAcquired(epoch=2, owner="you", retried=(effect,)))
    written.end(50, "a")
    metrics = measure(written.history()[0], now=999)
    assert (metrics.worked_s, metrics.wall_s, metrics.attempts) == (10.0, 50.0, 1)


def test_effects_that_a_fork_cancels_are_not_shown_as_retried() -> None:
    written = Written(plan("a"))
    written.at(5, Forked(origin="r0", seq=3, idle_s=0.0))
    called_off = written.entries[-1].effect_ids()[0]
    written.at(6, OwnershipAcquired(epoch=2, owner="you", retried=(called_off,)))
    assert not [line for line in written.history()[1] if "retried" in line]


def test_the_log_shows_only_the_reason_of_a_rejected_plan() -> None:
    agent = Agent(approve_plan=True)
    agent.plans(plan={"tasks": [{"task_id": "a", "device": "d"}]})
    agent.answers("reject", reason="too dear")
    told = [it.text for it in unread().read(agent.entries) if it.weight == "event"]
    assert told[-1] == "planner asked: me said no: too dear"


def test_the_queue_of_a_device_is_waiting_and_not_work() -> None:
    written = queued()
    written.end(9, "c")
    history, told = written.history()
    metrics = measure(history, now=999)
    assert (metrics.most_at_once, metrics.worked_s, metrics.waited_s) == (1, 9.0, 9.0)
    assert [(each.worked_s, each.waited_s) for each in metrics.by_task.values()] == [(3, 0), (3, 3), (3, 6)]
    assert [line for line in told if "completed" not in line] == [
        "a started on desk", "b queued on desk", "c queued on desk", "b started on desk", "c started on desk", "run finished"
    ]  # fmt: skip


def test_a_queued_task_is_not_running() -> None:
    written = Written(plan(*"abc"), concurrency=1)
    history, _ = written.history()
    assert history.summary() == "0 of 3 done, 1 running, 2 queued"
    assert [str(line).split("desk")[1].split() for line in history.status_lines(104.0, 50)] == [
        ["running", "4.00", "s"], ["queued", "4.00", "s"], ["queued", "4.00", "s"]
    ]  # fmt: skip
    history, _ = queued().history()
    assert history.summary() == "2 of 3 done, 1 running"
    assert [str(line).split("desk")[1].split()[:3] for line in history.status_lines(107.0, 50)] == [
        ["done", "3.00", "s"], ["done", "3.00", "s"], ["running", "1.00", "s"]
    ]  # fmt: skip
    assert history.view.rows["task:c"]["queued"] is False


def test_an_attempt_that_other_runs_keep_waiting_is_queued() -> None:
    written = Written(plan("a"))
    effect = written.run.memory.constellation.tasks["a"].effect_id
    written.at(0, AttemptQueued(of=effect), "device:desk")
    written.at(5, AttemptBegun(of=effect), "device:desk")
    written.end(6, "a")
    history, told = written.history()
    metrics = measure(history, now=999)
    assert (metrics.worked_s, metrics.waited_s) == (1.0, 5.0)
    assert told[:3] == ["a started on desk", "a queued: desk performs other attempts", "a started on desk"]
    assert str(history.status_lines(107.0, 50)[0]).split("desk")[1].split()[:3] == ["done", "1.00", "s"]


def test_a_look_at_an_attempt_that_waits_for_a_person_starts_nothing() -> None:
    """G2."""
    written = Written(plan("a"))
    effect = written.run.memory.constellation.tasks["a"].effect_id
    written.at(1, AttemptEnded(effect_id=effect, question=DeviceQuestion(prompt="Sign in", may_go_on=True)))
    written.at(11, BatchEnded())
    (look,) = (key for key, it in written.run.outstanding.items() if isinstance(it, LookAtAttempt))
    written.at(11, AttemptLooked(effect_id=look, gone_on=True))
    written.end(12, "a")
    history, told = written.history()
    metrics = measure(history, now=999)
    assert (metrics.worked_s, metrics.waited_s) == (2.0, 0.0)
    assert "a continued on desk without the answer" in told


FAN_OUT = {
    "tasks": [
        {"task_id": "a", "device": "desk", "skill": "work", "for_each": {"items": [1, 2, 3], "max_concurrent": 2, "failed": "omit"}},
        {"task_id": "b", "device": "desk", "skill": "work"},
    ],
    "dependencies": [{"from": "a", "to": "b"}],
}


def test_a_fan_out_is_one_line_with_the_progress_of_its_items() -> None:
    written = Written(FAN_OUT)
    written.end(1, "a[0]")
    written.end(2, "a[1]", error=TaskError(code="raised", message="broken"))
    history, told = written.history()
    assert [str(line).rstrip() for line in history.status_lines(103, 8)] == [
        "◐  a    desk  ━━━━━━━━────  67%  3.00 s  1 of 3 items, 1 failed",
        "│",
        "○  b    desk",
    ]
    assert history.summary() == "0 of 2 done, 1 running"
    assert task_status_words(history, "a") == "waits for its items: 1 of 3 items, 1 failed"
    written.end(4, "a[2]")
    history, told = written.history()
    assert told == [
        "a[0] started work on desk",
        "a[1] started work on desk",
        "a performed for 3 items",
        "a[0] completed: n=1",
        "a[2] started work on desk",
        "a[1] failed: broken",
        "a[2] completed: n=1",
        "a completed: 2 of 3 items, 1 failed",
        "b started work on desk",
    ]
    fields = history.result_fields()["tasks"]["a"]
    assert fields["items"]["completed"] == 2
    assert fields["failed"] == [{"index": 1, "item": 2, "error": "broken"}]
    assert "COMPLETED<br/>2 of 3 items, 1 failed" in mermaid_flowchart(history.constellation)
    metrics = measure(history, 105)
    assert (metrics.tasks, metrics.attempts, metrics.critical_path_s) == (2, 4, 4.0)
    assert [str(line) for line in item_lines(history, history.constellation.tasks["a"], metrics)] == [
        "      2 of 3 items, 1 failed",
        "      a[1]  failed  1 attempt, worked 2.00 s  broken",
    ]


def test_a_queued_item_is_not_running() -> None:
    written = Written(plan("a", a={"for_each": {"items": [1, 2, 3], "max_concurrent": 2}}), concurrency=1)
    history, _ = written.history()
    assert str(history.status_lines(103, 8)[0]).endswith("3.00 s  0 of 3 items, 1 queued")
    task = history.constellation.tasks["a"]
    assert [str(line).strip() for line in item_lines(history, task, measure(history, 103))] == [
        "0 of 3 items",
        "a[0]  running  1 attempt, worked 3.00 s",
        "a[1]  queued  1 attempt",
    ]
    assert task_status_words(history, "a[0]") == "RUNNING: no dependencies"
    assert task_status_words(history, "a[1]") == "queued: desk performs other attempts"
    assert task_status_words(history, "a[2]") == "waits until fewer items of a are under way"
    assert [history.view.rows[f"task:a[{number}]"]["queued"] for number in range(3)] == [False, True, False]


def test_an_item_has_its_own_progress_and_questions() -> None:
    written = Written(plan("a", a={"for_each": [1, 2], "requires_approval": True}))
    tasks = written.run.memory.constellation.tasks
    written.at(1, Answered(effect_id=tasks["a[1]"].effect_id, verb="approve"), "ada")
    written.at(1, BatchEnded())
    written.at(2, AttemptProgressed(effect_id=tasks["a[1]"].effect_id, fraction=0.4, message="page 4"), "device:desk")
    history, told = written.history()
    assert history.summary() == "0 of 1 done, 1 running, 1 waiting for a person"
    assert task_status_words(history, "a[0]") == "waits for a person: Run a[0] (work) on desk?"
    assert [str(line).strip() for line in item_lines(history, history.constellation.tasks["a"], measure(history, 103))] == [
        "0 of 2 items",
        "a[0]  waits for a person",
        "a[1]  running  1 attempt, worked 2.00 s  40%  page 4",
    ]
    assert "a[1] ada answers approve" in told


def test_a_plan_says_what_a_task_is_performed_for() -> None:
    constellation = TaskConstellation.from_dict(FAN_OUT)
    assert "for each of 3 items, 2 at once, without failed ones" in str(plan_lines(constellation)[0])
    assert "for each of 3 items" in mermaid_flowchart(constellation)
