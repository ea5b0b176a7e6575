"""Adding a device to a fleet file: its table is appended, and the rest of the file stays as it is.

Literal credentials, which no fleet file should contain, are refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from asterism.devices.attempts.secrets import PREFIX
from asterism.devices.fleet.fleet_file import DeviceEntry, Kinds, check_text
from asterism.devices.model.references import secrets_of, with_secrets
from asterism.errors import InvalidInput

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"auth|token|secret|cookie|passw|credential|api-?_?key|session|(^|[-_])key$", re.IGNORECASE)
_POINTS_TO_ONE = re.compile(r"(?:file|path|dir|name|url)$", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})")
_SHAPES = (
    re.compile(r"\b(?:bearer|basic|token)\s+\S", re.IGNORECASE),
    re.compile(
        r"\b(?:sk|pk|rk)[-_][\w-]{16}|\bgh[pousr]_\w{16}|\bgithub_pat_\w|\bglpat-\w|\bxox[abeprs]-\w|\bAKIA[0-9A-Z]{16}|\beyJ[\w-]{10}"
    ),
    re.compile(r"\b[0-9a-fA-F]{32,}\b"),
    re.compile(r"(?<![\w+=-])(?=[\w+=-]*[a-z])(?=[\w+=-]*[A-Z])(?=[\w+=-]*\d)[\w+=-]{24,}"),
)


def checked_addition(path: Path, table: Mapping[str, Any], kinds: Kinds) -> DeviceEntry:
    """Return the entry that a table will be in a fleet file; nothing is written.

    Raises:
        InvalidInput: the file cannot be used, it has a device of that name, or the table is invalid.
    """
    return check_text(_extended(_text(path), table), str(path), kinds)[-1]


def append_device(path: Path, table: Mapping[str, Any], kinds: Kinds) -> None:
    """Append a table to a fleet file, which is made if it does not exist.

    Raises:
        InvalidInput: as ``checked_addition``, or the file cannot be written; it is unchanged.
    """
    checked_addition(path, table, kinds)
    try:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may add the same device
            old = _text(path)
            new = _extended(old, table)
            check_text(new, str(path), kinds)
            end = file.seek(0, os.SEEK_END)
            try:
                file.write(new[len(old) :].encode())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(end)
                raise
    except OSError as error:
        raise InvalidInput(f"{path}: the fleet file cannot be written: {error.strerror}") from error


def table_text(table: Mapping[str, Any]) -> str:
    """Return a table of a fleet file as TOML."""
    return "".join(["[[devices]]\n", *(f"{_key(name)} = {_value(value)}\n" for name, value in table.items())])


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode() if path.exists() else ""
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: not TOML: it is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise InvalidInput(f"{path}: the fleet file cannot be read: {error.strerror}") from error


def _extended(text: str, table: Mapping[str, Any]) -> str:
    """Return the text of a fleet file with a table at its end, in the line ends of the file."""
    added = ("" if not text else "\n" if text.endswith("\n") else "\n\n") + table_text(table)
    return text + (added.replace("\n", "\r\n") if "\r\n" in text else added)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    match value:
        case str():
            if any("\ud800" <= char <= "\udfff" for char in value):
                raise InvalidInput(f"{value!r} is not valid Unicode text; rename what it names")
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # a string of JSON is one of TOML, but for DEL
        case Mapping():
            return "{" + ", ".join(f"{_key(name)} = {_value(it)}" for name, it in value.items()) + "}"
        case _:
            return "[" + ", ".join(_value(it) for it in value) + "]"


# -- literal credentials ----------------------------------------------------------------------------


def is_credential(name: str, value: str) -> bool:
    """Return True if a value looks like a password or a token that is written out.

    Args:
        name: name of the header, variable or option with the value.
        value: the value; its references to secrets and variables do not count.
    """
    rest = _VARIABLE.sub("", with_secrets(value, lambda _: ""))
    if any(shape.search(rest) for shape in _SHAPES):
        return True
    return rest == value and bool(value.strip()) and bool(_NAME.search(name)) and not _POINTS_TO_ONE.search(name)


def check_values(what: str, values: Mapping[str, str], device_id: str) -> None:
    """Check the headers or variables of a device. Raises InvalidInput that says how to write the value."""
    for name, value in values.items():
        if is_credential(name, value):
            raise InvalidInput(f"{what} {name}: its value looks like a credential, and the fleet file is plain text; {_instead(device_id)}")


def check_arguments(command: Sequence[str], device_id: str) -> None:
    """Check the arguments of a program, which every user of the computer can read. Raises InvalidInput."""
    for index, argument in enumerate(command):
        option, equals, value = argument.partition("=")
        before = command[index - 1] if index else ""
        named = option if equals and option.startswith("-") else before if before.startswith("-") and not argument.startswith("-") else ""
        if secrets_of(argument) or is_credential(named, value if equals and named == option else argument):
            raise InvalidInput(
                f"argument {index + 1} of the command is a credential, and every user of the computer can read it;"
                f" pass it as a variable: --env NAME='{_reference(device_id)}'"
            )


def check_url(url: str) -> None:
    """Check that a URL has no credentials. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query)
    except ValueError as error:
        raise InvalidInput(f"{url!r} is not a URL: {error}") from None
    if parts.username is not None or parts.password is not None or any(is_credential(name, value) for name, value in query):
        raise InvalidInput("the URL contains a credential, and the fleet file is plain text; pass it as a header: --header 'NAME: VALUE'")


def _reference(device_id: str) -> str:
    return f"${{secret.{secret_name(device_id)}}}"


def _instead(device_id: str) -> str:
    return f"write '{_reference(device_id)}' in its place, and set {PREFIX}{secret_name(device_id)} where the tasks are performed"


def secret_name(device_id: str) -> str:
    """Return a name for the secret of a device: ``TICKETS_TOKEN``."""
    return re.sub(r"\W+", "_", device_id, flags=re.ASCII).upper().strip("_") + "_TOKEN"
