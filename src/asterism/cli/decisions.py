"""Yes and no as answers to a question: its approval and its rejection, else a response in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from asterism.engine.control.run_control import Answered, Verb
from asterism.engine.ports.store import InquiryRow

AnswerVerb = Literal["approve", "reject", "edit", "respond", "yes", "no"]
"""The words that ``asterism answer`` takes."""
DECISIONS: Mapping[str, Verb] = {"yes": "approve", "no": "reject"}


class TypedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was typed, to one or more questions.

    Attributes:
        word: the word that was typed for the verb.
        value: the value of an edit or a response.
        reason: the reason, for the journal.
    """

    word: AnswerVerb
    value: Any = None
    reason: str = ""

    @property
    def verb(self) -> Verb:
        """Return the verb; approve or reject for a yes or no."""
        return DECISIONS[self.word] if self.word == "yes" or self.word == "no" else self.word  # noqa: PLR1714 - mypy narrows only these

    def to(self, asked: InquiryRow) -> Answered:
        """Return the answer to a question: a yes or no is a response in that word if the question lacks the verb."""
        if self.word not in DECISIONS or self.verb in asked.verbs or "respond" not in asked.verbs:
            return Answered(effect_id=asked.inquiry_id, verb=self.verb, value=self.value, reason=self.reason)
        return Answered(effect_id=asked.inquiry_id, verb="respond", value=self.word, reason=self.reason)
