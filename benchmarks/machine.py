"""What the numbers were measured on: numbers without it mean nothing."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path


def described() -> str:
    """Processor, cores, system and versions, in one line."""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}; "
        f"{platform.python_implementation()} {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def _processor() -> str:
    """The processor's name, as well as the system can say it."""
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown processor"
