"""The choice of a model, its timeouts and retries: plain data, so settings import no model library.

It holds no key: each provider's client reads its own variable, and no setting, journal or message
contains one.
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
"""Provider -> variables of its key, first to last. ``replay:FILE`` answers from a recording."""

MODEL_VARIABLES = {
    "model": "ASTERISM_MODEL",
    "backup": "ASTERISM_BACKUP_MODEL",
    "base_url": "ASTERISM_MODEL_BASE_URL",
    "backup_base_url": "ASTERISM_BACKUP_MODEL_BASE_URL",
    "timeout_s": "ASTERISM_MODEL_TIMEOUT_S",
    "attempts": "ASTERISM_MODEL_ATTEMPTS",
    "examples": "ASTERISM_PLANNER_EXAMPLES",
}
"""Field of ``ModelChoice`` -> its environment variable. Keys are in the providers' variables."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A model, its backup, and the timeouts and retries.

    Attributes:
        model: ``provider:name``, as in ``openai:gpt-4o``. ``openai`` with a base URL reaches any
            compatible API.
        backup: ``provider:name`` to ask if the first model gives no usable answer; empty for none.
        base_url: URL of the first model; empty for the provider's default.
        backup_base_url: URL of the backup; empty for ``base_url`` if both have one provider.
        timeout_s: seconds allowed for one request.
        attempts: maximum requests for one answer of one model, while errors are temporary.
        backoff_s: seconds before the second request; doubled for each further one.
        max_wait_s: maximum seconds of a wait; a provider that asks for more is not retried.
        reprompts: times that one model may correct a reply.
        examples: folder with demonstrations (``creation.json``, ``editing.json``); empty for the
            built-in ones.
        record: file for the exchanges, to be replayed by ``replay:FILE``; empty for none.
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
        """Path of the recording that replaces a model; empty for a real model."""
        provider, name = split_model(self.model)
        return name if provider == "replay" else ""

    def url_of_backup(self) -> str:
        """Return the backup's base URL; empty for the provider's default."""
        same = split_model(self.backup)[0] == split_model(self.model)[0]
        return self.backup_base_url or (self.base_url if same else "")


def choose_model(**given: Any) -> ModelChoice:
    """Return a validated choice.

    Args:
        given: the fields of ``ModelChoice``; numbers may be given as text.

    Raises:
        InvalidInput: a field is invalid. Names the field.
    """
    try:
        choice = msgspec.convert(given, ModelChoice, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the model's settings: {error}") from None
    if choice.replays and (choice.backup or choice.record):
        raise InvalidInput(
            f"model {choice.model}: a recording already has the replies of the backup model; omit the backup model and the file to record"
        )
    if choice.backup and split_model(choice.backup)[0] == "replay":
        raise InvalidInput(f"model {choice.backup}: a recording cannot be a backup; give it as the model")
    for url in (choice.base_url, choice.backup_base_url):
        _check_url(url)
    return choice


def choose_by_name(model: str, environment: Mapping[str, str] = os.environ) -> ModelChoice:
    """Return the choice for a model name; the environment gives the other settings.

    The base URL is ignored if ``$ASTERISM_MODEL`` names a model of another provider.

    Raises:
        InvalidInput: the model or a setting is invalid.
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
    """Split ``provider:name`` into its two parts.

    Raises:
        InvalidInput: the text has another form, or the provider is unknown.
    """
    provider, _, name = named.partition(":")
    if provider not in KEY_VARIABLES or not name.strip():
        raise InvalidInput(f"model {named[:100]!r}: write provider:name, where the provider is one of {', '.join(KEY_VARIABLES)}")
    return provider, name


def _check_url(url: str) -> None:
    """Check a base URL. It is journaled, so it must hold no secret."""
    if not url:
        return
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput("the model's base URL is not a valid URL; write it as http://localhost:11434/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("the model's base URL must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput("the model's base URL must not contain a user, password, query or fragment: the journal records it")
