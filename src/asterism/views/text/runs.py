"""The list of runs, as ``asterism runs`` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from asterism.views.text.rows import RunSummary
from asterism.views.text.styled_line import StyledLine, TimeFormat
from asterism.views.words import plain

MINUTE = "%Y-%m-%d %H:%M"


def status_words(row: RunSummary) -> tuple[str, str]:
    """Return the status of a run in words, and their style."""
    if row.status == "ended":
        return row.outcome, {"finished": "green", "failed": "red"}.get(row.outcome, "yellow")
    if row.owner:
        return f"{'paused' if row.status == 'paused' else 'running'} in {plain(row.owner)}", "cyan"
    return {"paused": ("paused", "yellow"), "waiting": ("waiting for a person", "magenta")}.get(row.status, ("interrupted", "yellow"))


def run_lines(rows: Sequence[RunSummary], local_time: TimeFormat, *, header: bool = False) -> list[StyledLine]:
    """Return a line for each run, with its status, creation time and title, below a header if wanted.

    A terminal cuts them at its edge: the title, which is last, may be long.
    """
    states = [status_words(row) for row in rows]
    width = max((len(words) for words, _ in states), default=0)
    ids = max((len(plain(row.run_id)) for row in rows), default=0)
    lines = [StyledLine(f"{'RUN':<{ids}}  {'STATUS':<{width}}  {'STARTED':<{len(local_time(0.0, MINUTE))}}  TITLE", "dim", fixed=True)]
    lines = lines if header and rows else []
    for row, (words, style) in zip(rows, states, strict=True):
        line = StyledLine(f"{plain(row.run_id):<{ids}}  ", fixed=True).append(f"{words:<{width}}", style)
        line.append(f"  {local_time(row.created_at, MINUTE)}  ", "dim").append(plain(row.title, 100))
        is_round = row.session not in ("", row.run_id) and "/" not in row.session
        line.append(f"  (part of {plain(row.parent)})" if row.parent else f"  (session {plain(row.session)})" if is_round else "", "dim")
        lines.append(line)
    return lines
