"""Which model is asked, and how patient to be with it: plain data, so that settings need no model's library.

Not here: a key. Providers' clients read theirs from their usual variables, and a key is in no setting, journal or message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from asterism.errors import InvalidInput

KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "ollama": ("OLLAMA_API_KEY",),
    "replay": (),
}
"""The providers, and where the key of each is looked for, first to last. ``replay:FILE`` answers from a recording."""

MODEL_VARIABLES = {
    "model": "ASTERISM_MODEL",
    "backup": "ASTERISM_BACKUP_MODEL",
    "base_url": "ASTERISM_MODEL_BASE_URL",
    "backup_base_url": "ASTERISM_BACKUP_MODEL_BASE_URL",
    "timeout_s": "ASTERISM_MODEL_TIMEOUT_S",
    "attempts": "ASTERISM_MODEL_ATTEMPTS",
    "examples": "ASTERISM_PLANNER_EXAMPLES",
}
"""Field of ``ModelChoice`` -> the variable it is read from. Keys are in their providers' own variables."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which model, and how patient to be with it.

    Attributes:
        model: ``provider:name``, as in ``openai:gpt-4o``; ``openai`` also speaks to whatever is compatible, by its base URL.
        backup: the same; asked where the first gives no usable answer. Empty for none.
        base_url: where the first is found; empty for where its provider says.
        backup_base_url: the same for the backup; empty for the first one's where both have one provider.
        timeout_s: bound on one request.
        attempts: requests for one answer of one model, while what is wrong may pass.
        backoff_s: wait before the second request; it doubles from there.
        max_wait_s: no wait is longer; a provider that wants one longer is not waited for.
        reprompts: times one model is told what is wrong with its answer.
        examples: folder with demonstrations (``creation.json``, ``editing.json``) in place of those that ship; empty for those.
        record: file into which the exchanges are written, for ``replay:FILE``; empty for none.
    """

    model: str
    backup: str = ""
    base_url: str = ""
    backup_base_url: str = ""
    timeout_s: Seconds = 120.0
    attempts: Annotated[int, msgspec.Meta(ge=1, le=20)] = 4
    backoff_s: Seconds = 1.0
    max_wait_s: Seconds = 60.0
    reprompts: Annotated[int, msgspec.Meta(ge=0, le=20)] = 3
    examples: str = ""
    record: str = ""

    @property
    def replays(self) -> str:
        """The recording that is asked in place of a model; empty where a model is."""
        provider, name = split_model(self.model)
        return name if provider == "replay" else ""

    def url_of_backup(self) -> str:
        """Where the backup is found; empty for where its provider says."""
        same = split_model(self.backup)[0] == split_model(self.model)[0]
        return self.backup_base_url or (self.base_url if same else "")


def choose_model(**given: Any) -> ModelChoice:
    """A choice, checked.

    Args:
        given: the fields of ``ModelChoice``; texts are read as numbers where one is wanted.

    Raises:
        InvalidInput: a field that cannot be used; names it.
    """
    try:
        choice = msgspec.convert(given, ModelChoice, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the model's settings: {error}") from None
    if choice.replays and (choice.backup or choice.record):
        raise InvalidInput(f"model {choice.model}: a recording has its own backup, and is not recorded again")
    if choice.backup and split_model(choice.backup)[0] == "replay":
        raise InvalidInput(f"model {choice.backup}: a recording stands in for every model, and is no backup of one")
    for url in (choice.base_url, choice.backup_base_url):
        _check_url(url)
    return choice


def choose_named(model: str, environment: Mapping[str, str] = os.environ) -> ModelChoice:
    """The choice of a model of which only the name is given, as a loop gives it; all else is as the environment says.

    Where ``$ASTERISM_MODEL`` is of another provider, the base URL there is not for this one.

    Raises:
        InvalidInput: the model, or a setting, cannot be used.
    """
    found = {field: environment[name] for field, name in MODEL_VARIABLES.items() if environment.get(name)}
    provider = split_model(model)[0]
    other = found.pop("model", model)
    if provider == "replay":
        return choose_model(model=model)
    if other.partition(":")[0] != provider:
        found.pop("base_url", None)
    return choose_model(**found, model=model)


def split_model(named: str) -> tuple[str, str]:
    """``(provider, name)`` of ``provider:name``.

    Raises:
        InvalidInput: it is not that, or nobody knows the provider.
    """
    provider, _, name = named.partition(":")
    if provider not in KEY_VARIABLES or not name.strip():
        raise InvalidInput(f"model {named[:100]!r}: write provider:name, where the provider is one of {', '.join(KEY_VARIABLES)}")
    return provider, name


def _check_url(url: str) -> None:
    """A base URL is journaled, so it may hold nothing secret."""
    if not url:
        return
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput("the model's base URL cannot be read; write it as http://localhost:11434/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("the model's base URL begins with http:// or https://, and names a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput("the model's base URL may hold no user, password, query or fragment: it is written into the journal")
