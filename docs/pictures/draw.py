"""Draws the pictures of README and site from real runs in a pseudo-terminal: ``make pictures``.

Each picture is one SVG in this folder. Nothing is typed by hand but the commands and the answers.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Any

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS = 80
LIMIT_S = 120.0
"""Limit of each wait for the screen."""
HERE = Path(__file__).parent


class Terminal:
    """A terminal of 80 columns in which real commands run, one after the other."""

    def __init__(self, folder: Path, rows: int = 60) -> None:
        self._screen = pyte.Screen(COLUMNS, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._size = struct.pack("HHHH", 24, COLUMNS, 0, 0)
        bin_folder = Path(sys.executable).parent
        self._environment = {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "ASTERISM_DATABASE": str(folder / "runs.db"),
            "NO_PAGER": "1",
        }

    def start(self, command: str, folder: Path | None = None) -> Running:
        """Show the command behind a prompt, and start it in a folder, by default that of the pictures."""
        self._stream.feed(f"\x1b[1m$ {command}\x1b[0m\r\n".encode())
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, self._size)
        process = subprocess.Popen(  # noqa: S602 - the commands of this file
            command,
            shell=True,
            cwd=folder or HERE,
            env=self._environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        return Running(self, process, ours)

    def feed(self, written: bytes) -> None:
        """Take what a command has written."""
        self._stream.feed(written)

    def text(self) -> str:
        """Return what stands on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def say(self, words: str) -> None:
        """Write a line of the shell."""
        self._stream.feed(f"{words}\r\n".encode())

    def save(self, path: Path, title: str) -> None:
        """Write the screen as an SVG."""
        console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor")
        lines = len(self.text().splitlines())
        for row in range(lines):
            line = Text()
            for column in range(COLUMNS):
                line.append(*_character(self._screen.buffer[row][column]))
            line.rstrip()
            console.print(line, no_wrap=True, overflow="crop")
        drawn = console.export_svg(title=title, unique_id=path.stem)
        path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))


class Running:
    """A command that runs in the terminal."""

    def __init__(self, terminal: Terminal, process: subprocess.Popen[bytes], keys: int) -> None:
        self._terminal, self._process, self._keys = terminal, process, keys

    def wait_for(self, words: str, times: int = 1) -> None:
        """Read until these words stand on the screen so many times.

        Raises:
            TimeoutError: they do not appear in ``LIMIT_S``.
        """
        end = time.monotonic() + LIMIT_S
        while self._terminal.text().count(words) < times:
            if not self._read(end):
                raise TimeoutError(f"{words!r} does not appear:\n{self._terminal.text()}")

    def type(self, words: str) -> None:
        """Type words and Return."""
        os.write(self._keys, f"{words}\n".encode())

    def end(self) -> None:
        """Read until the command has ended."""
        while self._read(time.monotonic() + LIMIT_S):
            pass
        self._process.wait()
        os.close(self._keys)

    def kill(self) -> None:
        """Kill the command and all that it has started, as ``kill -9`` does."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self.end()

    def _read(self, end: float) -> bool:
        """Pass on what the command writes next; return False at its end, or when time is over."""
        if not select.select([self._keys], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            written = os.read(self._keys, 65536)
        except OSError:  # the other side of a pseudo-terminal is closed
            return False
        self._terminal.feed(written)
        return bool(written)


def _character(cell: Any) -> tuple[str, Style]:
    def color(name: str) -> str | None:
        names = {"default": None, "brown": "yellow", "brightblack": "bright_black"}
        return names.get(name, f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else name)

    return cell.data, Style(color=color(cell.fg), bold=cell.bold, italic=cell.italics, reverse=cell.reverse)


def _draw_live() -> None:
    """Draw a run that is killed, resumed, and approved at the terminal."""
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(Path(folder))
        first = terminal.start("asterism run release.py:release --set version=2.4.0")
        first.wait_for("running")
        first.wait_for("check      here  running")
        first.kill()
        terminal.say("\x1b[31mKilled\x1b[0m")
        second = terminal.start("asterism resume")
        second.wait_for("[a]pprove")
        second.type("a")
        second.end()
        terminal.save(HERE / "live.svg", "a run that is killed, resumed and approved")
        sys.stdout.write(terminal.text() + "\n")


def _draw_remote() -> None:
    """Draw the example on six kinds of device, whose questions are answered at the terminal."""
    answers = {"title": "Tides", "author": '{"author": "Ada"}'}
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(Path(folder), rows=90)
        run = terminal.start("python -m examples.remote", HERE.parents[1])
        for count in range(1, len(answers) + 1):
            run.wait_for("[r]espond", count)
            question = terminal.text().rpartition("question  ")[2]
            run.type("respond")
            run.wait_for("answer, as JSON or text >", count)
            run.type(next(answer for word, answer in answers.items() if word in question))
        run.end()
        terminal.save(HERE / "remote.svg", "one plan on a function, an A2A agent, an MCP server, an SSH host, a loop and a flow agent")
        sys.stdout.write(terminal.text() + "\n")


if __name__ == "__main__":
    _draw_live()
    _draw_remote()
