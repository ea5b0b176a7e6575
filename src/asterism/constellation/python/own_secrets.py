"""The secrets that commands and servers read from the environment for themselves."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from asterism.constellation.planner.model_choice import KEY_VARIABLES, MODEL_VARIABLES

FILES_VARIABLE = "ASTERISM_FILES"
SERVER_VARIABLE = "ASTERISM_SERVER"
TOKEN_VARIABLE = "ASTERISM_TOKEN"  # noqa: S105 - the name of a variable
SECRET_VARIABLES = (TOKEN_VARIABLE, "ANTHROPIC_AUTH_TOKEN", *(name for names in KEY_VARIABLES.values() for name in names))
"""The variables with a secret that commands and servers read."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
ADDRESS_VARIABLES = (
    *(FILES_VARIABLE, SERVER_VARIABLE, MODEL_VARIABLES["base_url"], MODEL_VARIABLES["backup_base_url"]),
    *("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL", *_PROXIES, *(name.lower() for name in _PROXIES)),
)
"""The variables with an address that they read; it may contain a password."""
_SHORTEST_SECRET = 8


def own_secrets(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the secrets that commands and servers read from the environment for themselves, by variable.

    Of an address it is the password. A value of fewer than 8 characters is a placeholder, and would be masked in ordinary words.
    """
    found = {name: environment.get(name, "").strip() for name in SECRET_VARIABLES}
    for name in ADDRESS_VARIABLES:
        with contextlib.suppress(ValueError):  # no address
            found[name] = urlsplit(environment.get(name, "")).password or ""
    return {name: value for name, value in found.items() if len(value) >= _SHORTEST_SECRET}


def inherited(listed: Collection[str] = (), environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment that a process of a server inherits: without its own secrets, but for those that are listed."""
    withheld = own_secrets(environment).keys() - set(listed)
    return {name: value for name, value in environment.items() if name not in withheld}
