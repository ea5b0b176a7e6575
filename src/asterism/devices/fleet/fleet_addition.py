"""Adding a device to a fleet file: its table is appended, and the rest of the file stays as it is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asterism.devices.fleet.fleet_file import DeviceEntry, Tables, check_text
from asterism.errors import InvalidInput

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def checked_addition(path: Path, table: Mapping[str, Any], tables: Tables) -> DeviceEntry:
    """Return the entry that a table will be in a fleet file; nothing is written.

    Raises:
        InvalidInput: the file cannot be used, it has a device of that name, or the table is invalid.
    """
    return check_text(_extended(_text(path), table), str(path), tables)[-1]


def append_device(path: Path, table: Mapping[str, Any], tables: Tables) -> None:
    """Append a table to a fleet file, which is made if it does not exist.

    Raises:
        InvalidInput: as ``checked_addition``, or the file cannot be written; it is unchanged.
    """
    checked_addition(path, table, tables)
    try:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may add the same device
            old = _text(path)
            new = _extended(old, table)
            check_text(new, str(path), tables)
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
