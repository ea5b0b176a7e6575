"""Secrets of attempts on remote devices: resolved here, and masked in all that comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

import msgspec

from asterism.constellation.model.references import secrets_of
from asterism.devices.attempts.secrets import check_result, hidden, known_secrets, secret, with_values
from asterism.devices.attempts.task_log import CURRENT
from asterism.devices.port import Attempt, AttemptResult, HeldPlace, RemoteDevice, Signs
from asterism.engine.kernel.data import check_json
from asterism.errors import InvalidInput, MissingExtra


class DeviceFailed(Exception):
    """A device raised an error; the text names it, with the secrets masked."""


class MaskedSigns:
    """The signs of an attempt, with values masked in its progress."""

    def __init__(self, signs: Signs, values: Mapping[str, str]) -> None:
        self._signs = signs
        self._values = values

    @property
    def place(self) -> HeldPlace | None:
        return self._signs.place

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        self._signs.progress(fraction, hidden(message, self._values))

    def queued(self, reason: str = "") -> None:
        self._signs.queued(reason)

    async def begun(self) -> None:
        await self._signs.begun()

    def attached(self, handle: str) -> Awaitable[None]:
        return self._signs.attached(handle)


async def perform_masked(device: RemoteDevice, attempt: Attempt, signs: Signs) -> AttemptResult:
    """Have a remote device perform an attempt with the values of its secrets; nothing that it reports contains one.

    The secrets of the process are masked as well. An attempt that may run already is ``interrupted``
    if a secret is missing here, since its texts could not be masked.

    Raises:
        DeviceFailed: the device raised an error.
    """
    try:
        resolved, values = await _resolved(device, attempt)
    except (InvalidInput, MissingExtra) as error:
        return AttemptResult.failed("interrupted" if attempt.again else "bad_arguments", str(error))
    if (attempt_log := CURRENT.get()) is not None:
        attempt_log.values = values
    try:
        return _masked(await device.perform(resolved, MaskedSigns(signs, values)), values)
    except Exception as error:  # boundary: a device may raise anything, and its text may have a secret
        raise DeviceFailed(hidden(f"{type(error).__name__}: {error}", values)) from None


async def _resolved(device: RemoteDevice, attempt: Attempt) -> tuple[Attempt, dict[str, str]]:
    if not device.secret_names and not attempt.secrets and not any(secrets_of(value) for value in attempt.env.values()):
        return attempt, known_secrets()

    def read() -> tuple[Attempt, dict[str, str]]:
        resolved, values = with_values(attempt)
        return resolved, values | {name: secret(name) for name in device.secret_names}

    return await asyncio.to_thread(read)  # a keyring may ask its user


def _masked(end: AttemptResult, values: Mapping[str, str]) -> AttemptResult:
    """Return the end of an attempt with the values masked in its texts, or the error of data that contains one."""
    if end.error is not None:
        return AttemptResult.failed(end.error.code, hidden(end.error.message, values))
    try:
        check_json(end.result, "the result")
        check_result(msgspec.json.encode(end.result), values)
        if end.question is None:
            return end
        check_json([end.question.state, end.question.schema], "the device's question")
        check_result(msgspec.json.encode([end.question.state, end.question.schema]), values)
    except InvalidInput as error:
        return AttemptResult.failed("bad_result", str(error))
    return msgspec.structs.replace(end, question=msgspec.structs.replace(end.question, prompt=hidden(end.question.prompt, values)))
