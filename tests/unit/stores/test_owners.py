"""Owners are alive as long as they hold a lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asterism.errors import StoreUnavailable
from asterism.stores.owners import FileOwners


def test_an_owner_is_alive_until_it_leaves_and_names_its_process(tmp_path: Path) -> None:
    one, other = FileOwners(tmp_path / "owners"), FileOwners(tmp_path / "owners")
    me = one.enter()
    words = f"process {os.getpid()} on {os.uname().nodename}"
    assert other.live_owner(me) == words
    assert one.live_owner(me) == f"{words} (this one)"
    one.leave()
    assert other.live_owner(me) == ""
    assert list((tmp_path / "owners").iterdir()) == []


def test_entering_twice_is_being_the_same_and_leaving_twice_is_harmless(tmp_path: Path) -> None:
    owners = FileOwners(tmp_path)
    assert owners.enter() == owners.enter()
    assert len(list(tmp_path.iterdir())) == 1
    owners.leave()
    owners.leave()


def test_each_time_of_entering_has_a_new_id(tmp_path: Path) -> None:
    owners = FileOwners(tmp_path)
    first = owners.enter()
    owners.leave()
    assert owners.enter() != first
    owners.leave()


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert FileOwners(tmp_path / "owners").live_owner("abc") == ""
    assert list(tmp_path.iterdir()) == []


def test_the_check_that_finds_a_dead_owner_removes_its_file(tmp_path: Path) -> None:
    (tmp_path / "abc").write_text('{"pid": 1, "host": "gone"}')
    assert FileOwners(tmp_path).live_owner("abc") == ""
    assert list(tmp_path.iterdir()) == []


def test_two_checks_at_once_do_not_mistake_each_other_for_the_owner(tmp_path: Path) -> None:
    import fcntl  # noqa: PLC0415

    (tmp_path / "abc").touch()
    with (tmp_path / "abc").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert FileOwners(tmp_path).live_owner("abc") == ""


def test_an_id_that_leads_out_of_the_folder_is_no_owner(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    assert FileOwners(tmp_path / "owners").live_owner("../precious") == ""
    assert (tmp_path / "precious").exists()


def test_a_living_owner_whose_file_cannot_be_read_is_still_alive(tmp_path: Path) -> None:
    one = FileOwners(tmp_path)
    me = one.enter()
    (tmp_path / me).write_text("?")
    assert FileOwners(tmp_path).live_owner(me) == "another process"
    one.leave()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "owners").touch()
    with pytest.raises(StoreUnavailable, match=r"owners folder .*: File exists"):
        FileOwners(tmp_path / "owners").enter()


def test_a_program_started_by_an_owner_does_not_hold_its_lock(tmp_path: Path) -> None:
    one = FileOwners(tmp_path)
    me = one.enter()
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    path = tmp_path / me
    kept = path.read_bytes()
    one.leave()
    path.write_bytes(kept)
    try:
        assert FileOwners(tmp_path).live_owner(me) == ""
    finally:
        started.communicate(b"\n")


def test_an_owner_whose_file_cannot_be_written_leaves_none_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreUnavailable, match=r"No space left on device; free some space$"):
        FileOwners(tmp_path).enter()
    assert list(tmp_path.iterdir()) == []
