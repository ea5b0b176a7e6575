"""What a person types: lines, secrets that nobody sees, and answers that only this process may know."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import select
import sys
import termios
import threading
from collections.abc import Iterator

from asterism.cli.finding import actor
from asterism.cli.output import put
from asterism.cli.stories.proposals import subject_of
from asterism.flows.conversation import Conversation
from asterism.flows.registry import agent_class
from asterism.flows.secret_store import process_vault
from asterism.runtime.ports.store import InquiryRow
from asterism.runtime.runtime import Runtime
from asterism.views.words import plain

MAX_SHOWN = 2000
"""Characters of a question that are printed."""


async def confided(runtime: Runtime, root: str) -> bool:
    """Ask at the terminal for the secret that a run waits for, and put it where only this process finds it.

    So is all else that a conversation asks once it has told this process a secret: in another process it would be forgotten.

    Returns:
        False where nothing such is asked, this is no terminal, or the person leaves it open (Ctrl-D).
    """
    open_ones = await runtime.store.inquiries(root=root)
    asked = next((row for row in open_ones if not row.verbs or process_vault().of(row.run_id)), None)
    if asked is None or not (sys.stdin and sys.stdin.isatty()):
        return False
    put(plain(asked.prompt, MAX_SHOWN))
    with terminal():
        line = await heard(asked)
    if line is None:
        return False
    row = await runtime.store.run(asked.run_id)
    agent = agent_class(subject_of(asked)["agent"])
    await Conversation(agent, runtime=runtime, run_id=row.run_id, user=actor(), tenant=row.tenant).put(runtime, line, {})
    return True


async def heard(asked: InquiryRow | None) -> str | None:
    """What the person says next, to what is asked now; None at the end of the input."""
    if asked is not None and "approve" in asked.verbs:
        _forget_typed_ahead()
    return await _line(secret=asked is not None and not asked.verbs)


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """Leaves the terminal as it was, whatever was being typed when the person left."""
    if not sys.stdin.isatty():
        yield
        return
    was = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, was)


def _forget_typed_ahead() -> None:
    """Drop the lines that were typed before what is to be approved was shown; those of a pipe are meant in their order."""
    if sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        put("(what was typed before this was shown is no answer to it)")


async def _line(*, secret: bool) -> str | None:
    """What the person types, several lines where each but the last ends with a backslash; None at the end of the input."""
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
    """One line, or None at the end; read by a thread that nobody waits for, so that Ctrl-C leaves at once."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str | None] = loop.create_future()

    def tell(line: str | None) -> None:
        if not typed.done():
            typed.set_result(line)

    def read() -> None:
        line = _read(prompt, secret=secret)
        with contextlib.suppress(RuntimeError):  # nobody listens any more
            loop.call_soon_threadsafe(tell, line)

    threading.Thread(target=read, daemon=True).start()
    return await typed


def _read(prompt: str, *, secret: bool) -> str | None:
    """One line, or None at the end. A secret is not shown while it is typed, and is in no history of the terminal."""
    if not sys.stdin.isatty():  # past Python's own buffer, whose lock a reader would hold when the program ends
        with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as raw:
            line = raw.readline()
        return line.decode(errors="replace").rstrip("\r\n") if line else None
    try:
        return getpass.getpass(prompt) if secret else input(prompt)
    except EOFError:
        return None
