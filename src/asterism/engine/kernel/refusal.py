"""Refusals of commands with a code, which programs and models read. Pure."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from asterism.engine.kernel.phrase import Phrase, Text
from asterism.errors import Refused


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
        refusal: its code, subject and reason.
    """

    def __init__(self, code: str, what: str, why: Text, index: int | None = None) -> None:
        self.refusal = Refusal(code=code, what=what, why=why, index=index)
        super().__init__(f"{self.refusal.subject}: {why}")

    def replaced(self, **changes: Any) -> Self:
        """Return the same with other fields of its refusal."""
        return type(self)(**msgspec.structs.asdict(msgspec.structs.replace(self.refusal, **changes)))


def verdict_of(refused: Refused | Phrase) -> str:
    """Return a refusal as journals and senders get it: in JSON if it has a code, else as one line of text."""
    why = refused if isinstance(refused, Phrase) else refused.refusal if isinstance(refused, CodedRefusal) else refused.why
    return msgspec.json.encode(why).decode() if isinstance(why, msgspec.Struct) else str(why).partition("\n")[0]


def verdict_words(verdict: str) -> str:
    """Return a verdict with its phrase in words; the JSON of a ``Refusal`` as it is."""
    try:
        return str(msgspec.json.decode(verdict, type=Phrase))
    except msgspec.DecodeError:
        return verdict


def refusal_of(verdict: str) -> Refusal | None:
    """Return the refusal in an inbox verdict; None if the verdict has only a reason."""
    try:
        return msgspec.json.decode(verdict, type=Refusal)
    except msgspec.DecodeError:
        return None
