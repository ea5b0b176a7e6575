"""The completion scripts, in the shells that are installed."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import asterism
from asterism.cli import main

CASES = [
    ("asterism sho", ["show"]),
    ("asterism fleet ", ["show", "check", "add"]),
    ("asterism show --js", ["--json"]),
    ("asterism show ", ["261122-00000001", "261122-00000002"]),
    ("asterism schema fl", ["fleet"]),
    ("asterism plan pl", ["plan.json"]),
    ("asterism plan --fleet fl", ["fleet.toml"]),
]
BASH = r"""
source ./script
line="$1"
read -ra COMP_WORDS <<< "$line"
[[ "$line" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
$(complete -p asterism | sed 's/.*-F \([^ ]*\) .*/\1/')
[[ ${#COMPREPLY[@]} -eq 0 && "$(complete -p asterism)" == *"-o default"* ]] && COMPREPLY=( $(compgen -f -- "${COMP_WORDS[COMP_CWORD]}") )
printf '%s\n' "${COMPREPLY[@]}"
"""


async def with_runs(database: Path) -> None:
    async with asterism.connect(database) as client:
        for number in (2, 1):
            await asterism.submit(client, "measure", run_id=f"261122-0000000{number}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a plan, a fleet, a program `asterism` and its database of two runs."""
    (tmp_path / "plan.json").touch()
    (tmp_path / "fleet.toml").touch()
    program = tmp_path / "bin" / "asterism"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m asterism.cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    asyncio.run(with_runs(tmp_path / "runs.db"))
    return tmp_path


def script_of(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "TERM": "dumb",
        "ASTERISM_DATABASE": str(folder / "runs.db"),
    }


def completed(shell: list[str], line: str, folder: Path) -> list[str]:
    done = subprocess.run([*shell, line], cwd=folder, env=environment(folder), capture_output=True, text=True, check=True, timeout=60)
    return [word.split("\t")[0].split()[0] for word in done.stdout.splitlines() if word.strip()]


@pytest.mark.parametrize(("line", "words"), CASES, ids=[line for line, _ in CASES])
def test_bash_completes_commands_options_runs_and_files(
    line: str, words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "script").write_text(script_of("bash", capsys), encoding="utf-8")
    assert completed(["bash", "--norc", "-c", BASH, "bash"], line, folder) == words


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
@pytest.mark.parametrize(("line", "words"), CASES, ids=[line for line, _ in CASES])
def test_fish_completes_commands_options_runs_and_files(
    line: str, words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "script").write_text(script_of("fish", capsys), encoding="utf-8")
    found = completed(["fish", "--no-config", "-c", "source ./script; complete -C $argv[1]"], line, folder)
    assert set(words) <= set(found)


def read_until(terminal: int, text: str) -> str:
    """Return the output up to the first one that contains a text; the timeout of the test bounds the wait."""
    found = ""
    while text not in found:
        found += os.read(terminal, 65536).decode()
    return found


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_completes_commands_runs_and_files_at_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "script").write_text(script_of("zsh", capsys), encoding="utf-8")
    ours, its = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"], cwd=folder, env=environment(folder), stdin=its, stdout=its, stderr=its, start_new_session=True
    ) as zsh:
        try:
            os.write(ours, b"autoload -Uz compinit; compinit -u -D; source ./script; print REA''DY\n")
            read_until(ours, "READY")
            for typed, shown in (
                ("asterism sho", "show "),
                ("asterism show ", "261122-0000000"),
                ("asterism plan pl", "plan.json "),
                ("asterism fleet ch", "check "),
            ):
                os.write(ours, f"\x15{typed}\t".encode())
                read_until(ours, shown)
        finally:
            zsh.kill()
            os.close(ours)
            os.close(its)
