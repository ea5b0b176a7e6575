"""The reasons behind one part of a run, as ``asterism why`` prints them: what has happened to it, and why."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from asterism.views.text.styled_line import DAYTIME, StyledLine, TimeFormat
from asterism.views.words import plain


class PartEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the life of a part of a run, such as a task.

    Attributes:
        seq, at, actor: number, time and actor of the journal entry.
        generation: generation of the constellation.
        text: the event in words.
        because: the reasons, line by line.
    """

    seq: int
    at: float
    actor: str
    text: str
    generation: int = 0
    because: tuple[str, ...] = ()


def why_lines(task_id: str, status: str, reasons: list[PartEvent], local_time: TimeFormat) -> Iterator[StyledLine]:
    """Yield the lines about a part: its status, and its events with their reasons."""
    yield StyledLine(f"{plain(task_id)}: ", "bold").append(status)
    generation = reasons[0].generation
    for reason in reasons:
        if reason.generation != generation:
            generation = reason.generation
            yield StyledLine(f"  plan {generation + 1} of this run", "bold")
        line = StyledLine(f"  #{reason.seq} {local_time(reason.at, DAYTIME)}  ", "dim").append(reason.text)
        yield line.append(f"  ({plain(reason.actor)})", "dim")
        yield from (StyledLine(f"      {text}") for text in reason.because)
