"""What is hidden in a conversation's states: what its handler is doing, what came of ``on_running``, and what its person is asked.

Idle ──► Called ──► Acting         Acting: it has entered the body of ``on_running``, or its way there is being journaled
  ▲         │          │
  └─────────┴──────────┘           it has ended, or was called off

Unasked ──► Asked ──► Closed       closed by an answer, or because a handler is called
"""

from __future__ import annotations

from typing import Literal

import msgspec

from asterism.machines.flow_agent.events import Handler


class Idle(msgspec.Struct, frozen=True, tag=True):
    """No handler runs."""


class _Called(msgspec.Struct, frozen=True, kw_only=True):
    """A handler runs.

    Attributes:
        effect: id of the effect that calls it.
        handler: which one.
        resumable: it may be ended while its child waits for people, and called again.
    """

    effect: str
    handler: Handler
    resumable: bool = False


class Called(_Called, frozen=True, kw_only=True, tag=True):
    """It has not entered the body of ``on_running``."""


class Acting(_Called, frozen=True, kw_only=True, tag=True):
    """It has entered the body of ``on_running``."""


HandlerState = Idle | Called | Acting

LastAct = Literal["none", "ended", "interrupted", "again"]
"""What came of ``on_running`` in this stay in RUNNING: it was not entered; it has ended; it was interrupted, and a person is to say
what came of it; it is to be entered once more."""


class Unasked(msgspec.Struct, frozen=True, tag=True):
    """No question was put since a handler was called last."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A question to the person is open.

    Attributes:
        inquiry: id of the question.
        expires_at: when it expires, seconds since the epoch; None for never.
    """

    inquiry: str
    expires_at: float | None = None


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The last question is not open any more; an approval must still answer this one."""

    inquiry: str


QuestionState = Unasked | Asked | Closed
