"""The operating system of a host, for people."""

from __future__ import annotations

from asterism.devices.kinds.remote_text import one_line
from asterism.devices.kinds.ssh.connection import Host
from asterism.devices.kinds.ssh.script import whole_script
from asterism.devices.kinds.ssh.shell import HostError

_SCRIPT = whole_script("echo; echo 'asterism: system'; uname -sm; command -v setsid >/dev/null || echo 'no setsid'")
_MAX_BYTES, _MAX_CHARS = 65536, 200


async def system_of(host: Host) -> str:
    """Return the operating system of a host, in a line. Raises HostError if the host cannot run programs."""
    output = bytearray()

    def take(chunk: bytes) -> bool:
        output.extend(chunk)
        return len(output) < _MAX_BYTES

    await host.run(_SCRIPT, take, lambda _: True)
    found = one_line(output.decode(errors="replace").rpartition("asterism: system")[2], _MAX_CHARS)
    if found.endswith("no setsid"):
        raise HostError("refused", "the host has no program setsid; install util-linux or busybox")
    return found
