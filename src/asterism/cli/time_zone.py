"""The time zone of the machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from asterism.engine.runtime.clock import zone_of
from asterism.errors import InvalidInput
from asterism.words.reading.setting import DEFAULT_ZONE


def local_zone() -> str:
    """Return the name of the machine's time zone; UTC if it has no name."""
    place = str(Path("/etc/localtime").resolve())
    for name in (os.environ.get("TZ", "").lstrip(":"), place.partition("/zoneinfo/")[2], "UTC"):
        with contextlib.suppress(InvalidInput):
            if name:
                zone_of(name)
                return name
    return DEFAULT_ZONE
