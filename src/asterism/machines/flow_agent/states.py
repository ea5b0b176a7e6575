"""The parts of a conversation's state that its eight states do not show.

NoHandler ──► HandlerCalled ──► HandlerRunning    it has entered the body of ``on_running``,
  ▲               │                  │            or transitions there are being journaled
  └───────────────┴──────────────────┘            it has ended, or was cancelled

NoQuestion ──► QuestionOpen ──► QuestionClosed    by an answer, or the end of the conversation
  ▲                 │                │
  └─────────────────┴────────────────┘            a handler is called
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
        handler: its name.
        resumable: True if it may end while its child waits for people, and be called again.
    """

    effect_id: str
    handler: Handler
    resumable: bool = False


class HandlerCalled(_Called, frozen=True, kw_only=True, tag=True):
    """A handler runs that has not entered the body of ``on_running``."""


class HandlerRunning(_Called, frozen=True, kw_only=True, tag=True):
    """A handler has entered the body of ``on_running``, or waits until its way there is journaled."""


HandlerState = NoHandler | HandlerCalled | HandlerRunning

LastRunning = Literal["none", "ended", "interrupted", "again"]
"""The last call of ``on_running`` in this stay in RUNNING: ``none`` yet; ``ended``;
``interrupted``, and a person must say what happened; ``again``, to be entered once more."""


class NoQuestion(msgspec.Struct, frozen=True, tag=True):
    """No question was asked since the last call of a handler."""


class QuestionOpen(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A question to the person is open.

    Attributes:
        inquiry_id: id of the question.
        expires_at: its expiry, in seconds since the epoch; None for never.
    """

    inquiry_id: str
    expires_at: float | None = None


class QuestionClosed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The last question is closed; a queued message is its answer only if it names this id."""

    inquiry_id: str


QuestionState = NoQuestion | QuestionOpen | QuestionClosed
