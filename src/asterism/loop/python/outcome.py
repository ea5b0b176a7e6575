"""Results: of a supervising function, of a loop, and of a single transition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from asterism.engine.ports.store import InquiryRow
from asterism.loop.machine.model import Finding, State
from asterism.loop.machine.view import LoopView

Supervising = Callable[[LoopView], Awaitable[Any]]
"""A function of the supervisor: plan, reflect, synthesize or critique."""


class Metered(msgspec.Struct, frozen=True):
    """The value of a function that used a model, and the tokens that it used."""

    value: Any
    tokens: int = 0


class LoopResult(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run when it is no longer driven.

    Attributes:
        run_id: id of the run.
        state: state of its machine.
        outcome: ``finished``, ``failed`` or ``cancelled``; empty while it waits or is paused.
        answer: the final answer; None unless the state is COMPLETE.
        reason: reason of a FAILED or CANCELLED state, in words.
        findings: the finding of each step.
        waiting: its open questions, including those of its children.
    """

    run_id: str = msgspec.field(name="run")
    state: State
    outcome: str
    answer: Any
    reason: str
    findings: tuple[Finding, ...]
    waiting: tuple[InquiryRow, ...] = ()


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One change of state.

    Attributes:
        run_id, seq, at: the journal entry, and its time in seconds since the epoch.
        source, target: the states.
        cause: kind of the event (see ``docs/machines.md``).
    """

    run_id: str = msgspec.field(name="run")
    seq: int
    at: float
    source: State
    target: State
    cause: str
