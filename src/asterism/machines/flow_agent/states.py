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


class NoHandler(msgspec.Struct, frozen=True, tag=True):
    """No handler runs."""


class _Called(msgspec.Struct, frozen=True, kw_only=True):
    """A handler runs.

    Attributes:
        effect_id: id of the effect that calls it.
        handler: which one.
        resumable: it may be ended while its child waits for people, and called again.
    """

    effect_id: str
    handler: Handler
    resumable: bool = False


class HandlerCalled(_Called, frozen=True, kw_only=True, tag=True):
    """It has not entered the body of ``on_running``."""


class HandlerRunning(_Called, frozen=True, kw_only=True, tag=True):
    """It has entered the body of ``on_running``."""


HandlerState = NoHandler | HandlerCalled | HandlerRunning

LastRunning = Literal["none", "ended", "interrupted", "again"]
"""What came of ``on_running`` in this stay in RUNNING: it was not entered; it has ended; it was interrupted, and a person is to say
what came of it; it is to be entered once more."""


class NoQuestion(msgspec.Struct, frozen=True, tag=True):
    """No question was put since a handler was called last."""


class QuestionOpen(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A question to the person is open.

    Attributes:
        inquiry_id: id of the question.
        expires_at: when it expires, seconds since the epoch; None for never.
    """

    inquiry_id: str
    expires_at: float | None = None


class QuestionClosed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The last question is not open any more; an approval must still answer this one."""

    inquiry_id: str


QuestionState = NoQuestion | QuestionOpen | QuestionClosed
