"""The state machines, each defined as a table, and the coupling between them. Pure.

Everything you need for a machine of your own is exported here (docs/a-machine-of-your-own.md).
``define_machine`` makes a machine from a table, a memory (``RunMemory``) and a ``RunControl``; the
table has a ``row`` for each event that a state accepts.
"""

from __future__ import annotations

from asterism.engine.control.children import ChildEnded, StartChild, child_start
from asterism.engine.control.common_rows import RunControl, cancel_effect, cancels_to, define_machine, fails_to
from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    BatchEnded,
    Cancel,
    CancelEffect,
    EffectCancelled,
    Forked,
    Imported,
    OwnershipAcquired,
    Pause,
    RunMemory,
    TransitionFailed,
    Unpause,
)
from asterism.engine.kernel.machine import (
    Effect,
    EffectResult,
    Event,
    Machine,
    RecoveryPolicy,
    RequestFactory,
    Row,
    StartRequest,
    StepContext,
    mermaid,
    row,
)
from asterism.engine.kernel.phrase import Text

__all__ = [
    "Answered",
    "AskPerson",
    "BatchEnded",
    "Cancel",
    "CancelEffect",
    "ChildEnded",
    "Effect",
    "EffectCancelled",
    "EffectResult",
    "Event",
    "Forked",
    "Imported",
    "Machine",
    "OwnershipAcquired",
    "Pause",
    "RecoveryPolicy",
    "RequestFactory",
    "Row",
    "RunControl",
    "RunMemory",
    "StartChild",
    "StartRequest",
    "StepContext",
    "Text",
    "TransitionFailed",
    "Unpause",
    "cancel_effect",
    "cancels_to",
    "child_start",
    "define_machine",
    "fails_to",
    "mermaid",
    "row",
]
