"""Remote devices: watching them, performing their attempts with secrets, and ending them, with one try or with tries until a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping

import msgspec

from asterism.devices.attempts.secrets import check_result, hidden, known_secrets, secret, with_values
from asterism.devices.attempts.task_log import CURRENT
from asterism.devices.dispatch.lane import Lane, LaneItem
from asterism.devices.model.references import secrets_of
from asterism.devices.port import Attempt, AttemptResult, Notices, RemoteDevice, Unreachable
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.data import check_json
from asterism.engine.runtime.task_group import in_own_task
from asterism.errors import InvalidInput, MissingExtra

STOP_TRY_S = 15.0
"""Seconds that a device may take for one try."""
LATE_START_S = 5.0
"""Seconds after which a device looks again for an attempt without a handle, which may have started late."""
STOPS = Backoff(1.0, 30.0)
"""Waits between two tries to end an attempt."""
WATCHES = Backoff(1.0, 60.0, jitter=0.5)
"""Waits before a device is watched again whose ``watch`` has ended."""
LOST_S = 10.0
"""Seconds that a stop waits for a lost device by default, so that a command ends soon after its run."""


async def stop_once(device: RemoteDevice, attempt: Attempt) -> str:
    """End an attempt; return what may still run, in words, and empty if nothing does."""
    where = f"{attempt.task_id} may still run on {attempt.device_id}"
    try:
        async with asyncio.timeout(STOP_TRY_S):
            left: object = await device.stop(attempt)
    except TimeoutError:
        return f"{where}: it was asked to stop it, and has not answered within {STOP_TRY_S:g} s"
    except Exception as error:  # boundary: a device may raise anything, and the run names what it left
        left = f"{type(error).__name__}: {error}"
    return hidden(f"{where}: {left}", known_secrets()) if left else ""


async def stop_until(lane: Lane, device: RemoteDevice, attempt: Attempt, left_s: Callable[[], float], lost_s: float = LOST_S) -> str:
    """Try to end an attempt until no time is left, or until the device has been available for its ``grace_s``.

    It is given up, too, when the device has been lost for ``lost_s`` since the first try.
    A device that cannot find an attempt again is asked once.
    """
    if not (lane.keeps or attempt.handle):
        return await stop_once(device, attempt)
    loop = asyncio.get_running_loop()
    was_lost, since = bool(lane.lost), loop.time()
    for tries in itertools.count(1):  # bounded by the time that is left
        left = await stop_once(device, attempt)
        if not left:
            break
        if bool(lane.lost) is not was_lost:
            was_lost, since = not was_lost, loop.time()
        unchanged_s = since + (lost_s if was_lost else lane.profile.grace_s) - loop.time()
        if min(unchanged_s, left_s()) <= 0:
            return left
        wait_s = min(STOPS.wait_s(tries), left_s())
        await _wait(lane, min(wait_s, unchanged_s) if was_lost else wait_s)
    if attempt.handle:
        return ""
    await asyncio.sleep(LATE_START_S)
    return await stop_once(device, attempt)


async def _wait(lane: Lane, wait_s: float) -> None:
    """Wait for a time; of a lost device, at most until it is found."""
    if not lane.lost:
        await asyncio.sleep(wait_s)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await lane.found.wait()


async def watch(device: RemoteDevice, notices: Notices, chance: Callable[[], float] = lambda: 0.0) -> None:
    """Watch a device until cancelled; begin again after growing waits, which ``chance`` shortens, whenever its ``watch`` ends."""
    loop, ended = asyncio.get_running_loop(), 0
    while True:  # bounded: its waits grow, and it ends with the dispatcher
        began_at = loop.time()
        try:
            await in_own_task(device.watch, notices)
        except Unreachable as why:
            notices.lost(str(why))
        except Exception as error:  # boundary: a device may raise anything; it counts as lost until it reports that it is found
            notices.lost(f"its connection failed: {type(error).__name__}: {error}")
        ended = 1 if loop.time() - began_at > WATCHES.longest_s else ended + 1
        await asyncio.sleep(WATCHES.wait_s(ended, chance()))


async def perform_masked(device: RemoteDevice, item: LaneItem) -> AttemptResult:
    """Have a remote device perform an attempt with the values of its secrets; nothing that it reports contains one.

    The secrets of the process are masked as well. An attempt that may run already is ``interrupted``
    if a secret is missing here, since its texts could not be masked.
    """
    try:
        resolved, item.secrets = await _resolved(device, item.attempt)
    except (InvalidInput, MissingExtra) as error:
        return AttemptResult.failed("interrupted" if item.attempt.again else "bad_arguments", str(error))
    if (attempt_log := CURRENT.get()) is not None:
        attempt_log.values = item.secrets
    return _masked(await device.perform(resolved, item), item.secrets)


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
