"""The list of runs, as ``asterism runs`` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from asterism.views.text.history import MOMENT
from asterism.views.text.rows import RunSummary
from asterism.views.text.styled_line import StyledLine, TimeFormat
from asterism.views.words import plain


def status_words(row: RunSummary) -> tuple[str, str]:
    """Return the status of a run in words, and their style."""
    if row.status == "ended":
        return row.outcome, {"finished": "green", "failed": "red"}.get(row.outcome, "yellow")
    if row.owner:
        return f"{'paused' if row.status == 'paused' else 'running'} in {plain(row.owner)}", "cyan"
    return {"paused": ("paused", "yellow"), "waiting": ("waiting for a person", "magenta")}.get(row.status, ("interrupted", "yellow"))


def run_lines(rows: Sequence[RunSummary], local_time: TimeFormat) -> list[StyledLine]:
    """Return a line for each run, with its status, creation time and title."""
    states = [status_words(row) for row in rows]
    width = max((len(words) for words, _ in states), default=0)
    lines = []
    for row, (words, style) in zip(rows, states, strict=True):
        line = StyledLine(f"{plain(row.run_id)}  ").append(f"{words:<{width}}", style)
        line.append(f"  {local_time(row.created_at, MOMENT)}  ", "dim").append(plain(row.title, 100))
        session = (
            f"  (session {plain(row.session)})" if row.session not in ("", row.run_id) and "/" not in row.session and not row.parent else ""
        )
        lines.append(line.append(session, "dim"))
    return lines
