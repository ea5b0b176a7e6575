"""What a constellation agent is deciding about its constellation: nothing, or one thing, which the planner or a person is asked.

    Idle ──► AskedPlanner ──► AskedPerson        a proposal that a person must approve first
      ▲         │  ▲  │            │
      │         ▼  │  ▼            │
      │       Deferred             │             for what a restart called off, or for a higher limit
      └─────────┴──────────────────┘             decided

One thing at a time: so the hold is kept through all of it, and a cancel, an expiry, a fork or a crash has one thing to look at.
"""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.constellation.edits import Refusal
from asterism.machines.constellation_agent.events import Planned


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the planner is asked.

    Attributes:
        batch: ids of the tasks asked about.
        reasks: how many answers about this batch were refused.
        told: why the last one was, in words.
        refusal: the same for programs.
        reason: why there was a restart.
        rejections: why people said no, oldest first.
    """

    batch: tuple[str, ...] = ()
    reasks: int = 0
    feedback: str = ""
    refusal: Refusal | None = None
    reason: str = ""
    rejections: tuple[str, ...] = ()


class NotPlanning(msgspec.Struct, frozen=True, tag=True):
    """Nothing is being decided."""


class Deferred(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The planner is to be asked, and cannot be yet.

    Attributes:
        counted: it was asked this before, and had no budget to answer: the same question, once it may use more.
    """

    request: PlanRequest
    counted: bool = False


class Awaiting(msgspec.Struct, kw_only=True):
    """A question is open.

    Attributes:
        effect_id: id of the question.
        asked_at: seq of the entry that asked the planner; 0 where the plan came with the request.
        moved: ids of tasks that have started or ended since.
        ended_since: one of them has ended.
    """

    request: PlanRequest
    effect_id: str
    asked_at: int = 0
    moved: dict[str, None] = msgspec.field(default_factory=dict)
    ended_since: bool = False


class AwaitingPlanner(Awaiting, kw_only=True, tag=True):
    """The planner is asked."""


class AwaitingApproval(Awaiting, kw_only=True, tag=True):
    """A person is asked to approve what the planner has proposed, or a plan that came with the request.

    Attributes:
        proposed: the proposal.
        subject: what the person is shown.
        expires_at: when the question expires, in seconds since the epoch; 0 for never.
    """

    proposed: Planned
    subject: dict[str, Any]
    expires_at: float = 0.0


PlanningState = NotPlanning | Deferred | AwaitingPlanner | AwaitingApproval
