"""Mask the values of secrets in texts and in streams, also where chunks of a stream divide them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

MASK = b"[secret]"


def forms_of(value: str) -> set[bytes]:
    """Return a value as it is, as in a Python literal and as in JSON: an error or a result may quote it."""
    texts = (value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    return {text.encode(errors="surrogateescape") for text in texts}


class Masker:
    """Masks verbatim occurrences of secrets in one stream."""

    def __init__(self, values: Iterable[str]) -> None:
        self._forms = sorted({form for value in values for form in forms_of(value)})
        self._rest = b""
        self._masked = 0  # bytes at the start of the rest that belong to a secret which is masked already

    def feed(self, data: bytes, *, last: bool = False) -> bytes:
        """Return what can be passed on: all but an end that may be the beginning of a secret; with ``last`` all."""
        if not self._forms:
            return data
        text = self._rest + data
        hold = len(text) if last else min(len(text) - _beginning(text, form) for form in self._forms)
        parts: list[bytes] = []
        at = masked_to = 0
        for start, end in _merged([(0, self._masked), *(span for form in self._forms for span in _spans(text, form))]):
            if start >= hold:
                break
            parts.append(text[at:start])
            if start or not self._masked:
                parts.append(MASK)
            at, masked_to = min(end, hold), end
        parts.append(text[at:hold])
        self._masked = max(0, masked_to - hold) if hold else self._masked
        self._rest = text[hold:]
        return b"".join(parts)


def masked(text: str, values: Iterable[str]) -> str:
    """Return a whole text with the values masked, and halves of characters that no file can hold as escapes."""
    writable = re.sub(r"[\ud800-\udc7f\udd00-\udfff]", lambda half: ascii(half[0])[1:-1], text)
    return Masker(values).feed(writable.encode(errors="surrogateescape"), last=True).decode(errors="surrogateescape")


def found_in(data: bytes, values: Mapping[str, str]) -> str:
    """Return the name of the first of these values that JSON data contains; empty if it has none."""
    return next((name for name, value in values.items() if any(form in data for form in forms_of(value))), "")


def _beginning(text: bytes, form: bytes) -> int:
    """Return the length of the longest end of a text that is a beginning of a form, but not all of it."""
    at = text.find(form[:1], max(0, len(text) - len(form) + 1))
    while at >= 0 and not form.startswith(text[at:]):  # bounded: each find begins after the one before
        at = text.find(form[:1], at + 1)
    return len(text) - at if at >= 0 else 0


def _spans(text: bytes, form: bytes) -> list[tuple[int, int]]:
    spans, at = [], text.find(form)
    while at >= 0:  # bounded: each find begins after the one before
        spans.append((at, at + len(form)))
        at = text.find(form, at + 1)
    return spans


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
