from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asterism.devices.attempts.processes import start_mark
from asterism.devices.dispatch.places import TURN_S, LockedPlace, Places, _held
from tests.support.small_disk import fill, mounted

SLEEPER = [sys.executable, "-c", "import os, sys; sys.stdout.write('up'); sys.stdout.flush(); os.read(0, 1)"]
HOLDER = """
import sys
from pathlib import Path
from asterism.devices.dispatch.places import Places
place = Places(Path(sys.argv[1]), "d", 1).take()
print("held" if place else "taken", flush=True)
if place and len(sys.argv) > 2:
    place.hand_to(int(sys.argv[2]), sys.argv[3])
    print("handed", flush=True)
sys.stdin.read(1)
"""


class Sleeper:
    """A process in a group of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(SLEEPER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self.process.stdout is not None
        self.process.stdout.read(2)
        self.pid = self.process.pid
        self.born = start_mark(self.pid) or ""

    def end(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    with mounted(folder, "size=16k"):
        yield folder


@pytest.fixture
def sleeper() -> Sleeper:
    return Sleeper()


def held(places: Places) -> LockedPlace:
    place = places.take()
    assert place is not None
    return place


def drop(place: LockedPlace) -> None:
    """Close a place's descriptor without a release, as the end of a process does."""
    _held.discard(place._descriptor)
    os.close(place._descriptor)


def holder(folder: Path, *group: object) -> subprocess.Popen[str]:
    """Another process that takes the place, and hands it to a group."""
    argv = [sys.executable, "-c", HOLDER, str(folder), *map(str, group)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2 if group else 1)][-1] in ("held\n", "handed\n")
    return process


def kill(process: subprocess.Popen[str]) -> None:
    with process:
        process.kill()


def wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 20)[0]
    finally:
        os.close(descriptor)


def test_there_are_as_many_places_as_attempts_at_a_time(tmp_path: Path) -> None:
    here, there = Places(tmp_path / "new", "d", 3), Places(tmp_path / "new", "d", 3)
    first, second, third = held(here), held(there), held(here)
    assert here.take() is there.take() is None
    second.release()
    again = held(here)
    for place in (first, third, again):
        place.release()


def test_devices_with_different_names_have_different_places(tmp_path: Path) -> None:
    places = [held(Places(tmp_path, name, 1)) for name in ("fleet d", "fleet/d", "fleet%2Fd", "..", "größe", "ö" * 200)]
    assert {path.parent for path in tmp_path.rglob("*")} == {tmp_path}
    for place in places:
        place.release()


def test_a_place_that_another_process_holds_is_free_when_it_dies(tmp_path: Path) -> None:
    places = Places(tmp_path, "d", 1)
    other = holder(tmp_path)
    assert places.take() is None
    kill(other)
    held(places).release()


def test_a_descriptor_that_was_handed_on_keeps_the_place_until_its_process_ends(tmp_path: Path, sleeper: Sleeper) -> None:
    places, others = Places(tmp_path, "d", 1), Places(tmp_path, "d", 1)
    place = held(places)
    child = subprocess.Popen(SLEEPER, stdin=subprocess.PIPE, pass_fds=[place.hand_to(sleeper.pid, sleeper.born)])
    sleeper.end()
    drop(place)
    assert others.take() is None
    with child:
        child.kill()
    held(others).release()


def test_a_release_frees_the_place_whoever_else_has_the_descriptor(tmp_path: Path, sleeper: Sleeper) -> None:
    places = Places(tmp_path, "d", 1)
    place = held(places)
    child = subprocess.Popen(SLEEPER, stdin=subprocess.PIPE, pass_fds=[place.hand_to(sleeper.pid, sleeper.born)])
    place.returned()
    place.release()
    held(places).release()
    sleeper.end()
    with child:
        child.kill()


def test_a_place_whose_group_still_runs_is_not_free_while_its_owner_lives(tmp_path: Path, sleeper: Sleeper) -> None:
    places = Places(tmp_path, "d", 1)
    place = held(places)
    place.hand_to(sleeper.pid, sleeper.born)
    place.release()
    assert places.take() is None
    assert sleeper.process.poll() is None
    sleeper.end()
    held(places).release()


def test_a_group_whose_owner_is_dead_is_killed_before_the_place_is_free(tmp_path: Path, sleeper: Sleeper) -> None:
    places = Places(tmp_path, "d", 1)
    kill(holder(tmp_path, sleeper.pid, sleeper.born))
    assert places.take() is None
    assert sleeper.process.wait(20) == -signal.SIGKILL
    sleeper.end()
    held(places).release()


def test_an_orphan_that_still_holds_the_lock_is_killed_too(tmp_path: Path) -> None:
    places = Places(tmp_path, "d", 1)
    script = """
import os, subprocess, sys
from pathlib import Path
from asterism.devices.dispatch.places import Places
from asterism.devices.attempts.processes import start_mark
place = Places(Path(sys.argv[1]), "d", 1).take()
read, write = os.pipe()
group = subprocess.Popen(["sleep", "1000"], start_new_session=True, pass_fds=[place._descriptor])
place.hand_to(group.pid, start_mark(group.pid))
print(group.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        group = int(owner.stdout.readline())
    assert places.take() is None
    wait_for_end(group)
    held(places).release()


def test_a_process_that_was_forked_does_not_keep_a_place(tmp_path: Path) -> None:
    places, others = Places(tmp_path, "d", 1), Places(tmp_path, "d", 1)
    place = held(places)
    (read, write), (stop, go) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(write, b"up")
        select.select([stop], [], [], 60)  # it holds the pipe of xdist, which would wait for a child that stays
        os._exit(0)
    os.read(read, 2)
    drop(place)
    held(others).release()
    os.write(go, b"!")
    os.waitpid(child, 0)
    for descriptor in (read, write, stop, go):
        os.close(descriptor)


def test_a_file_with_half_a_record_names_no_group(tmp_path: Path) -> None:
    (tmp_path / "d.0").write_bytes(b'{"group": 1, "gro')
    held(Places(tmp_path, "d", 1)).release()


def test_a_place_that_is_taken_needs_no_more_room(sleeper: Sleeper, small_disk: Path) -> None:
    places = Places(small_disk, "d", 1)
    place = held(places)
    filler = fill(small_disk)
    place.hand_to(sleeper.pid, sleeper.born)
    place.release()
    assert places.take() is None
    sleeper.end()
    again = held(places)
    again.returned()
    again.release()
    with pytest.raises(OSError, match="No space left"):
        Places(small_disk, "another", 1).take()
    filler.unlink()
    held(Places(small_disk, "another", 1)).release()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists deleted files that are open")
@pytest.mark.parametrize("deleted", ["file", "folder"])
def test_a_place_whose_file_was_deleted_is_not_free_while_a_process_holds_it(tmp_path: Path, deleted: str) -> None:
    folder = tmp_path / "places"
    places, other = Places(folder, "d", 1), holder(folder)
    if deleted == "file":
        (folder / "d.0").unlink()
    else:
        shutil.rmtree(folder)
    assert places.take() is None
    assert places.take() is None
    kill(other)
    held(places).release()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists deleted files that are open")
def test_a_place_whose_file_was_deleted_is_not_free_while_its_performer_has_the_descriptor(tmp_path: Path, sleeper: Sleeper) -> None:
    places, others = Places(tmp_path, "d", 1), Places(tmp_path, "d", 1)
    place = held(places)
    child = subprocess.Popen(SLEEPER, stdin=subprocess.PIPE, pass_fds=[place.hand_to(sleeper.pid, sleeper.born)])
    (tmp_path / "d.0").unlink()
    drop(place)
    sleeper.end()
    assert others.take() is None
    with child:
        child.kill()
    held(others).release()


def test_a_file_that_is_deleted_before_its_lock_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = Places(tmp_path, "d", 1), Places(tmp_path, "d", 1)
    held(quick).release()

    def open_slowly(what: object) -> int:
        descriptor = Places._open(slow, what)
        if what == 0:
            (tmp_path / "d.0").unlink()
        return descriptor

    with monkeypatch.context() as patched:
        patched.setattr(slow, "_open", open_slowly)
        assert slow.take() is None
    place = held(quick)
    assert slow.take() is None
    place.release()
    held(slow).release()


def test_who_waits_is_still_seen_when_its_file_was_deleted(tmp_path: Path) -> None:
    busy, waiting = Places(tmp_path, "d", 1), Places(tmp_path, "d", 1)
    place = held(busy)
    for begin in (0.0, 2 * TURN_S):
        assert not busy.is_turn_over(begin)
        assert waiting.take() is None
        assert busy.is_turn_over(begin + TURN_S)
        (tmp_path / "d.waiting").unlink()
    place.release()


def test_a_device_that_drains_gives_no_place_to_new_attempts_in_any_process(tmp_path: Path) -> None:
    one, other = Places(tmp_path, "d", 2), Places(tmp_path, "d", 0)
    other.drain("ada@admin", 12.0)
    drain, again = one.draining(), one.take(is_new=False)
    assert drain
    assert (drain.by, drain.at, one.take()) == ("ada@admin", 12.0, None)
    assert again
    again.release()
    other.resume()
    other.resume()
    assert one.draining() is None
    place = one.take()
    assert place
    place.release()
