"""A command line to its end, in a forked process (``tests.support.forks``)."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from asterism.cli import main
from tests.support.forks import forked


def run(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, said: str = "", timeout: float
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` does, for ``asterism`` and its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "err")]
        streams[0].write_text(said, encoding="utf-8")
        process = forked(_command, list(arguments), dict(env), cwd or Path.cwd(), streams)
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout)
        stdout, stderr = (path.read_text(encoding="utf-8") for path in streams[1:])
        return subprocess.CompletedProcess(list(arguments), process.exitcode, stdout, stderr)


def _command(arguments: list[str], env: dict[str, str], cwd: Path, streams: list[Path]) -> None:
    for number, (path, mode) in enumerate(zip(streams, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True)):
        os.dup2(os.open(path, mode), number)
    sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, mode)) for number, mode in enumerate("rww"))
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["asterism", *arguments]
    sys.exit(main(arguments))
