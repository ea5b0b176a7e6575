"""Exit codes."""

from __future__ import annotations

FINISHED, FAILED, UNUSABLE, WAITING, INTERRUPTED = 0, 1, 2, 3, 130
"""``UNUSABLE``: the command, the plan or the fleet is invalid; nothing was written."""
