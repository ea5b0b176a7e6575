"""What can be set from outside, and where it lives when it is not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

DATABASE_VARIABLE = "ASTERISM_DATABASE"


def database_path(given: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the journals are: as given, else ``$ASTERISM_DATABASE``, else the user's state folder."""
    if given is not None:
        return given
    if named := environment.get(DATABASE_VARIABLE):
        return Path(named)
    state = Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "asterism" / "asterism.db"
