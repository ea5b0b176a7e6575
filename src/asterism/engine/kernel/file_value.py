"""Values that name a file: ``{"$file": "sha256:<hex>", "name": …, "media_type": …, "size": …}``.

A file travels through a run as such a value. Its content is stored by its digest, outside the journal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

FILE = "$file"
"""Key with the digest of the file."""
PATH = "path"
"""Key that a device adds to an argument: where the skill finds the file."""
FILE_SCHEMA: dict[str, Any] = {"type": "object", "format": "file"}
"""JSON Schema of a file."""
NAME_BYTES = 200
"""Bytes of a file's name."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def is_digest(value: object) -> bool:
    """Return True for the digest of a file."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_file(value: object) -> bool:
    """Return True for a value that names a file."""
    return isinstance(value, dict) and is_digest(value.get(FILE))


def path_of(value: object) -> str | None:
    """Return where a device has put the file that an argument names; None if the value is no such argument."""
    path = value.get(PATH) if isinstance(value, dict) and is_file(value) else None
    return path if isinstance(path, str) else None


def files_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the values within a JSON value that name files."""
    stack = [value]
    while stack:
        it = stack.pop()
        if is_file(it):
            yield it
        elif isinstance(it, dict):
            stack += it.values()
        elif isinstance(it, list):
            stack += it


def safe_name(name: object) -> str:
    """Return the last part of a name, as the name of a file that is neither hidden nor a path.

    Control characters are removed, and a long name is cut before its suffix.
    """
    text = name if isinstance(name, str) else ""
    text = "".join(it for it in re.split(r"[/\\]", text)[-1] if it.isprintable()).strip().lstrip(".~-").strip()
    stem, dot, suffix = text.rpartition(".")
    if len(text.encode()) > NAME_BYTES:
        short = suffix.encode()[:20].decode(errors="ignore") if dot else ""
        head = (stem if dot else text).encode()[: NAME_BYTES - 21].decode(errors="ignore")
        text = f"{head}.{short}" if short else head
    return text or "file"
