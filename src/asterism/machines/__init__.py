"""The state machines, each a table, and the wiring between them. Pure.

A machine of your own imports from here all that it is made of (docs/a-machine-of-your-own.md): ``governed`` makes it of a table,
a memory (``Governed``) and a ``Control``; the table has a ``row`` for each event of each state.
"""

from __future__ import annotations

from asterism.kernel.diagram import mermaid
from asterism.kernel.machine import Effect, Event, Machine, Outcome, Redo, RequestOf, Row, Turn, row
from asterism.kernel.start import StartRequest
from asterism.machines.children import ChildEnded, StartChild, begin_child
from asterism.machines.common_rows import Control, call_off, cancels_to, fails_to, governed
from asterism.machines.control import (
    Answered,
    Ask,
    Broke,
    Cancel,
    Claimed,
    Drained,
    Forked,
    Governed,
    Pause,
    Unpause,
    Withdraw,
    Withdrawn,
    check_verb,
    expiry,
)

__all__ = [
    "Answered",
    "Ask",
    "Broke",
    "Cancel",
    "ChildEnded",
    "Claimed",
    "Control",
    "Drained",
    "Effect",
    "Event",
    "Forked",
    "Governed",
    "Machine",
    "Outcome",
    "Pause",
    "Redo",
    "RequestOf",
    "Row",
    "StartChild",
    "StartRequest",
    "Turn",
    "Unpause",
    "Withdraw",
    "Withdrawn",
    "begin_child",
    "call_off",
    "cancels_to",
    "check_verb",
    "expiry",
    "fails_to",
    "governed",
    "mermaid",
    "row",
]
