"""The blocks of a page, and how each is run.

A page is one session in a folder of its own, with a copy of the examples. Its blocks are, in order:

- a block after a line that ends with a file name in backticks and a colon: it is saved as that file;
- a ``console`` block: each line after ``$`` is a command, a line after ``>`` is typed into it where a terminal shows it,
  and the other lines are what it prints; a command without any must succeed or print nothing. Dates, times, durations,
  run ids and processes may differ. ``…`` stands for any text, on a line of its own for any lines. A command that ends
  with ``&`` runs until the end of the page; the lines shown are the first ones that it prints;
- a ``python`` block: a program, which prints the ``text`` block that follows, if one does;
- a ``json``, ``toml`` or ``yaml`` block: it can be read.

``<!-- not run: REASON -->`` above a block exempts it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
"""Seconds that one command may take; a schedule of each minute is waited for."""
PORTS = ("8642", "8700")
"""Ports of pages; each session replaces them by free ones."""

_BLOCK = re.compile(
    r"^(?P<fence>```+)(?P<language>[\w{}-]*)\n(?P<fenced>.*?)^(?P=fence)$"
    r"|(?<=\n\n)(?P<indented>(?: {4}[^\n]*\n)(?:(?: {4}[^\n]*)?\n)*)",
    re.DOTALL | re.MULTILINE,
)
_SAVED = re.compile(r"`([\w./-]+\.\w+)`[^`]*:$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_RUN_ID = r"(?:\d{6}|\b[a-z]+-\d{8}T\d{4})-[0-9a-f]{8}"
_VARYING = re.compile(
    rf"(?P<id>{_RUN_ID})|(?P<time>\d\d:\d\d:\d\d)|(?P<duration>\d+\.\d+ ?s\b)|(?P<date>\d{{4}}-\d\d-\d\d\b(?: \d\d:\d\d(?::\d\d)?\b)?)"
    r"|(?P<process>process \d+ on \S+)|(?P<any>…)"
)

_ACCEPTED = {
    "id": _RUN_ID,
    "time": r"\d\d:\d\d:\d\d",
    "date": r"\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?)?",
    "duration": r"\d+\.\d+ ?s",
    "process": r"process \d+ on \S+",
    "any": ".*",
}
"""What the output may have where the page has such a text."""


@dataclass(frozen=True)
class Block:
    """One block of a page: its line, its language (``console`` if indented), its text, and the line before it."""

    line: int
    language: str
    text: str
    before: str
    start: int

    @property
    def saved_as(self) -> str:
        """Return the name of the file to save; empty for none."""
        found = _SAVED.search(self.before)
        return found[1] if found and self.language != "console" else ""

    @property
    def not_run(self) -> str:
        """Return the reason for which it is not run; empty if it is."""
        found = _NOT_RUN.match(self.before)
        return found[1] if found else ""

    @property
    def runs(self) -> bool:
        """Return True if there is something to run, to save, to read, or to compare with what a program prints."""
        return bool(self.saved_as or self.language not in ("console", "") or commands_of(self.text))


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    found = []
    for match in _BLOCK.finditer(page):
        above = page[: match.start()].rstrip().rpartition("\n")[2]
        indented = match["indented"]
        if indented is not None and (above.lstrip().startswith(("- ", "* ")) or re.match(r"\s{2,}\S", above)):
            continue  # a paragraph of a list
        text = match["fenced"] if indented is None else re.sub(r"^ {4}", "", indented.rstrip(), flags=re.MULTILINE)
        language = match["language"] if indented is None else "console"
        if not language.startswith("{"):
            start = match.start("fenced") if indented is None else match.start("indented")
            found.append(Block(page[: match.start()].count("\n") + 1, language, text, above, start))
    return found


@dataclass
class Command:
    """One command of a console block: what is typed, each line after how many lines of output, and the output shown."""

    text: str
    typed: list[tuple[int, str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def session(self, output: list[str]) -> list[str]:
        """Return the lines of the block if the command prints this output."""
        lines = self.text.split("\n")
        for at in range(max([len(output), *(at for at, _ in self.typed)]) + 1):
            lines += [f"> {typed}" for after, typed in self.typed if after == at] + output[at : at + 1]
        return [f"$ {lines[0]}", *lines[1:]]


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return str(listening.getsockname()[1])


def commands_of(text: str) -> list[Command]:
    """Return the commands of a console block."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif found and found[-1].text.endswith("\\"):
            found[-1].text += f"\n{line}"
        elif found and line.startswith("> "):
            found[-1].typed.append((len(found[-1].shown), line[2:]))
        elif found:
            found[-1].shown.append(line)
    return found


def pattern_of(shown: list[str]) -> re.Pattern[str]:
    """Return the pattern of an output that is shown."""
    parts = []
    for line in "\n".join(shown).rstrip().splitlines():
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
            continue
        at, pattern = 0, ""
        for match in _VARYING.finditer(line):
            pattern += re.escape(line[at : match.start()]) + _ACCEPTED[str(match.lastgroup)]
            at = match.end()
        parts.append(f"{pattern}{re.escape(line[at:].rstrip())} *\n")
    return re.compile("".join(parts))


class Session:
    """The session of a page in a folder.

    Args:
        folder: the folder, which is also the home folder.
        python: the Python of an environment. With another one than that of the tests, the session is bare: without the
            examples and the settings of the tests.
    """

    def __init__(self, folder: Path, python: Path = Path(sys.executable)) -> None:
        self._folder = folder
        self._python = python
        self._ids: dict[str, str] = {}
        self._ports = {port: _free_port() for port in PORTS}
        self._exit_code = 0
        bare = python != Path(sys.executable)
        inherited = {name: value for name, value in os.environ.items() if not (bare and name.startswith(("ASTERISM", "PYTHON")))}
        if not bare:
            shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
            inherited["ASTERISM_DATABASE"] = str(folder / "runs.db")
        self._environment = {
            **inherited,
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "COLUMNS": "80",
            "HOME": str(folder),
            "LOGNAME": "alice",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self._background: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """End the commands in the background."""
        for process in self._background:
            process.terminate()
            process.communicate(timeout=TIMEOUT_S)

    def run(self, block: Block, shown: Block | None) -> list[str]:
        """Run a block, ``shown`` being the text block that follows; return what differs from the page."""
        if block.saved_as:
            path = self._folder / block.saved_as
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._as_run(block.text), encoding="utf-8")
            return []
        match block.language:
            case "console":
                return [
                    f"$ {command.text}\n{output}" for command in commands_of(block.text) if (output := self.output_of(command)) is not None
                ]
            case "python":
                (self._folder / "program.py").write_text(self._as_run(block.text), encoding="utf-8")
                output, _ = self._do([str(self._python), "-W", "error", "program.py"])
                same = pattern_of(shown.text.splitlines()).fullmatch(output) if shown else self._exit_code == 0
                return [] if same else [output]
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "yaml":
                yaml.safe_load(block.text)
            case _:
                pass  # the output of a program
        return []

    def output_of(self, command: Command) -> str | None:
        """Run a command of a page; return its output if it differs from the page."""
        text = self._as_run(command.text)
        typed = "".join(f"{line}\n" for _, line in command.typed)
        if text.endswith(" &"):
            output, lines = self._begin(text.removesuffix(" &"), len(command.shown))
        else:
            output, lines = self._do(["bash", "-c", f"(exit {self._exit_code}); {text}"], typed)
        shown = "\n".join(command.shown)
        self._ids |= dict(zip(dict.fromkeys(re.findall(_RUN_ID, shown)), dict.fromkeys(re.findall(_RUN_ID, output)), strict=False))
        same = pattern_of(command.shown).fullmatch(self._as_page(output)) if command.shown else self._exit_code == 0 or not output
        return None if same else "\n".join(map(self._as_page, lines))

    def _as_run(self, text: str) -> str:
        """Return a text of the page with the ids and ports of this session."""
        for of_page, of_run in {**self._ports, **self._ids}.items():
            text = text.replace(of_page, of_run)
        return text

    def _as_page(self, output: str) -> str:
        for of_page, of_run in {**self._ports, **self._ids}.items():
            output = output.replace(of_run, of_page)
        return output.replace(f"{self._folder}/", "~/")

    def _begin(self, text: str, count: int) -> tuple[str, list[str]]:
        """Run a command in the background; return its first lines."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {text}"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._background.append(process)
        timer = threading.Timer(TIMEOUT_S, process.kill)  # a command that prints less than the page shows
        timer.start()
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip() for _ in range(count)]
        timer.cancel()
        return "".join(f"{line}\n" for line in lines), lines

    def _do(self, command: list[str], typed: str = "") -> tuple[str, list[str]]:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        self._exit_code = done.returncode
        lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
        return "".join(f"{line}\n" for line in lines), lines
