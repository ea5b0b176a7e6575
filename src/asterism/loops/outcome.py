"""What comes back: from a supervising function its value, from a loop how its run stands, and one transition of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.model import Finding, State
from asterism.machines.orchestration_loop.view import LoopView
from asterism.runtime.ports.store import InquiryRow, RunRow

Supervising = Callable[[LoopView], Awaitable[Any]]
"""A function of the supervisor: plan, reflect, synthesize or critique."""


class Metered(msgspec.Struct, frozen=True):
    """What a function returns that used a model: the value, and the tokens it took."""

    value: Any
    tokens: int = 0


class LoopResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands when nobody drives it any more.

    Attributes:
        run_id: its id.
        state: of its machine.
        outcome: ``finished``, ``failed`` or ``cancelled``; empty while it waits or is paused.
        answer: the final one; None unless it is COMPLETE.
        reason: why it is FAILED or CANCELLED, in words.
        findings: what every step came to.
        waiting: the questions that it waits for, those of its children included.
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
        run_id, seq, at: which entry of the journal made it, and when, in seconds since the epoch.
        source, target: the states.
        cause: kind of the event (``docs/machines.md`` has them).
    """

    run_id: str = msgspec.field(name="run")
    seq: int
    at: float
    source: State
    target: State
    cause: str


def result_of(row: RunRow, memory: LoopMemory, asked: list[InquiryRow]) -> LoopResult:
    """How a run stands, from its row and its memory."""
    return LoopResult(
        run_id=row.run_id,
        state=State(row.state),
        outcome=row.outcome,
        answer=memory.answer,
        reason=memory.reason,
        findings=tuple(memory.findings),
        waiting=tuple(asked),
    )
