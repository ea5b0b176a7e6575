"""The flow agents of this process, by their name in journals."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from asterism.devices.skills.source import imported
from asterism.errors import DefinitionMissing, InvalidInput

KNOWN: dict[str, Any] = {}
"""Agent classes by name, including classes local to a function."""


def name_of(agent: type) -> str:
    """Return the name of an agent in journals: ``package.module:name``, or ``/path/file.py:name`` outside a package."""
    module = sys.modules.get(agent.__module__)
    file = getattr(module, "__file__", None)
    place = str(Path(file).resolve()) if file and "." not in agent.__module__ else agent.__module__
    return f"{place}:{agent.__qualname__}"


def agent_class(name: str) -> Any:
    """Return the agent class of a name, importing its module if necessary.

    Raises:
        DefinitionMissing: there is no such class.
    """
    if name in KNOWN:
        return KNOWN[name]
    place, _, path = name.rpartition(":")
    try:
        return functools.reduce(getattr, path.split("."), imported(place, Path.cwd()))
    except (InvalidInput, AttributeError) as error:
        raise DefinitionMissing(f"the agent {name} cannot be found ({error}); import its module first") from None
