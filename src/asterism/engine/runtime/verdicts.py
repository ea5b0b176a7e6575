"""Verdicts of runs on commands, as their senders read them."""

from __future__ import annotations

import msgspec

from asterism.engine.control.run_control import Answered
from asterism.engine.kernel.refusal import CodedRefusal, refusal_of
from asterism.engine.ports.store import ACCEPTED, InboxRow
from asterism.errors import Refused


def accepted(verdict: str) -> str:
    """Return a verdict that is ``accepted``.

    Raises:
        CodedRefusal: the run has refused edits; ``refusal`` has its code, ``index`` the place of the edit in its batch.
        Refused: the run has refused another command.
    """
    if verdict == ACCEPTED:
        return verdict
    if refusal := refusal_of(verdict):
        raise CodedRefusal(refusal.code, refusal.what, refusal.why, refusal.index)
    raise Refused(verdict)


def no_verdict(run_id: str, timeout_s: float) -> str:
    """Return the error text for a verdict that did not come in time."""
    return f"run {run_id} has not processed it within {timeout_s:g} s; its owner still may: `asterism show {run_id}`"


def verb_of(answer: InboxRow) -> str:
    """Return the verb of an answer in an inbox."""
    try:
        return msgspec.json.decode(answer.body, type=Answered).verb
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return "something unreadable"
