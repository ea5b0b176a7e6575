"""The list of runs, as ``asterism runs`` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from asterism.engine.ports.store import RunRow
from asterism.views.text.styled_line import MOMENT, StyledLine, TimeFormat
from asterism.views.words import plain

MINUTE = "%Y-%m-%d %H:%M"


def status_words(row: RunRow) -> tuple[str, str]:
    """Return the status of a run in words, and their style."""
    if row.status == "ended":
        return row.outcome, {"finished": "green", "failed": "red"}.get(row.outcome, "yellow")
    if row.owner:
        return f"{'paused' if row.status == 'paused' else 'running'} in {plain(row.owner)}", "cyan"
    if row.problem:
        return "stuck", "red"
    return {"paused": ("paused", "yellow"), "waiting": ("waiting", "magenta")}.get(row.status, ("interrupted", "yellow"))


def stuck_words(row: RunRow, local_time: TimeFormat) -> str:
    """Return why a run that nobody drives is stuck, and when it is tried again; empty if it is not stuck."""
    if row.status == "ended" or row.owner or not row.problem:
        return ""
    again = "" if row.due_at is None else f", again at {local_time(row.due_at, MOMENT)}"
    return f"{plain(row.problem, 1000)} (tried {row.tries} time{'s' * (row.tries > 1)}{again})"


def run_lines(rows: Sequence[RunRow], local_time: TimeFormat, *, header: bool = False) -> list[StyledLine]:
    """Return a line for each run, with its status, creation time and title, below a header if wanted.

    A stuck run has a second line with the reason.

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
        if stuck := stuck_words(row, local_time):
            lines.append(StyledLine(f"    {stuck}", "red"))
    return lines
