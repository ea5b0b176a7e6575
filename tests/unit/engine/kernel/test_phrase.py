"""A phrase has words whatever its data are."""

from __future__ import annotations

from typing import Any

import pytest

import asterism.constellation.phrases  # noqa: F401 - its words
from asterism.engine.kernel.phrase import WORDINGS, Phrase


@pytest.mark.parametrize("data", [{}, {"ids": "x"}, {"why": 3, "by": ["a"], "what": 1.5}])
def test_a_phrase_whose_data_do_not_fit_its_words_names_its_code_or_is_worded(data: dict[str, Any]) -> None:
    """They may come from a file that somebody else has made."""
    assert all(str(Phrase(code, data)) for code in WORDINGS)
    assert str(Phrase("said_no", {"x": 1})) == "said_no x=1"
