"""Yes and no as answers to a question: its approval and its rejection, else a response in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from asterism.machines.run_control import Answered, Verb
from asterism.runtime.ports.store import InquiryRow

AnswerVerb = Literal["approve", "reject", "edit", "respond", "yes", "no"]
"""The words that ``asterism answer`` takes."""
DECISIONS: Mapping[str, Verb] = {"yes": "approve", "no": "reject"}


def answer_to(asked: InquiryRow, said: Answered, word: str) -> Answered:
    """Return the answer to a question: a yes or no is a response in that word if the question lacks the verb.

    Args:
        asked: the question.
        said: the answer; its verb is that of ``DECISIONS`` for a yes or no.
        word: the word that was typed.
    """
    if word not in DECISIONS or said.verb in asked.verbs or "respond" not in asked.verbs:
        return said
    return msgspec.structs.replace(said, verb="respond", value=word)
