"""Advice in errors: the name that was meant, and what to do about a folder that cannot be written."""

from __future__ import annotations

import errno

import pytest

from asterism.errors import did_you_mean, how_to_write_there


@pytest.mark.parametrize(
    ("given", "known", "advice"),
    [
        ("delet", ["read", "delete"], "; did you mean delete?"),
        ("count_wrods", {"count_words": 1}, "; did you mean count_words?"),
        ("paint", ["read", "delete"], ""),
        ("", ["read"], ""),
        ("delet", [], ""),
    ],
)
def test_a_mistyped_name_is_told_with_the_nearest_known_one(given: str, known: list[str], advice: str) -> None:
    assert did_you_mean(given, known) == advice


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "make it writable, or name another database"),
        (errno.EROFS, "make it writable, or name another database"),
        (errno.ENOENT, "name a database in a folder where files can be made"),
    ],
)
def test_the_advice_about_a_folder_fits_the_reason(code: int, advice: str) -> None:
    assert how_to_write_there(OSError(code, "")) == advice
