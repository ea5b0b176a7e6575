"""The environment variables that a device or a task sets for its processes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from asterism.devices.model.references import SECRET, references
from asterism.errors import InvalidInput

MAX_VARIABLES = 100
MAX_ENV_BYTES = 65_536
"""Bytes of all names and values together."""
MAX_FOLDER = 4096
"""Characters of the path of a working folder."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_process(env: Mapping[str, str], folder: str, where: str) -> None:
    """Check the variables and the working folder of a device or a task.

    Raises:
        InvalidInput: a name or value cannot be used, or there are too many; names ``where``.
    """
    if len(env) > MAX_VARIABLES:
        raise InvalidInput(f"{where}env: {len(env)} variables; at most {MAX_VARIABLES}")
    for name, value in env.items():
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{where}env: {name!r} cannot be the name of a variable; use letters, digits and _")
        if "\0" in value:
            raise InvalidInput(f"{where}env.{name}: contains a NUL character, which no variable may; remove it")
        if any(source != SECRET for source, _ in references(value)):
            raise InvalidInput(f"{where}env.{name}: a reference ${{…}} can only stand in inputs; pass the value as an input")
    if (size := sum(len(f"{name}={value}".encode()) for name, value in env.items())) > MAX_ENV_BYTES:
        raise InvalidInput(f"{where}env: {size} bytes; at most {MAX_ENV_BYTES}")
    if "\0" in folder or len(folder) > MAX_FOLDER:
        raise InvalidInput(f"{where}folder: not the path of a folder; at most {MAX_FOLDER} characters, without NUL")
