"""The values of secrets, from the environment, files or the keyring of the computer that performs a task, and their masking.

Values are read when a task is performed, never journaled, and masked in what it prints and returns, also where chunks of a
stream divide them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from asterism.devices.model.references import with_secrets
from asterism.devices.port import Attempt
from asterism.errors import InvalidInput, MissingExtra

PREFIX = "ASTERISM_SECRET_"
"""Prefix of the variable with a secret."""
PLACE_VARIABLE = "ASTERISM_SECRETS"
"""Variable with a dotenv file, a folder with a file for each secret, or ``keyring:SERVICE``."""
MIN_LENGTH = 8
"""Characters of the shortest secret: a shorter one would be masked in ordinary words."""
MASK = b"[secret]"
MAX_BYTES = 8192

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_KEYRING = "keyring:"


def secret(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the value of a secret.

    Raises:
        InvalidInput: there is none, it is too short or too long, or others may read its file.
        MissingExtra: the keyring needs an extra.
    """
    value = environment.get(PREFIX + name)
    if value is None and (place := environment.get(PLACE_VARIABLE, "")):
        value = _of_keyring(place.removeprefix(_KEYRING), name) if place.startswith(_KEYRING) else _of_files(Path(place), name)
    if value is None:
        raise InvalidInput(f"secret {name} is not set; set {PREFIX}{name} where the task is performed, or name a file in {PLACE_VARIABLE}")
    if len(value) < MIN_LENGTH:
        raise InvalidInput(
            f"secret {name} has {len(value)} characters, and a shorter one than {MIN_LENGTH} cannot be masked; use a longer one"
        )
    if len(value.encode(errors="surrogateescape")) > MAX_BYTES or "\0" in value:
        raise InvalidInput(f"secret {name} has more than {MAX_BYTES} bytes, or a NUL character; use a shorter text")
    return value


def known_secrets(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the secrets in the environment, by name: any task could print them. Those that are too short are left out."""
    found = {name.removeprefix(PREFIX): value for name, value in environment.items() if name.startswith(PREFIX)}
    return {name: value for name, value in found.items() if MIN_LENGTH <= len(value) <= MAX_BYTES}


def with_values(attempt: Attempt) -> tuple[Attempt, dict[str, str]]:
    """Return an attempt with the secrets of its arguments and variables in place, and the values to mask by name.

    Raises:
        InvalidInput, MissingExtra: as ``secret`` does.
    """
    used: dict[str, str] = {}

    def value_of(name: str) -> str:
        return used.setdefault(name, secret(name))

    arguments = msgspec.json.decode(msgspec.json.encode(attempt.arguments)) if attempt.secrets else attempt.arguments
    for path in attempt.secrets:
        _replace(arguments, path, value_of)
    env = {name: with_secrets(value, value_of) for name, value in attempt.env.items()}
    return msgspec.structs.replace(attempt, arguments=arguments, env=env), known_secrets() | used


def check_result(result: bytes, values: Mapping[str, str]) -> None:
    """Check that a result, as JSON, contains no secret: it would be journaled.

    Raises:
        InvalidInput: it contains one; names it.
    """
    if name := found_in(result, values):
        raise InvalidInput(f"the result contains the secret {name}, and results are journaled; return it without the secret")


def hidden(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values masked."""
    return masked(text, values.values()) if values else text


def _replace(arguments: Any, path: tuple[str | int, ...], value_of: Callable[[str], str]) -> None:
    *above, last = path
    there = arguments
    for step in above:
        there = there[step]
    there[last] = with_secrets(there[last], value_of)


def _of_files(place: Path, name: str) -> str | None:
    """Return a secret of a dotenv file, or of a folder with a file for each; None if it is not there."""
    try:
        file = place / name if place.is_dir() else place
        if not place.exists():
            raise InvalidInput(f"{PLACE_VARIABLE}: there is no file or folder {place}; make it, or unset the variable")
        if not file.exists():
            return None
        if file.stat().st_mode & 0o077:
            raise InvalidInput(f"{file}: other users may read it; run: chmod 600 {file}")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        raise InvalidInput(f"{place}: {why}") from None
    return text.rstrip("\r\n") if file != place else _of_lines(text, place, name)


def _of_lines(text: str, file: Path, name: str) -> str | None:
    found = None
    for number, line in enumerate(text.splitlines(), 1):
        if not (content := line.strip()) or content.startswith("#"):
            continue
        match = _LINE.fullmatch(content)
        if match is None:
            raise InvalidInput(f"{file}, line {number}: not NAME=value; put a value with spaces in quotes, and # before a comment")
        value = match[2]
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        if match[1] == name:
            found = value[1:-1] if quoted else value
    return found


def _of_keyring(service: str, name: str) -> str | None:
    try:
        import keyring  # noqa: PLC0415 - slow, and needs an extra
        import keyring.errors  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("keyring", f"{PLACE_VARIABLE}={_KEYRING}{service}") from error
    try:
        value: str | None = keyring.get_password(service, name)
    except keyring.errors.KeyringError as error:
        raise InvalidInput(f"{PLACE_VARIABLE}: the keyring cannot be read: {error}; unlock it, or use a file") from None
    return value


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
