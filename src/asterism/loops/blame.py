"""What user code has raised: its words, and its line."""

from __future__ import annotations

import logging
import traceback

from asterism.devices.source import line_of
from asterism.errors import AsterismError
from asterism.kernel.data import error_text

log = logging.getLogger("asterism.loops")


def blamed(error: Exception, effect: str) -> str:
    """What user code has raised, in words with its line; the trace is an INFO line of the log."""
    line = "" if isinstance(error, AsterismError) else line_of(error)
    if line:
        log.info("%s failed\n%s", effect, "".join(traceback.format_exception(error)))
    return error_text(error) + (f" ({line})" if line else "")
