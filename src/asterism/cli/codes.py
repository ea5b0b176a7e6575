"""Exit codes."""

from __future__ import annotations

from asterism.runtime.ports.store import RunRow

FINISHED, FAILED, UNUSABLE, WAITING, INTERRUPTED = 0, 1, 2, 3, 130
"""``UNUSABLE``: the command, the plan or the fleet; nothing was written."""


def code_of(row: RunRow) -> int:
    """The exit code for a run that is driven no further."""
    if row.status == "ended":
        return {"finished": FINISHED, "cancelled": INTERRUPTED}.get(row.outcome, FAILED)
    return WAITING if row.status == "waiting" else INTERRUPTED
