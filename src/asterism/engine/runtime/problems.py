"""Problems for which a run is released and tried again: their words, and the delay."""

from __future__ import annotations

from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.data import error_text
from asterism.engine.kernel.journal import JournalMismatch
from asterism.errors import AsterismError

MAX_PROBLEM = 1000
"""Characters of a problem in the row of a run."""
RETRIES = Backoff(1.0, 600.0)
"""Delays before a run with a problem is tried again."""
NO_PROGRESS = "it is due again at once, and nothing changes then: a defect of its machine; cancel it, or upgrade the program"

CRASHED = (
    "the process that drives it ended again and again before it recorded any progress: the work of this run may use up its memory "
    "or end it; look at the last lines of its log, or cancel the run"
)


def retry_delay_s(tries: int) -> float:
    """Return the seconds before the next try of a run that had problems ``tries`` times before."""
    return RETRIES.wait_s(tries + 1)


def problem_of(error: Exception) -> str:
    """Return an error in words, with what to do if that is known."""
    text = str(error) if isinstance(error, AsterismError) else error_text(error)
    if isinstance(error, JournalMismatch) and error.seq > 1:
        text += f"; continue from the entry before with: asterism fork {error.run_id} --at {error.seq - 1}"
    return text[:MAX_PROBLEM]
