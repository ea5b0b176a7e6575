"""The standard output. When nobody reads it any more, or it cannot be written, it is silent: a run goes on all the same."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.text import Text

from asterism.cli.words import message


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Go on in silence; the base class would end the process."""
        let_go()


def console() -> Console:
    """A console that takes no text for markup."""
    return _Console(highlight=False, markup=False, emoji=False)


def put(text: str) -> None:
    """Print a line."""
    try:
        print(text, flush=True)  # noqa: T201 - the output
    except OSError:
        let_go()


def put_line(out: Console, line: Text) -> None:
    """Print a line of rich text: cut or wrapped as it wants at the edge of a terminal, whole where there is none."""
    try:
        out.print(line, soft_wrap=not out.is_terminal)
    except OSError:
        let_go()


def complain(text: str) -> None:
    """Print a message that is not a part of the output."""
    if sys.stderr is not None:  # print would take the standard output instead
        print(f"asterism: {message(text)}", file=sys.stderr, flush=True)  # noqa: T201 - for a person


def let_go() -> None:
    """Send the rest to nowhere: nobody reads it any more, or it cannot be written."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
