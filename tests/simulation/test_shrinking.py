"""Shrinking, and planted defects: an edit of a running task, an effect before its entry, a second approval; and nine of guards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from asterism.constellation.machine import device_events, guarding, planning, questions, table, tasks
from asterism.constellation.machine.events import ConstellationAgentStatus
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.task_coupling import TaskSchedule
from asterism.constellation.machine.tasks import take_answer
from asterism.constellation.model.batch import _Batch
from asterism.constellation.model.task import TaskStar
from asterism.conversation.machine import moves
from asterism.devices.dispatch import dispatcher, lane
from asterism.engine.control import common_rows, inquiries
from asterism.engine.control.inquiries import check_answer
from asterism.engine.control.run_control import Answered, RunMemory
from asterism.engine.kernel.guards import digest_of
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, Event, StepContext
from asterism.engine.kernel.run import Run
from asterism.engine.ports import store
from asterism.engine.runtime.run_executor import RunExecutor
from asterism.loop.machine import steps as loop_steps
from asterism.testing.checks.constellation_checks import ConstellationChecks
from tests.simulation.__main__ import main
from tests.simulation.search.campaign import campaign
from tests.simulation.search.profiles import PROFILES, setting_of
from tests.simulation.search.shrinking import record, shrink, smallest_failing

Plant = Callable[[pytest.MonkeyPatch], None]


def edit_of_running_task(patch: pytest.MonkeyPatch) -> None:
    editable = _Batch._editable

    def lenient(batch: _Batch, task_id: str) -> TaskStar:
        task = batch._it.tasks.get(task_id)
        return task if task and task.status == "RUNNING" else editable(batch, task_id)

    patch.setattr(_Batch, "_editable", lenient)


def effect_before_its_append(patch: pytest.MonkeyPatch) -> None:
    class Hasty(RunExecutor):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.started: set[str] = set()

        def _perform(self, effect_id: str, effect: Effect) -> None:
            if effect_id not in self.started:
                self.started.add(effect_id)
                super()._perform(effect_id, effect)

        async def _append(self, entries: list[Entry], folded: list[tuple[str, str]]) -> None:
            for entry in entries:
                for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
                    self._perform(effect_id, effect)
            await super()._append(entries, folded)

    patch.setattr("asterism.engine.runtime.driver.RunExecutor", Hasty)


def second_approval(patch: pytest.MonkeyPatch) -> None:
    """Disable all checks that reject a second approval: inbox, journal, engine and table."""
    take = Run.take

    def gullible(run: Run[Any], event: Event, *, key: str = "", **sent: Any) -> Entry | None:
        if isinstance(event, Answered) and event.verb == "approve":
            return run._step(event, run.context(event, **sent), key)
        return take(run, event, key=key, **sent)

    def welcoming(memory: ConstellationMemory, schedule: TaskSchedule, event: Answered, context: StepContext) -> None:
        if event.effect_id in memory.questions or event.verb != "approve":
            take_answer(memory, schedule, event, context)

    def unchecked(memory: RunMemory, event: Answered, context: StepContext) -> None:
        if not isinstance(memory, ConstellationMemory) or event.verb != "approve":
            check_answer(memory, event, context)

    patch.setattr(Run, "take", gullible)
    patch.setattr(common_rows, "check_answer", unchecked)
    patch.setattr(table, "take_answer", welcoming)


def description_left_out_of_the_digest(patch: pytest.MonkeyPatch) -> None:
    def digest(subject: dict[str, Any]) -> str:
        return digest_of({name: value for name, value in subject.items() if name != "description"})

    for place in (questions, inquiries, lane, store):
        patch.setattr(place, "digest_of", digest)


def guards_not_handed_to_a_new_generation(patch: pytest.MonkeyPatch) -> None:
    restart = planning.restart

    def forgetful(memory: ConstellationMemory, *given: Any) -> ConstellationAgentStatus:
        memory.guards = msgspec.structs.replace(memory.guards, plan_skills=(), plan_devices=())
        return restart(memory, *given)

    patch.setattr(planning, "restart", forgetful)


def names_of_skills_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A device that renames a skill lifts its guards."""
    for place in (device_events, guarding):
        patch.setattr(place, "with_skills", lambda guards, profile: guards)


def first_plan_of_a_planner_taken_as_given(patch: pytest.MonkeyPatch) -> None:
    begin = planning.begin
    patch.setattr(planning, "begin", lambda *given, **more: begin(*given, **{**more, "is_given": True}))


def fork_that_keeps_the_last_yes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "void_approvals", lambda memory, **given: None)


def fork_that_keeps_a_lift(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(common_rows, "_hold_lifted", lambda memory: None)


def answer_that_changes_an_approved_field(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moves, "_why_not_given", lambda memory, fields: "")


def answers_that_are_no_change(patch: pytest.MonkeyPatch) -> None:
    """Neither an edit of a task nor another value of a field concerns what is started then."""
    patch.setattr(tasks, "note_edited", lambda *given, **more: None)
    patch.setattr(moves, "_concern_all", lambda memory: None)


def results_of_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Hand over the results that are there when the request is made again, and compare it with no approval."""
    attempt = tasks._attempt
    patch.setattr(tasks, "_attempt", lambda *given: msgspec.structs.replace(attempt(*given), sources=None))
    patch.setattr(dispatcher, "guard_refusal", lambda profile, attempt: "")


def test_only_the_parts_that_fail_together_remain() -> None:
    tried: list[Sequence[int]] = []

    def breaks(parts: Sequence[int]) -> bool:
        tried.append(parts)
        return {3, 41} <= set(parts)

    assert smallest_failing(range(64), breaks) == [3, 41]
    assert len(tried) < 64


@pytest.mark.parametrize("profile", PROFILES)
def test_a_recorded_scenario_gives_the_same_journal(profile: str) -> None:
    extended = next(seed for seed in itertools.count(2) if (plan := setting_of(profile, seed).plan) is None or plan.params)
    for seed in (0, 1, extended):
        journals: list[bytes] = []
        scenario = record(setting_of(profile, seed), lambda setting, journals=journals: journals.append(setting.execute()[1].journal))  # type: ignore[misc]
        assert [scenario.setting().execute()[1].journal] == journals


def test_a_passing_seed_has_no_scenario() -> None:
    assert shrink("calm", 1) is None


def test_the_scenario_of_a_loop_has_its_options_and_only_the_failing_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_steps, "_next_group", lambda memory: list(memory.plan[memory.position :]))
    broken = campaign(0, ("loops",), runs=100).failure
    assert broken is not None
    shrunk = shrink(broken[1], broken[0])
    assert shrunk is not None
    assert shrunk.description[0].startswith("options: max_steps ")
    assert [line.partition(" worker ")[0] for line in shrunk.description if line.startswith("plan ")] == [
        "plan 1:"
    ] * 2  # a step, and one after it


def test_a_failing_seed_is_reported_with_its_shortest_scenario_and_the_command_to_reproduce_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    effect_before_its_append(monkeypatch)
    broken = campaign(0, ("calm",), runs=10).failure
    assert broken is not None
    assert main(["--one", str(broken[0]), "--profile", broken[1]]) == 1
    told = capsys.readouterr().err
    assert f"--one {broken[0]}" in told
    assert "shortest scenario" in told


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("plant", "seed", "kind"),
    [(edit_of_running_task, 0, "3"), (effect_before_its_append, 0, "2"), (second_approval, 31, "6")],  # earlier seeds find it otherwise
)
def test_a_planted_defect_is_found_within_a_thousand_seeds_and_reported_in_under_thirty_lines(
    plant: Plant, seed: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    broken = campaign(seed, runs=1000).failure
    assert broken is not None
    shrunk = shrink(broken[1], broken[0])
    assert shrunk is not None
    print(broken[:2], shrunk.parts, "parts,", shrunk.worlds, "worlds", *shrunk.description, sep="\n")
    assert shrunk.failure.kind == kind
    assert len(shrunk.description) < 30


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("plant", "seed"),
    [
        (description_left_out_of_the_digest, 1000),
        (guards_not_handed_to_a_new_generation, 0),
        (names_of_skills_forgotten, 0),
        (first_plan_of_a_planner_taken_as_given, 0),
        (fork_that_keeps_the_last_yes, 0),
        (fork_that_keeps_a_lift, 0),
        (answer_that_changes_an_approved_field, 0),
        (answers_that_are_no_change, 0),
        (results_of_a_restart, 0),
    ],
)
def test_a_planted_defect_of_guards_is_found_by_what_a_device_receives(plant: Plant, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A1, A3, A8; without the check that reads the flags of tasks and the subjects of their questions."""
    monkeypatch.setattr(ConstellationChecks, "_check_effects", lambda checks, entry: None)
    plant(monkeypatch)
    broken = campaign(seed, ("gates", "forks of gates"), runs=1000).failure
    assert broken is not None
    assert "is violated: a device received" in broken[2]
    assert "without a yes to exactly this request" in broken[2]
    print(*broken)


def test_planners_people_clients_forks_and_imports_weaken_no_gate() -> None:
    tally = campaign(2_000, ("gates", "forks of gates", "imports of gates"), runs=60)
    assert tally.failure is None, tally.failure
    for tried in (
        "gated attempts",
        "answers of clients",
        "client's edited",
        "client's retry",
        "client's guard_lifted",
        "client's message_received",
        "entry forked",
        "reports of other skills",
    ):
        assert tally.counts[tried] > 0, tried
