"""Secrets in streams: masked wherever chunks divide them, and nothing else is changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from asterism.devices.attempts.secrets import MASK, Masker, found_in, masked

PARTS = st.lists(st.text(alphabet="abc", min_size=1, max_size=40), max_size=8)
SECRETS = st.lists(st.text(alphabet="abc", min_size=3, max_size=7), min_size=1, max_size=3)


@given(SECRETS, PARTS)
def test_chunks_are_masked_as_the_whole_is(secrets: list[str], parts: list[str]) -> None:
    masker = Masker(secrets)
    passed = b"".join(masker.feed(part.encode()) for part in parts) + masker.feed(b"", last=True)
    assert passed == masked("".join(parts), secrets).encode()
    assert not any(secret.encode() in piece for secret in secrets for piece in passed.split(MASK))


@given(PARTS)
def test_text_without_a_secret_is_unchanged_and_only_a_possible_beginning_waits(parts: list[str]) -> None:
    masker = Masker(["xcxcxcxc"])
    assert b"".join(masker.feed(part.encode()) for part in parts) == "".join(parts).encode()
    assert masker.feed(b"...xcxc") == b"..."
    assert masker.feed(b"!") == b"xcxc!"


def test_a_secret_in_a_literal_or_in_json_is_masked_too() -> None:
    value = 'pass"word\\1é'
    for text in (repr(value), f"{{'a': {value!r}}}", '"pass\\"word\\\\1\\u00e9"', f"<{value}>"):
        assert "word" not in masked(text, [value]), text
    assert found_in(b'{"a": "pass\\"word\\\\1\\u00e9!"}', {"OTHER": "something", "NAME": value}) == "NAME"
    assert not found_in(b'{"a": "password"}', {"NAME": value})
