"""Files of runs are for their user only; existing files keep their mode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from asterism.engine.runtime.private_files import make_folder, opener, opener_within


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_new_folders_are_private_and_existing_ones_keep_their_mode(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    make_folder(there / "new" / "newer")
    make_folder(there)
    assert [mode(it) for it in (there, there / "new", there / "new" / "newer")] == [0o755, 0o700, 0o700]


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        make_folder(tmp_path / "file" / "below")


def test_a_new_file_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    for name in ("new", "there"):
        if name == "there":
            (tmp_path / name).touch(mode=0o644)
        with open(tmp_path / name, "w", opener=opener) as file:
            file.write("x")
    assert (mode(tmp_path / "new"), mode(tmp_path / "there")) == (0o600, 0o644)


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o755, 0o644), (0o750, 0o640)])
def test_a_file_next_to_the_database_is_as_private_as_its_folder(tmp_path: Path, folder: int, file: int) -> None:
    tmp_path.chmod(folder)
    os.close(opener_within(str(tmp_path / "new"), os.O_CREAT | os.O_WRONLY))
    assert mode(tmp_path / "new") == file
