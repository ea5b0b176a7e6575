"""Verdicts as errors: a sentence for people, attributes for programs."""

from __future__ import annotations

import pytest

from asterism.constellation.model.edits import EditRefused
from asterism.engine.kernel.refusal import CodedRefusal
from asterism.engine.runtime.verdicts import accepted
from asterism.errors import Refused


def test_a_refused_edit_is_a_sentence_with_its_code_as_an_attribute() -> None:
    verdict = EditRefused("read_only", "train", "it is RUNNING").verdict
    with pytest.raises(CodedRefusal) as refused:
        accepted(verdict)
    assert (str(refused.value), refused.value.code) == ("train: it is RUNNING", "read_only")
    assert refused.value.verdict == verdict


def test_another_refusal_is_its_words() -> None:
    assert accepted("accepted") == "accepted"
    with pytest.raises(Refused, match=r"^it has ended$") as refused:
        accepted("it has ended")
    assert type(refused.value) is Refused
