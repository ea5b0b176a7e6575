"""Values and commands in words, and foreign text made safe for a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from asterism.engine.control.children import ChildEnded
from asterism.engine.control.run_control import Answered, Cancel, Forked, Imported, OwnershipAcquired, Pause, TransitionFailed, Unpause
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Event, kind_of

MAX_FIELDS = 8
"""Fields of a result that a line shows at most."""
MAX_VALUE = 40
"""Characters of one field at most."""

MAX_LINE = 200
"""Characters of a JSON value that stands in one line at most; a longer text in a list has its length."""
_LIKE_JSON = re.compile(r'["\[{]|-?\d|(true|false|null|NaN|-?Infinity)$')

_MINUTE, _HOUR, _DAY, _AGES = 60.0, 3600.0, 86400.0, 1e12


def plain(text: object, limit: int = 300) -> str:
    """Return text as one line, with control characters and other invisible characters escaped.

    Args:
        text: any value; its ``str`` is shown.
        limit: characters at most; a longer line ends in an ellipsis.
    """
    whole = str(text)
    line = printable(" ".join(whole[: limit * 4].split()))
    return line if len(line) <= limit and len(whole) <= limit * 4 else line[: limit - 1] + "…"


def folded(text: str, limit: int) -> str:
    """Return text as one line; of a longer one its beginning and its length."""
    return plain(text, limit) if len(text) <= limit else f"{plain(text, limit)} {len(text):,} characters"


def printable(line: str) -> str:
    """Return text with every unprintable character escaped."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)


def whole(value: Any) -> list[str]:
    """Return a JSON value in full, as lines: two values that differ never give the same lines.

    A text of one plain line stands as it is. Any other value is JSON, in which line breaks, control characters and
    invisible characters are escaped.
    """
    if isinstance(value, str) and value.isprintable() and value == value.strip(" ") and value and not _LIKE_JSON.match(value):
        return [value]
    text = json.dumps(value, ensure_ascii=False)
    lines = [text] if len(text) <= MAX_LINE else json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    return [printable(line) for line in lines]


def last_line(text: str) -> str:
    """Return the last line that is not blank: the most recent report of a device."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def preview(value: Any, limit: int = 160) -> str:
    """Return a JSON value in one line: the fields of an object as ``name=value``, any other value as JSON."""
    if isinstance(value, Mapping):
        shown = [f"{name}={_field(item)}" for name, item in list(value.items())[:MAX_FIELDS]]
        more = [f"… {len(value) - MAX_FIELDS} more"] if len(value) > MAX_FIELDS else []
        return plain(" ".join([*shown, *more]), limit)
    return plain(json.dumps(value, ensure_ascii=False), limit)


def _field(value: Any) -> str:
    if isinstance(value, float):  # an amount of money has its cents
        return f"{value:.6g}" if abs(value) < 1000 else f"{round(value, 2):.15g}"  # noqa: PLR2004 - six digits
    full = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = plain(full, MAX_VALUE * 10)
    if len(text) <= MAX_VALUE:
        return text
    if len(full) > MAX_LINE:
        return folded(full, MAX_VALUE)
    # The end of a path is its most specific part.
    return f"…{text[1 - MAX_VALUE :]}" if "/" in text and " " not in text else plain(text, MAX_VALUE)


def duration(seconds: float) -> str:
    """Return a length of time in words, with about three digits."""
    if seconds < _MINUTE:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"  # noqa: PLR2004 - two digits are enough
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE):02} s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE):02} min"
    if not seconds < _AGES:
        return f"{seconds:g} s"
    return f"{int(seconds // _DAY)} d {int(seconds % _DAY // _HOUR):02} h"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 task``, ``2 tasks``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def byte_count(number: int) -> str:
    """Return a number of bytes in words: ``12 bytes``, ``3.4 kB``, ``84 MB``."""
    if number < 1000:  # noqa: PLR2004 - from here on, kB
        return count(number, "byte")
    size, unit = (number / 1e3, "kB") if number < 1e6 else (number / 1e6, "MB")  # noqa: PLR2004 - MB
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"  # noqa: PLR2004 - no exponent


def answer_words(entry: Entry, event: Answered) -> str:
    """Return an answer in words."""
    value = f" {preview(event.value)}" if event.value is not None else ""
    return f"{plain(entry.actor)} answers {event.verb}{value}" + (f": {plain(event.reason)}" if event.reason else "")


def ownership_words(event: OwnershipAcquired) -> str:
    """Return in words that a process has acquired ownership of a run."""
    return f"{'owned' if event.epoch == 1 else 'resumed'} by {plain(event.owner)}"


def child_end_words(event: ChildEnded) -> str:
    """Return the end of a child run in words."""
    return f"its run {'was ' if event.outcome == 'cancelled' else ''}{event.outcome}" + (f": {plain(event.reason)}" if event.reason else "")


_PLAIN_WORDS = {
    "answered": "question cancelled",
    "batch_ended": "all that had arrived was handled",
    "child_blocked": "a child run waits for a person, or has continued",
    "child_requested": "a child run was requested",
    "child_signaled": "a child run was informed",
    "conversation_recalled": "the person returned to this conversation",
    "effect_cancelled": "what was cancelled has stopped",
    "handler_notified": "the handler was informed",
}
"""Events without a log line of their own."""


def plain_words(event: Event) -> str:
    """Return in words an event that has no log line of its own."""
    kind = kind_of(event)
    return _PLAIN_WORDS.get(kind, kind.replace("_", " "))


def control_words(entry: Entry) -> str:
    """Return a control event in words: a command, a fork, or a defect."""
    actor, event = plain(entry.actor), entry.event
    match event:
        case Pause(reason=reason) | Cancel(reason=reason):
            return f"{'paused' if isinstance(event, Pause) else 'cancelled'} by {actor}" + (f": {plain(reason)}" if reason else "")
        case Unpause():
            return f"unpaused by {actor}"
        case Forked() | Imported():
            return f"forked from {plain(event.origin)} at entry {event.seq}" if isinstance(event, Forked) else f"imported by {actor}"
        case TransitionFailed(event=broken, reason=reason):
            return f"a defect in Asterism: {plain(broken)} failed: {plain(reason)}"
        case _:
            return kind_of(event)
