"""Refusals of commands with a code, which programs and models read. Pure."""

from __future__ import annotations

import msgspec

from asterism.engine.kernel.phrase import Text
from asterism.errors import Refused


class BatchRefusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The refusal of a command from outside, as its sender reads it.

    Attributes:
        code: its kind.
        what: the subject.
        why: the reason.
        index: index of the edit that causes the refusal, from 0; None for a single edit, and where no
            single edit is the cause.
    """

    code: str
    what: str
    why: Text
    index: int | None = None

    @property
    def subject(self) -> str:
        """Return the subject in words, with the place of the edit in its batch."""
        return self.what if self.index is None else f"actions[{self.index}] {self.what}"


class CodedRefusal(Refused):
    """A command was refused with a code, and nothing of it was applied.

    Attributes:
        index: as in ``BatchRefusal``.
    """

    def __init__(self, code: str, what: str, why: Text, index: int | None = None) -> None:
        self._refusal = BatchRefusal(code=code, what=what, why=why, index=index)
        self.index = index
        super().__init__(f"{self._refusal.subject}: {why}")

    @property
    def code(self) -> str:
        """Return the kind of the refusal."""
        return self._refusal.code

    @property
    def verdict(self) -> str:
        """Return the refusal as JSON, so that a sender can read its code (:func:`refusal_of`)."""
        return msgspec.json.encode(self._refusal).decode()


def refusal_of(verdict: str) -> BatchRefusal | None:
    """Return the refusal in an inbox verdict; None if the verdict is in words only."""
    try:
        return msgspec.json.decode(verdict, type=BatchRefusal)
    except msgspec.DecodeError:
        return None
