"""The agents this process knows, by the name a journal has for them."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from asterism.errors import InvalidInput

KNOWN: dict[str, Any] = {}
"""Every agent class by its ``module:name``: how the agent of a journal is found again, also one that is local to a function."""


def name_of(agent: type) -> str:
    """How a journal names an agent."""
    return f"{agent.__module__}:{agent.__qualname__}"


def agent_class(name: str) -> Any:
    """The class of that name, imported if need be.

    Raises:
        InvalidInput: there is none.
    """
    if name in KNOWN:
        return KNOWN[name]
    module, _, path = name.partition(":")
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"the agent {name} cannot be found ({error}); import its module first") from None
    return found
