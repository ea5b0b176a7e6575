"""Disks that are full or may not be written: one clear error, exit code 2, nothing written."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.end_to_end.desk import TIMEOUT_S, Desk
from tests.support.small_disk import fill, mounted

PLAN = {"task_id": "task_001", "name": "measure", "device": "desk"}


def assert_one_clear_error(refused: subprocess.CompletedProcess[str], named: str) -> None:
    assert refused.stdout == ""
    assert refused.stderr.startswith("asterism: ")
    assert named in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_full_disk(desk: Desk) -> None:
    folder = desk.database.parent
    with mounted(folder, "size=64k"):
        filler = folder / "filler"
        filler.write_bytes(bytes(48 * 1024))
        refused = desk.do("run", desk.plan(PLAN), "--fleet", desk.fleet, code=2)
        assert_one_clear_error(refused, "free some space")
        assert [path.name for path in folder.iterdir() if path.is_file()] == ["filler"]
    assert desk.performed() == []


def test_a_read_only_database(desk: Desk) -> None:
    folder = desk.database.parent
    with mounted(folder, "size=1m"):
        desk.do("run", desk.plan(PLAN), "--fleet", desk.fleet)
        before = desk.database.read_bytes()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        refused = desk.do("run", desk.plan(PLAN), "--fleet", desk.fleet, code=2)
        assert_one_clear_error(refused, "writable")
        assert desk.database.read_bytes() == before
    assert desk.performed() == ["task_001"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(desk: Desk) -> None:
    desk.database.parent.mkdir(mode=0o555)
    refused = desk.do("run", desk.plan(PLAN), "--fleet", desk.fleet, code=2)
    assert_one_clear_error(refused, "writable")


def test_a_result_file_that_has_no_folder_is_said_before_anything_is_done(desk: Desk) -> None:
    refused = desk.do("run", desk.plan(PLAN), "--fleet", desk.fleet, "--result-file", desk.folder / "no" / "result.json", code=2)
    assert_one_clear_error(refused, "there is no folder")
    assert not desk.database.parent.exists()


def test_a_journal_file_that_is_there_is_not_lost_for_one_that_finds_no_room(desk: Desk) -> None:
    desk.do("run", desk.plan(PLAN), "--fleet", desk.fleet)
    run, folder = desk.runs()[0]["run"], desk.folder / "full"
    with mounted(folder, "size=16k"):
        file = folder / "run.jsonl"
        desk.do("export", run, "--output", file)
        before = file.read_bytes()
        (folder / "filler").write_bytes(bytes(16 * 1024 - len(before) // 4096 * 4096 - 4096))
        refused = desk.do("export", run, "--output", file, code=1)
        assert_one_clear_error(refused, "No space left on device")
        assert file.read_bytes() == before


def test_a_link_that_leads_to_itself_is_one_clear_error(desk: Desk) -> None:
    link = desk.folder / "link.py"
    link.symlink_to(link)
    assert_one_clear_error(desk.do("runs", "--database", link, code=2), "there is none")
    assert_one_clear_error(desk.do("loop", "run", f"{link}:loop", "x", code=2), "there is no file")
    desk.do("run", desk.plan(PLAN), "--fleet", desk.fleet, "--result-file", link)
    assert '"finished"' in link.read_text(encoding="utf-8"), "what leads nowhere is replaced"


def test_a_folder_of_places_that_is_full_makes_a_run_wait_until_there_is_room(desk: Desk) -> None:
    folder = desk.database.with_name(desk.database.name + ".places")
    with mounted(folder, "size=16k"):
        filler = fill(folder)
        with desk.start("run", desk.plan(PLAN), "--fleet", desk.fleet) as run:
            assert run.stdout is not None
            said = next((line for line in run.stdout if "queued" in line), "")
            assert f"queued: the places of device 'desk' in {folder} cannot be locked: No space left on device; free some space" in said
            assert desk.performed() == []
            filler.unlink()
            run.communicate(timeout=TIMEOUT_S)
            assert run.returncode == 0
    assert desk.performed() == ["task_001"]
