from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from asterism import SkillContext
from examples.folder import skills


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four files (one empty, two alike), two folders (one empty), two links (one dangling)."""
    root = tmp_path / "photos"
    (root / "2024" / "empty").mkdir(parents=True)
    (root / "a.txt").write_text("same")
    (root / "2024" / "b c.txt").write_text("same")
    (root / "2024" / "naïve\n.bin").write_bytes(bytes(range(256)) * 10_000)
    (root / "none").touch()
    (root / "link").symlink_to("2024//b c.txt")
    (root / "2024" / "away").symlink_to("/nowhere/at/all/")
    return root


def state(root: Path) -> list[tuple[str, int, int]]:
    return sorted((str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in root.rglob("*"))


def repack(archive: str, change: Any) -> None:
    """Rewrite an archive with what ``change(member, content)`` returns for each member: a pair, or None to drop it."""
    with tarfile.open(archive) as old:
        pairs = [(member, stream.read() if member.isfile() and (stream := old.extractfile(member)) else b"") for member in old]
    with tarfile.open(archive, "w:gz") as new:
        for member, content in filter(None, (change(*pair) for pair in pairs)):
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))


def test_files_folders_and_links_are_counted_and_links_are_not_followed(folder: Path) -> None:
    counted = skills.count_files(str(folder))
    assert counted == {
        "folder": str(folder), "files": 4, "folders": 2, "links": 2, "others": 0, "unreadable": 0, "bytes": 2_560_008,
    }  # fmt: skip


def test_empty_and_duplicate_files_are_found_and_an_empty_folder_is_fine(context: SkillContext, folder: Path, tmp_path: Path) -> None:
    checked = skills.check_files(context, str(folder))
    assert (checked["files"], checked["unreadable"], checked["empty"], checked["duplicates"]) == (4, 0, 1, 1)
    assert len(checked["problems"]) == 2
    bare = tmp_path / "bare"
    bare.mkdir()
    assert skills.check_files(context, str(bare))["files"] == 0


def test_two_empty_files_are_empty_and_not_duplicates(context: SkillContext, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).touch()
    checked = skills.check_files(context, str(tmp_path))
    assert (checked["empty"], checked["duplicates"]) == (2, 0)


def test_an_archive_holds_the_whole_folder_and_verifies(context: SkillContext, folder: Path, tmp_path: Path) -> None:
    archived = skills.archive(context, str(folder), str(tmp_path))
    assert archived["archive"] == str(tmp_path / "photos.tar.gz")
    verified = skills.verify(archived["archive"])
    assert verified == {"valid": True, "archive": archived["archive"], "files": 4, "problems": []}
    with tarfile.open(archived["archive"]) as tar:
        assert tar.getmember("link").linkname == "2024//b c.txt"
        assert tar.getmember("2024/away").linkname == "/nowhere/at/all/"
        assert tar.getmember("2024/empty").isdir()


def test_nothing_is_written_inside_the_folder(context: SkillContext, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(folder)
    skills.count_files(str(folder))
    skills.check_files(context, str(folder))
    skills.archive(context, str(folder), str(tmp_path))
    for target in (str(folder), str(folder / "2024" / "x.tar.gz"), f"{folder}/new/x.tgz"):
        with pytest.raises(ValueError, match="inside the folder"):
            skills.archive(context, str(folder), target)
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match="inside the folder"):
        skills.archive(context, ".")
    way_in = tmp_path / "way-in"
    way_in.symlink_to(folder)
    with pytest.raises(ValueError, match="inside the folder"):
        skills.archive(context, str(folder), str(way_in / "x.tar.gz"))
    assert state(folder) == before


def test_the_same_folder_gives_the_same_bytes_and_no_leftovers(context: SkillContext, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "photos.tgz"
    skills.archive(context, str(folder), str(target))
    once = target.read_bytes()
    skills.archive(context, str(folder), str(target))
    assert target.read_bytes() == once
    assert sorted(path.name for path in target.parent.iterdir()) == ["photos.tgz", "photos.tgz.manifest.json"]


def test_somebody_elses_file_is_never_replaced(context: SkillContext, folder: Path, tmp_path: Path) -> None:
    for name, refusal in (("photos.tar.gz", "was not made here"), ("notes.txt", "neither a folder nor")):
        theirs = tmp_path / name
        theirs.write_text("theirs")
        with pytest.raises(ValueError, match=refusal):
            skills.archive(context, str(folder), str(theirs))
        assert theirs.read_text() == "theirs"


@pytest.mark.parametrize(
    ("problem", "change"),
    [
        ("different: a.txt", lambda member, content: (member, b"SAME" if member.name == "a.txt" else content)),
        ("missing: none", lambda member, content: None if member.name == "none" else (member, content)),
        ("different: link", lambda member, content: (member.replace(linkname="a.txt") if member.name == "link" else member, content)),
        ("unexpected: b.txt", lambda member, content: (member.replace(name="b.txt") if member.name == "a.txt" else member, content)),
        ("twice: a.txt", lambda member, content: (member.replace(name="a.txt") if member.name == "none" else member, content)),
    ],
)
def test_an_archive_that_differs_from_its_manifest_is_not_valid(
    context: SkillContext, folder: Path, tmp_path: Path, problem: str, change: Any
) -> None:
    archive = skills.archive(context, str(folder), str(tmp_path))["archive"]
    repack(archive, change)
    verified = skills.verify(archive)
    assert not verified["valid"]
    assert problem in verified["problems"]


def test_a_damaged_archive_is_not_valid_wherever_it_is_damaged(context: SkillContext, folder: Path, tmp_path: Path) -> None:
    archive = Path(skills.archive(context, str(folder), str(tmp_path))["archive"])
    whole = archive.read_bytes()
    damaged = [whole[: len(whole) * part // 10] for part in range(10)]
    damaged += [whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:], gzip.compress(b"not a tar"), b"not gzip"]
    for content in damaged:
        archive.write_bytes(content)
        assert not skills.verify(str(archive))["valid"]


def test_what_cannot_be_read_is_told_and_makes_the_archive_invalid(
    context: SkillContext, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def refuse(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.name == "a.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    assert skills.check_files(context, str(folder))["unreadable"] == 1
    archived = skills.archive(context, str(folder), str(tmp_path))
    assert archived["left_out"] == 1
    verified = skills.verify(archived["archive"])
    assert not verified["valid"]
    assert verified["problems"] == ["left out: a.txt (Permission denied)"]


def test_a_folder_that_cannot_be_listed_is_told(
    context: SkillContext, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "2024":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert skills.count_files(str(folder))["unreadable"] == 1
    archived = skills.archive(context, str(folder), str(tmp_path))
    assert archived["problems"] == ["left out: 2024 (Permission denied)"]
    assert not skills.verify(archived["archive"])["valid"]


def test_pipes_are_told_and_not_read(context: SkillContext, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert skills.count_files(str(folder))["others"] == 1
    assert skills.check_files(context, str(folder))["files"] == 4


def test_names_that_are_not_text_survive_and_can_be_told_in_json(context: SkillContext, folder: Path, tmp_path: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9")).touch()
    checked = skills.check_files(context, str(folder))
    json.dumps(checked, ensure_ascii=False).encode()
    assert "empty: caf\\xe9" in checked["problems"]
    assert skills.verify(skills.archive(context, str(folder), str(tmp_path))["archive"])["valid"]


def test_a_file_that_shrinks_while_it_is_packed_fails_by_name_and_leaves_no_archive(folder: Path, tmp_path: Path) -> None:
    def shrink(fraction: float | None, message: str) -> None:
        if message.startswith("packing"):
            (folder / "a.txt").write_text("")

    with pytest.raises(ValueError, match=r"a\.txt"):
        skills.archive(SkillContext(sink=shrink), str(folder), str(tmp_path))
    assert not (tmp_path / "photos.tar.gz").exists()


def test_progress_only_grows_and_is_reported_a_bounded_number_of_times(
    context: SkillContext, reported: list[float], tmp_path: Path
) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(500):
        (many / f"{number}.txt").write_text("x")
    skills.archive(context, str(many), str(tmp_path))
    assert reported == sorted(reported)
    assert len(reported) <= 202


def test_long_lists_of_problems_are_cut_with_a_note(context: SkillContext, tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    problems = skills.check_files(context, str(tmp_path))["problems"]
    assert len(problems) == 21
    assert problems[-1] == "and 10 more"


@pytest.mark.parametrize(
    ("name", "words"),
    [("", "no folder was named"), ("nothing-here", "there is no folder"), ("file", "is a file"), ("loop", "cannot be read")],
)
def test_a_bad_folder_is_refused_in_words(
    context: SkillContext, tmp_path: Path, name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("loop").symlink_to("loop")
    with pytest.raises(ValueError, match=words):
        skills.count_files(name)
    with pytest.raises(ValueError, match=words):
        skills.archive(context, name)


def test_verifying_needs_an_archive_and_its_manifest(context: SkillContext, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no"):
        skills.verify(str(tmp_path / "photos.tar.gz"))
    archived = skills.archive(context, str(folder), str(tmp_path))
    Path(archived["manifest"]).unlink()
    with pytest.raises(ValueError, match="manifest"):
        skills.verify(archived["archive"])


def test_the_fleet_names_only_skills_that_are_there() -> None:
    fleet = tomllib.loads(Path(skills.__file__).with_name("fleet.toml").read_text(encoding="utf-8"))
    assert [device["id"] for device in fleet["devices"]] == ["desk", "nas", "box"]
    for device in fleet["devices"]:
        for named in device["skills"]:
            assert callable(getattr(skills, named.removeprefix("skills.py:")))
