"""Processes that serve: ``asterism serve`` on a database, and the bare server beside it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

START_S = 60.0
STOP_S = 60.0

_API = re.compile(r"API at http://127\.0\.0\.1:(\d+),")


class Served(msgspec.Struct, frozen=True):
    """A process that listens on a port of this computer."""

    pid: int
    port: int

    @property
    def processor_s(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident_bytes(self) -> int:
        """Memory of it that is in use now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def asterism_server(database: Path, fleet: Path | None = None, *, concurrency: int = 100) -> Iterator[Served]:
    """Serve a database by ``asterism serve`` during the block."""
    options = ["--port", "0", "--grace", "0", "--concurrency", str(concurrency), *(("--fleet", str(fleet)) if fleet else ())]
    argv = [sys.executable, "-m", "asterism.cli", "serve", "--database", str(database), *options]
    with _process(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:  # bounded by the end of a server that cannot start
            if found := _API.match(line):
                yield Served(process.pid, int(found[1]))
                return
        raise RuntimeError("the server did not start")


@contextlib.contextmanager
def bare_server(folder: Path) -> Iterator[Served]:
    """Serve a fresh table by the bare server during the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with _process([sys.executable, "-m", "benchmarks.bare_server", str(port), str(folder / "bare.db")]) as process:
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield Served(process.pid, port)


@contextlib.contextmanager
def _process(argv: list[str], stdout: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(argv, stdout=stdout, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
