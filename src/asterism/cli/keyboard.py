"""Keyboard input: messages, secrets and answers."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import select
import sys
import termios
import threading
from collections.abc import Iterator

from asterism.cli.output import put
from asterism.engine.ports.store import InquiryRow


async def terminal_line(prompt: str, *, secret: bool = False) -> str | None:
    """Return the next line that is typed at the terminal; None at the end of the input (Ctrl-D).

    No thread waits for it, so it can be cancelled: what is typed afterwards belongs to the next reader.

    Args:
        prompt: printed before it.
        secret: whether to hide what is typed.
    """
    loop, keys, typed, ready = asyncio.get_running_loop(), sys.stdin.fileno(), b"", asyncio.Event()
    with terminal():
        if secret:  # before the prompt, which a quick person answers at once
            settings = termios.tcgetattr(keys)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(keys, termios.TCSADRAIN, settings)
        print(prompt, end="", flush=True)  # noqa: T201 - the prompt
        loop.add_reader(keys, ready.set)
        try:
            while not typed.endswith(b"\n"):
                await ready.wait()
                ready.clear()
                if not (part := os.read(keys, 4096)):
                    break
                typed += part
        except OSError:  # the terminal is gone
            return None
        finally:
            loop.remove_reader(keys)
    if secret or not typed.endswith(b"\n"):
        put("")
    return typed.decode(errors="replace").rstrip("\r\n") if typed else None


async def typed_answer(asked: InquiryRow | None) -> str | None:
    """Return the next message that the person types; None at the end of the input.

    Args:
        asked: the open question, if there is one.
    """
    if asked is not None and "approve" in asked.verbs:
        discard_typed_ahead()
    return await _line(secret=asked is not None and not asked.verbs)


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """Restore the settings of the terminal on leaving, even in the middle of an input."""
    if not sys.stdin.isatty():
        yield
        return
    was = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, was)


def discard_typed_ahead() -> None:
    """Discard lines typed before the approval was shown; lines from a pipe are read in order."""
    if sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        put("(lines typed before this question are ignored)")


async def _line(*, secret: bool) -> str | None:
    """Return the lines that the person types, up to one without a backslash at its end; None at the end of the input."""
    lines: list[str] = []
    while True:  # bounded by what is typed
        line = await _typed("> " if sys.stdin.isatty() else "", secret=secret)
        if line is None:
            return "\n".join(lines) if lines else None
        lines.append(line)
        if not line.endswith("\\"):
            return "\n".join(lines)
        lines[-1] = line[:-1]


async def _typed(prompt: str, *, secret: bool) -> str | None:
    """Return one line, or None at the end; a daemon thread reads it, so that Ctrl-C takes effect at once."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str | None] = loop.create_future()

    def deliver(line: str | None) -> None:
        if not typed.done():
            typed.set_result(line)

    def read() -> None:
        line = _read(prompt, secret=secret)
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(deliver, line)

    threading.Thread(target=read, daemon=True).start()
    return await typed


def _read(prompt: str, *, secret: bool) -> str | None:
    """Return one line, or None at the end. A secret is not echoed, and does not enter the input history."""
    if not sys.stdin.isatty():  # bypass Python's buffer: the thread would hold its lock at exit
        with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as raw:
            line = raw.readline()
        return line.decode(errors="replace").rstrip("\r\n") if line else None
    try:
        return getpass.getpass(prompt) if secret else input(prompt)
    except EOFError:
        return None
