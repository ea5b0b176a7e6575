"""Keyboard input: messages, secrets, and answers that only this process may know."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import select
import sys
import termios
import threading
from collections.abc import Iterator

from asterism.cli.output import put
from asterism.cli.run_access import actor
from asterism.flows.conversation import Conversation
from asterism.flows.registry import agent_class
from asterism.flows.secret_store import process_secret_store
from asterism.runtime.ports.store import InquiryRow
from asterism.runtime.runtime import Runtime
from asterism.views.text.proposals import subject_of
from asterism.views.words import plain

MAX_SHOWN = 2000
"""Characters of a question that are printed at most."""


async def ask_secret(runtime: Runtime, root: str) -> bool:
    """Ask at the terminal for the secret that a run waits for, and store it in the memory of this process.

    Once this process holds a secret of a conversation, it asks every further question of that conversation, too:
    another process would not have the secret.

    Returns:
        False where no such question is open, there is no terminal, or the person leaves it open (Ctrl-D).
    """
    inquiries = await runtime.store.inquiries(root=root)
    asked = next((row for row in inquiries if not row.verbs or process_secret_store().of(row.run_id)), None)
    if asked is None or not (sys.stdin and sys.stdin.isatty()):
        return False
    put(plain(asked.prompt, MAX_SHOWN))
    with terminal():
        line = await typed_answer(asked)
    if line is None:
        return False
    row = await runtime.store.run(asked.run_id)
    agent = agent_class(subject_of(asked)["agent"])
    await Conversation(agent, runtime=runtime, run_id=row.run_id, user=actor(), tenant=row.tenant).put(runtime, line, {})
    return True


async def typed_answer(asked: InquiryRow | None) -> str | None:
    """Return the next message that the person types; None at the end of the input.

    Args:
        asked: the open question, if there is one.
    """
    if asked is not None and "approve" in asked.verbs:
        _discard_typed_ahead()
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


def _discard_typed_ahead() -> None:
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
