"""The agents this process knows, by the name a journal has for them."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from asterism.devices.source import imported
from asterism.errors import InvalidInput

KNOWN: dict[str, Any] = {}
"""Every agent class by its name: how the agent of a journal is found again, also one that is local to a function."""


def name_of(agent: type) -> str:
    """How a journal names an agent: ``package.module:name``, or ``/path/file.py:name`` where its file belongs to no package."""
    module = sys.modules.get(agent.__module__)
    file = getattr(module, "__file__", None)
    place = str(Path(file).resolve()) if file and "." not in agent.__module__ else agent.__module__
    return f"{place}:{agent.__qualname__}"


def agent_class(name: str) -> Any:
    """The class of that name, imported if need be.

    Raises:
        InvalidInput: there is none.
    """
    if name in KNOWN:
        return KNOWN[name]
    place, _, path = name.rpartition(":")
    try:
        return functools.reduce(getattr, path.split("."), imported(place, Path.cwd()))
    except (InvalidInput, AttributeError) as error:
        raise InvalidInput(f"the agent {name} cannot be found ({error}); import its module first") from None
