"""Reaping: only what a dead owner left is killed, and only if it is still the same process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asterism.devices.attempts.processes import ProcessGroup, WorkerLedger, group_lives, reap_orphans, start_mark

OWNER = """
import sys
from pathlib import Path
from asterism.devices.attempts.processes import ProcessGroup, WorkerLedger
WorkerLedger(Path(sys.argv[1])).add(ProcessGroup(int(sys.argv[2]), sys.argv[3]))
"""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


def owned_by_a_dead_process(directory: Path, pid: int, born: str) -> None:
    subprocess.run([sys.executable, "-c", OWNER, str(directory), str(pid), born], check=True)


def test_a_dead_owners_worker_is_killed_and_its_file_removed(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    born = start_mark(worker.pid)
    assert born is not None
    owned_by_a_dead_process(tmp_path, worker.pid, born)
    assert reap_orphans(tmp_path) == 1
    assert not group_lives(worker.pid)
    assert worker.wait() == -9
    assert list(tmp_path.iterdir()) == []
    assert reap_orphans(tmp_path) == 0


def test_a_process_that_merely_has_the_pid_of_a_worker_is_left_alone(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    owned_by_a_dead_process(tmp_path, worker.pid, "1@another")
    assert reap_orphans(tmp_path) == 0
    assert start_mark(worker.pid)
    assert list(tmp_path.iterdir()) == []


def test_a_live_owners_worker_is_left_alone(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    ledger = WorkerLedger(tmp_path)
    born = start_mark(worker.pid)
    assert born is not None
    ledger.add(group := ProcessGroup.of(worker.pid))
    assert group.born == born
    assert reap_orphans(tmp_path) == 0
    assert start_mark(worker.pid) == born
    assert len(list(tmp_path.iterdir())) == 1
    ledger.remove(group)
    assert list(tmp_path.iterdir()) == []


def test_another_process_with_the_owners_pid_is_not_the_owner(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    (tmp_path / f"{os.getpid()}_1@another_ab12.workers").write_text(f"{worker.pid} {start_mark(worker.pid)}\n")
    assert reap_orphans(tmp_path) == 1


@pytest.mark.parametrize("text", ["", "nonsense\n", "x y\n", "99999999 1@b\n", "\xff"])
def test_a_spoilt_file_is_no_reason_to_fail(tmp_path: Path, text: str) -> None:
    (tmp_path / "1_nobody_ab12.workers").write_text(text)
    assert reap_orphans(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_no_directory_means_no_orphans(tmp_path: Path) -> None:
    assert reap_orphans(tmp_path / "none") == 0


def test_a_zombie_counts_as_gone() -> None:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        assert start_mark(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_mark(process.pid) is None
        assert not group_lives(process.pid)


def test_a_group_whose_leader_is_dead_is_killed_all_the_same(tmp_path: Path) -> None:
    program = "import os, subprocess, sys; subprocess.Popen(['sleep', '1000']); print(os.getpid(), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        born = start_mark(leader.pid)
        assert born is not None
        owned_by_a_dead_process(tmp_path, leader.pid, born)
        leader.kill()
        leader.wait()
    assert group_lives(leader.pid)
    assert reap_orphans(tmp_path) == 1
    assert not group_lives(leader.pid)


def test_what_is_no_list_of_workers_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x.workers").mkdir()
    (tmp_path / "\u00b2_a_b.workers").touch()
    assert reap_orphans(tmp_path) == 0


def test_a_list_is_written_again_where_its_folder_was_removed(tmp_path: Path) -> None:
    ledger = WorkerLedger(tmp_path / "workers")
    (tmp_path / "workers").rmdir()
    ledger.add(ProcessGroup(1, "1@x"))
    assert len(list((tmp_path / "workers").iterdir())) == 1
