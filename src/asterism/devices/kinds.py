"""The kinds of devices that perform attempts."""

from __future__ import annotations

import contextlib

from asterism.devices.a2a import a2a_kind
from asterism.devices.fleet import DeviceKind
from asterism.devices.local import local_kind
from asterism.devices.pool import WorkerPool
from asterism.devices.ssh import ssh_kind


def device_kinds(pool: WorkerPool, stack: contextlib.AsyncExitStack) -> dict[str, DeviceKind]:
    """Return the kinds by name; the stack closes what their devices keep open."""
    return {"local": local_kind(pool), "ssh": ssh_kind(stack), "a2a": a2a_kind(stack)}
