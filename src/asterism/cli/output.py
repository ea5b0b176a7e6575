"""Standard output and error, and text made safe for a terminal.

When the output is closed or cannot be written, printing does nothing, so that a run continues.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.refusal import verdict_words
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import printable


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Discard further output; the base class would end the process."""
        silence_output()


def console() -> Console:
    """Return a console that treats no text as markup."""
    return _Console(highlight=False, markup=False, emoji=False)


def put(text: str, *, to_error: bool = False) -> None:
    """Print a line; ``to_error`` to standard error, where standard output has only JSON."""
    try:
        print(text, file=sys.stderr if to_error else None, flush=True)
    except OSError:
        silence_output()


def put_line(out: Console, line: StyledLine) -> None:
    """Print a line: cut or wrapped at the edge of a terminal, and whole everywhere else."""
    cut = line.fixed and out.is_terminal  # print ignores what the text itself says about it
    try:
        out.print(rich_text(line), soft_wrap=not out.is_terminal, no_wrap=cut or None, overflow="ellipsis" if cut else None)
    except OSError:
        silence_output()


def put_paged(lines: Iterable[StyledLine], *, paged: bool = True) -> None:
    """Print lines; at a terminal, those that are longer than the screen with ``$PAGER``, else ``less``.

    Args:
        lines: the lines.
        paged: False to use no pager, as where ``NO_PAGER`` is set.
    """
    out = console()
    if not (paged and out.is_terminal and sys.stdin and sys.stdin.isatty()) or out.is_dumb_terminal or os.environ.get("NO_PAGER"):
        for line in lines:
            put_line(out, line)
        return
    with out.capture() as captured:
        for line in lines:
            put_line(out, line)
    text = captured.get()
    if text.count("\n") < out.height or not _paged(text):
        put(text.removesuffix("\n"))


def _paged(text: str) -> bool:
    """Show a text with the pager; return False if there is none."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager
    try:
        subprocess.run(  # noqa: S603 - the pager that the user has chosen
            shlex.split(os.environ.get("PAGER") or "less"),
            input=text.encode(errors="backslashreplace"),
            env={**os.environ, "LESS": os.environ.get("LESS") or "FRX"},
            check=False,
        )
    except (OSError, ValueError):
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def rich_text(line: StyledLine) -> Text:
    """Return a line as rich text."""
    text = Text(style=line.style, no_wrap=line.fixed or None, overflow="ellipsis" if line.fixed else None)
    for part, style in line.parts:
        text.append(part, style or None)
    return text


def complain(text: str) -> None:
    """Print a message to standard error; a log that cannot be written, as on a full disk, is not worth a run."""
    if sys.stderr is None:  # print would use standard output instead
        return
    with contextlib.suppress(OSError):
        print(f"asterism: {message(text)}", file=sys.stderr, flush=True)  # noqa: T201 - for a person


def json_line(record: Record) -> str:
    """Return a journal entry as one line of JSON."""
    body: dict[str, Any] = msgspec.json.decode(record.body)
    shown = {"run": record.run_id, "seq": record.seq, "at": record.at, "actor": record.actor, "kind": record.kind, "state": record.state}
    return json.dumps({**shown, **({"note": verdict_words(record.note)} if record.note else {}), **body})


def silence_output() -> None:
    """Discard all further output: the reader has gone, or it cannot be written."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def message(text: object) -> str:
    """Return an error message that is safe to print to a terminal.

    Control characters are escaped. Every line but the first is indented, so that no line looks like a new message.
    """
    first, *more = str(text).split("\n")
    return "\n".join([printable(first), *(printable(line if line.startswith("  ") else f"  {line}") for line in more)])


def local_time(at: float, form: str) -> str:
    """Return a time in a format of ``strftime``, in the local time zone."""
    try:
        return f"{dt.datetime.fromtimestamp(at, tz=dt.UTC).astimezone():{form}}"
    except (OverflowError, ValueError, OSError):  # one odd row must not hide the others
        return f"invalid time ({at:g} s)"
