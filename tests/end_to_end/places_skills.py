"""A skill that notes on its device when it begins and ends, and whether another attempt is still there."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time

from asterism import SkillContext, skill


def note(word: str, key: str) -> None:
    log = os.open(os.environ["DEVICE_LOG"], os.O_WRONLY | os.O_APPEND)
    os.write(log, f"{word} {os.getpid()} {key} {time.time()}\n".encode())
    os.close(log)


@skill(idempotent=True)
def use(seconds: float, context: SkillContext) -> int:
    return hold(seconds, context)


@skill
def use_once(seconds: float, context: SkillContext) -> int:
    return hold(seconds, context)


def hold(seconds: float, context: SkillContext) -> int:
    device = os.open(os.environ["DEVICE_LOG"], os.O_RDONLY)
    try:
        fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("clash", context.key)
    # It holds the device's own lock, too, and is alive until something kills it.
    child = subprocess.Popen(["sleep", "1000"], pass_fds=[device])
    note("start", context.key)
    time.sleep(seconds)
    child.kill()
    child.wait()
    note("end", context.key)
    os.close(device)
    return os.getpid()
