"""What an approval shows of the files that its arguments name: nothing is written, nothing elsewhere is looked at."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import asterism
from asterism import Constellation
from asterism.app.bootstrap import connect
from asterism.cli.file_previews import MAX_HEAD, previews_of
from asterism.engine.runtime.snapshots import load

TEXT = "one\ttab\nt\x1b[31mwo\n" + "".join(f"{number}\n" for number in range(20))


def send(data: Any = None, file: Any = None, paths: Any = None) -> int:
    return 1


def lines_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **inputs: Any) -> list[str]:
    """Return the lines about the files of an approval that waits in a folder."""
    monkeypatch.chdir(folder)
    params = {"file": "file"} if "file" in inputs else {}
    plan = Constellation("sending", params=params)
    plan.task(send, requires_approval=True, **{**inputs, **({"file": plan.params.file} if params else {})})
    asterism.run(plan, database="runs.db", **({"file": inputs["file"]} if params else {}))

    async def previews() -> dict[str, list[str]]:
        async with connect(Path("runs.db"), create=False) as client:
            return await previews_of(await client.inquiries(), client, Path("runs.db"))

    ((_, lines),) = asyncio.run(previews()).items()
    return lines


def test_a_file_of_the_run_and_a_path_show_their_size_their_type_and_their_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.txt").write_text(TEXT, encoding="utf-8")
    head = ["  | one tab", r"  | t\x1b[31mwo", *(f"  | {number}" for number in range(8)), "  | …"]
    stored = lines_of(tmp_path, monkeypatch, file="report.txt")
    assert stored == [f"report.txt  {len(TEXT)} bytes, text/plain", *head]
    (tmp_path / "runs.db").unlink()
    there = lines_of(tmp_path, monkeypatch, paths=["report.txt", str(tmp_path / "report.txt")])[: len(stored)]
    assert there == [f"{stored[0]}, as it is now", *head]


@pytest.mark.parametrize(
    ("content", "shown"),
    [(b"\x89PNG\r\n\x1a\n\0\0", []), (b"a\0b", []), (b"", []), ("é".encode() * MAX_HEAD, [f"  | {'é' * 160}", "  | …"])],
)
def test_only_text_has_lines(content: bytes, shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "it.bin").write_bytes(content)
    assert lines_of(tmp_path, monkeypatch, paths="it.bin")[1:] == shown


def _fifo(folder: Path) -> str:
    os.mkfifo(folder / "pipe.txt")
    return "pipe.txt"


def _folder(folder: Path) -> str:
    (folder / "a.d").mkdir()
    return "a.d"


def _without_a_suffix(folder: Path) -> str:
    (folder / "word").write_text("secret", encoding="utf-8")
    return "word"


@pytest.mark.parametrize("make", [_fifo, _folder, _without_a_suffix, lambda _: "none.txt", lambda _: "/dev/zero", lambda _: "a.b\0c"])
def test_what_is_no_file_shows_nothing(make: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_of(tmp_path, monkeypatch, paths=make(tmp_path)) == []


def test_the_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number}.txt" for number in range(9)]
    for name in names:
        (tmp_path / name).write_text("x", encoding="utf-8")
    lines = lines_of(tmp_path, monkeypatch, paths=names)
    assert lines[::2] == [*(f"{number}.txt  1 byte, text/plain, as it is now" for number in range(5)), "… and more files"]


@pytest.mark.parametrize("kind", ["ssh", "mcp", "a2a"])
def test_a_path_on_another_computer_is_not_looked_at(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here.txt").write_text("ours", encoding="utf-8")

    async def with_another_kind(*given: Any) -> Any:
        run, policy = await load(*given)
        run.memory.fleet = {name: msgspec.structs.replace(profile, kind=kind) for name, profile in run.memory.fleet.items()}
        return run, policy

    monkeypatch.setattr("asterism.cli.file_previews.load", with_another_kind)
    assert lines_of(tmp_path, monkeypatch, paths="here.txt") == []
