"""The three servers of the example as processes, and the fleet file that names them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from examples.remote.ssh_host import make_keys

START_S = 60.0
END_S = 10.0
SKILLS = Path(__file__).with_name("skills.py")
FLEET = """name = "remote"

[[devices]]
id = "desk"
skills = ["{skills}:draft"]

[[devices]]
id = "editor"
kind = "a2a"
url = "http://127.0.0.1:{a2a}"

[[devices]]
id = "catalogue"
kind = "mcp"
url = "http://127.0.0.1:{mcp}/mcp"

[[devices]]
id = "host"
kind = "ssh"
host = "127.0.0.1:{ssh}"
known_hosts = "known_hosts"
keys = ["id"]

[[devices.commands]]
name = "count"
output = "json"
files = ["text"]
argv = ["sh", "-c", '''
sum=$(sha256sum <"$1")
echo '{{"device": "host", "event": "start"}}' >>"$ASTERISM_REMOTE_DIR/work"
echo '{{"device": "host", "event": "file", "result": "sha256:'"${{sum%% *}}"'"}}' >>"$ASTERISM_REMOTE_DIR/work"
sleep {pace}
printf '{{"words": %d}}' "$(wc -w <"$1")"
''', "count", "{{text}}"]

[[devices]]
id = "reviewer"
kind = "agent"
loop = "{skills}:reviewer"
description = "looks for lines that are too long"

[[devices]]
id = "publisher"
kind = "flow"
flow = "{skills}:Publisher"
"""


class Servers:
    """The servers, from ``with`` to its end.

    Args:
        folder: an empty folder for keys, the fleet file ``fleet.toml`` and everything that the devices write.
        pace_s: seconds that each device works.

    Attributes:
        environment: environment of the servers, and of the commands that drive the run.
    """

    def __init__(self, folder: Path, *, pace_s: float = 0.2, environment: Mapping[str, str] = os.environ) -> None:
        self.folder = folder
        own = {"ASTERISM_REMOTE_DIR": str(folder), "ASTERISM_REMOTE_PACE": str(pace_s), "ASTERISM_DATABASE": str(folder / "runs.db")}
        self.environment = {**environment, **own}
        self._pace_s = pace_s
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """Start the servers, and return when they can be reached."""
        (self.folder / "home").mkdir()
        a2a, mcp, ssh = ports = _free_ports(3)
        make_keys(self.folder, ssh)
        fleet = FLEET.format(skills=SKILLS, a2a=a2a, mcp=mcp, ssh=ssh, pace=self._pace_s)
        (self.folder / "fleet.toml").write_text(fleet, encoding="utf-8")
        for name, *arguments in (("a2a_agent", str(a2a)), ("mcp_server", str(mcp)), ("ssh_host", str(ssh), str(self.folder))):
            command = [sys.executable, "-m", f"examples.remote.{name}", *arguments]
            log = (self.folder / f"{name}.log").open("ab")
            with log:
                self._processes.append(
                    subprocess.Popen(
                        command,
                        cwd=SKILLS.parents[2],
                        env=self.environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # Ctrl-C pauses the run, and ends no server
                    )
                )
        try:
            self._wait(ports)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the servers."""
        self._end()

    @property
    def pids(self) -> set[int]:
        """Process ids of the servers."""
        return {process.pid for process in self._processes}

    def _wait(self, ports: tuple[int, ...]) -> None:
        give_up = time.monotonic() + START_S
        for port in ports:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > give_up or any(process.poll() is not None for process in self._processes):
                        raise RuntimeError(f"a server of the example has not started; its log is in {self.folder}") from None
                    time.sleep(0.05)

    def _end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> tuple[int, ...]:
    """Return ports that are free now, all different."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return tuple(server.getsockname()[1] for server in servers)
    finally:
        for server in servers:
            server.close()
