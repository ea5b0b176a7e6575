"""A plan file as a draft: one writer at a time replaces it, and changes by others are read."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from asterism.constellation.model.edits import EditRefused
from asterism.constellation.planner import plan_file
from asterism.constellation.planner.draft import Accepted
from asterism.constellation.planner.plan_file import PlanFile
from asterism.errors import InvalidInput
from tests.support.constellation_harness import FLEET
from tests.support.constellations import action

PLAN = {"name": "mine", "tasks": [{"task_id": "a", "device": "d", "inputs": {"day": "2026-01-01", "on": "yes"}}], "dependencies": []}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "plan.json"
    found.write_text(json.dumps(PLAN), encoding="utf-8")
    return found


def edit(draft: PlanFile, tool: str, **parameters: Any) -> Accepted:
    return asyncio.run(draft.edit(action(tool, **parameters)))


def refused(draft: PlanFile, tool: str, **parameters: Any) -> str:
    with pytest.raises(EditRefused) as raised:
        edit(draft, tool, **parameters)
    return raised.value.refusal.code


def written(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_an_edit_is_in_the_file_and_leaves_no_other_file(path: Path) -> None:
    draft = PlanFile(path)
    edit(draft, "add_task", task_id="b", device="d")
    edit(draft, "add_dependency", from_="a", to="b")
    added = {**PLAN, "tasks": [*PLAN["tasks"], {"task_id": "b", "device": "d"}], "dependencies": [{"from": "a", "to": "b"}]}
    assert written(path) == added
    assert list(path.parent.iterdir()) == [path]


def test_yaml_stays_yaml_with_the_same_values(tmp_path: Path) -> None:
    path = tmp_path / "plan.yml"
    path.write_text(yaml.safe_dump(PLAN), encoding="utf-8")
    edit(PlanFile(path), "update_task", task_id="a", priority=2)
    again = plan_file.read_plan(path)
    assert again.tasks[0].inputs == PLAN["tasks"][0]["inputs"]  # type: ignore[index]
    assert (again.name, again.tasks[0].priority) == ("mine", 2)


def test_an_edit_without_a_change_does_not_touch_the_file(path: Path) -> None:
    draft = PlanFile(path)
    edit(draft, "add_task", task_id="b", device="d")
    edit(draft, "remove_task", task_id="b")
    before = path.stat().st_mtime_ns
    again = edit(draft, "remove_task", task_id="b")
    assert (again.changed, again.notes) == (False, ("remove_task b: it was removed already",))
    assert path.stat().st_mtime_ns == before


def test_a_batch_is_written_as_a_whole_or_not_at_all(path: Path) -> None:
    draft, before = PlanFile(path, {profile.device_id: profile for profile in FLEET}), path.read_bytes()
    new = (action("add_task", task_id="b", device="d"), action("add_dependency", from_="a", to="b"))
    with pytest.raises(EditRefused) as raised:
        asyncio.run(draft.edit(*new, action("add_task", task_id="c", device="moon"), action("remove_task", task_id="a")))
    assert (raised.value.refusal.code, raised.value.refusal.index, path.read_bytes()) == ("unknown_device", 2, before)
    accepted = asyncio.run(draft.edit(*new))
    assert (accepted.constellation.version, [task["task_id"] for task in written(path)["tasks"]]) == (1, ["a", "b"])


def test_the_changes_of_another_process_are_preserved(path: Path) -> None:
    ours, theirs = PlanFile(path), PlanFile(path)
    edit(theirs, "add_task", task_id="t", device="d")
    found = edit(ours, "add_task", task_id="o", device="d").constellation
    assert (list(found.tasks), found.version) == (["a", "t", "o"], 2)
    assert [task["task_id"] for task in written(path)["tasks"]] == ["a", "t", "o"]


def test_a_refused_edit_does_not_change_the_file(path: Path) -> None:
    draft = PlanFile(path, {profile.device_id: profile for profile in FLEET})
    before = path.read_bytes()
    assert refused(draft, "add_task", task_id="b", device="moon") == "unknown_device"
    assert refused(draft, "add_task", task_id="b", device="s", skill="once", inputs={"z": 1}) == "unknown_argument"
    assert refused(draft, "add_dependency", from_="a", to="a") == "cycle"
    assert refused(draft, "remove_task", task_id="a") == "bad_content"  # a plan needs a task
    assert path.read_bytes() == before


def test_a_file_that_is_no_longer_a_plan_is_refused_and_unchanged(path: Path) -> None:
    draft = PlanFile(path)
    path.write_text("{", encoding="utf-8")
    assert refused(draft, "add_task", task_id="b", device="d") == "unavailable"
    with pytest.raises(EditRefused, match="not JSON"):
        asyncio.run(draft.read())
    path.unlink()
    assert refused(draft, "add_task", task_id="b", device="d") == "unavailable"
    assert list(path.parent.iterdir()) == []


def test_an_invalid_plan_file_is_not_opened(path: Path) -> None:
    task = {"task_id": "b", "device": "d"}
    path.write_text(json.dumps({"tasks": [task], "dependencies": [{"from": "b", "to": "b"}]}), encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"plan\.json: dependency b->b: cycle"):
        PlanFile(path)


def test_a_link_and_the_file_mode_are_preserved(path: Path, tmp_path: Path) -> None:
    path.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    edit(PlanFile(link), "add_task", task_id="b", device="d")
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert len(written(path)["tasks"]) == 2


def test_a_file_that_stays_locked_is_refused_in_bounded_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_file, "LOCK_WAIT_S", 0.0)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        assert refused(PlanFile(path), "add_task", task_id="b", device="d") == "unavailable"
    finally:
        os.close(folder)


def test_the_draft_of_a_killed_editor_is_overwritten(path: Path) -> None:
    path.with_name(".plan.json.draft").write_text("half of", encoding="utf-8")
    edit(PlanFile(path), "add_task", task_id="b", device="d")
    assert len(written(path)["tasks"]) == 2
    assert list(path.parent.iterdir()) == [path]


def test_an_edit_that_makes_the_file_too_large_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_file, "MAX_FILE", 1_000)
    assert refused(PlanFile(path), "update_task", task_id="a", description="x" * 1_000) == "bad_content"
    assert written(path) == PLAN


@pytest.mark.parametrize("flagged", [{"task_id": "p", "device": "s", "skill": "once"}, {"task_id": "p", "device": "s", "name": "once"}])
def test_a_client_takes_no_approval_out_of_a_plan_file(path: Path, flagged: dict[str, Any]) -> None:
    """G1 of the attackers: a model edits the file, and a person or a schedule runs it."""
    nested = {"tasks": [{"task_id": "n", "device": "s", "skill": "once"}]}
    path.write_text(json.dumps({"tasks": [{**flagged, "requires_approval": True}]}), encoding="utf-8")
    draft = PlanFile(path, {profile.device_id: profile for profile in FLEET})
    before = path.read_bytes()
    assert refused(draft, "update_task", task_id="p", requires_approval=False) == "guarded"
    assert refused(draft, "update_task", task_id="p", skill="again") == "guarded"
    assert refused(draft, "add_task", task_id="q", device="s", skill="once") == "guarded"
    assert refused(draft, "add_task", task_id="q", constellation=nested) == "guarded"
    assert refused(draft, "build_constellation", config={"tasks": [{"task_id": "a", "device": "d"}]}, clear_existing=True) == "guarded"
    assert path.read_bytes() == before
    edit(draft, "add_task", task_id="q", device="s", skill="once", requires_approval=True)
    assert refused(PlanFile(path), "add_task", task_id="r", device="s", skill="again") == "guarded"  # without a fleet nothing is known


def test_a_client_writes_no_variable_folder_or_secret_into_a_plan_file_that_the_fleet_does_not_list(path: Path) -> None:
    for draft in (PlanFile(path), PlanFile(path, {profile.device_id: profile for profile in FLEET})):
        for more in ({"env": {"X": "1"}}, {"folder": "there"}, {"inputs": {"x": "${secret.KEY}"}}):
            assert refused(draft, "add_task", task_id="b", device="d", **more) == "guarded"
