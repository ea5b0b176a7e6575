"""What the remote kinds have in common: how a device fails, and the text, headers and files of the other side."""

from __future__ import annotations

import os
import string
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from asterism.devices.attempts.attempt_files import content_of
from asterism.devices.attempts.secrets import secret
from asterism.devices.model.references import secrets_of, with_secrets
from asterism.devices.port import Attempt, AttemptError, AttemptResult, RemoteDevice, Signs, Unreachable
from asterism.engine.kernel.data import safe_name
from asterism.errors import InvalidInput

SENT_FILE_BYTES = 1 << 20
"""Bytes of a file argument that is sent in a message."""
SENT_BYTES = 4 << 20
"""Bytes of all file arguments of an attempt that are sent in messages."""
KEEPALIVE_S = 2.0
"""Seconds for which an idle connection is used again: many servers close it after five, and a request at that moment fails."""


class ConnectedDevice(RemoteDevice):
    """A device with a connection to the other side; its errors end attempts."""

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        try:
            return await self.carry_out(attempt, signs)
        except AttemptError as error:
            return error.end

    async def reach(self) -> str:
        try:
            await self.connect()
        except Unreachable as why:
            return str(why)
        return ""

    @abstractmethod
    async def connect(self) -> None:
        """Connect, unless a connection is there. Raises Unreachable."""

    @abstractmethod
    async def carry_out(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        """Carry out one attempt, as ``perform``. Raises AttemptError."""


def secret_names(values: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the secrets that some values refer to."""
    return tuple(name for value in values for name in secrets_of(value))


def with_secret_values(values: Mapping[str, str]) -> dict[str, str]:
    """Return templates of a fleet file with the values of their secrets; ``$`` in a value is written ``$$``.

    Raises:
        InvalidInput, MissingExtra: as ``secret`` does.
    """
    return {key: with_secrets(text, lambda name: secret(name).replace("$", "$$")) for key, text in values.items()}


def with_variables(values: Mapping[str, str], what: str) -> dict[str, str]:
    """Return values with the environment variables that they name; ``what`` is the word for one of them.

    Raises:
        InvalidInput: a variable is not set, or a value is malformed.
    """
    filled: dict[str, str] = {}
    for name, value in values.items():
        try:
            filled[name] = string.Template(value).substitute(os.environ).strip()
        except KeyError as missing:
            raise InvalidInput(f"its {what} {name} needs the environment variable {missing.args[0]}, which is not set") from None
        except ValueError as error:
            raise InvalidInput(f"invalid {what} {name}: {error}; write $NAME for a variable and $$ for a dollar sign") from None
    return filled


def http_headers(values: Mapping[str, str]) -> dict[str, str]:
    """Return headers with the environment variables that they name. Raises InvalidInput, also for an invalid character."""
    headers = with_variables(values, "header")
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):  # the error of a client would show the value
            raise InvalidInput(f"its header {name} has an invalid character")
    return headers


class SentFiles:
    """The contents of the file arguments of one attempt, for its messages."""

    def __init__(self, device_id: str) -> None:
        self._device_id = device_id
        self._left = SENT_BYTES

    async def content(self, value: Mapping[str, Any]) -> bytes:
        """Return the content of a file. Raises AttemptError ``bad_arguments`` if it is too large, missing, damaged, or of another run."""
        name = safe_name(value.get("name"))
        try:
            content = await content_of(value, min(self._left, SENT_FILE_BYTES))
        except InvalidInput as error:
            raise AttemptError("bad_arguments", str(error)) from error
        if content is None:
            most = f"{SENT_FILE_BYTES:,} bytes at most, and {SENT_BYTES:,} in all"
            how = "upload it with another skill, and pass its address"
            raise AttemptError("bad_arguments", f"file {name}: device {self._device_id} takes files of {most}; {how}")
        self._left -= len(content)
        return content
