"""Models by ``provider:name``, with timeouts, retries and a backup. Needs the ``llm`` extra.

A request that fails for a temporary reason (network, overload, rate limit) is sent again, after the
time that ``Retry-After`` gives. The clients' own retries are off, so that retries do not multiply.
The error is :class:`ModelUnavailable`, in our own words: a provider's message may quote a key.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic_ai import exceptions as trouble
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.usage import RequestUsage

from asterism.constellation.planner.model_choice import KEY_VARIABLES, ModelChoice, split_model
from asterism.constellation.planner.recording import NotRecorded, Recorder, Recording, prompt_of, response_of
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.backoff import Backoff
from asterism.errors import AsterismError, InvalidInput

MAX_DETAIL = 300
"""Maximum characters of a provider's own message."""

TOKEN = 4
"""Approximate characters per token, for a provider that does not count tokens."""


class ModelUnavailable(AsterismError):
    """A model gave no answer; the text names the model and the reason.

    Attributes:
        code: a code of ``_KINDS``, or ``not_recorded`` if a recording has no answer.
        requests: the number of requests sent.
        waits: the waits between them, as sentences.
    """

    def __init__(self, reason: str, code: str, requests: int = 0, waits: tuple[str, ...] = ()) -> None:
        self.code = code
        self.requests = requests
        self.waits = waits
        super().__init__(reason)


class _Kind(NamedTuple):
    code: str
    transient: bool
    text: str


_TIMEOUTS = (trouble.ModelTimeoutError, trouble.ModelRequestTimeout, TimeoutError)
_KINDS: Sequence[tuple[type[BaseException] | tuple[type[BaseException], ...], _Kind]] = (  # the first that fits
    (trouble.ModelRateLimitError, _Kind("rate_limited", transient=True, text="too many requests")),
    (trouble.ModelQuotaExceededError, _Kind("quota", transient=False, text="the account's quota is used up")),
    (trouble.ModelUnavailableError, _Kind("overloaded", transient=True, text="the provider is overloaded")),
    (trouble.ModelServerError, _Kind("server_error", transient=True, text="the provider failed to serve the request")),
    (_TIMEOUTS, _Kind("timeout", transient=True, text="no answer in time")),
    (trouble.ModelConnectionError, _Kind("unreachable", transient=True, text="the provider is unreachable, or the connection broke")),
    (trouble.ModelAuthenticationError, _Kind("unauthorized", transient=False, text="the provider does not accept the key")),
    (trouble.ModelNotFoundError, _Kind("unknown_model", transient=False, text="the provider has no such model")),
    (trouble.ModelContextWindowExceededError, _Kind("too_long", transient=False, text="the prompt exceeds the context window")),
    (trouble.ModelRequestRejectedError, _Kind("rejected", transient=False, text="the provider rejected the request")),
    (trouble.ContentFilterError, _Kind("filtered", transient=False, text="the content filter blocked the request")),
    (trouble.OutputTokenLimitExceeded, _Kind("rejected", transient=False, text="the answer exceeds the output limit")),
    (trouble.UserError, _Kind("rejected", transient=False, text="the request is invalid")),
    (Exception, _Kind("bad_answer", transient=True, text="the answer does not follow the protocol")),
)
_WITH_DETAIL = ("quota", "unknown_model", "rejected", "server_error", "overloaded")
"""Codes whose text includes the provider's message. Not ``unauthorized``: it may quote the key."""

SHORTEST_KEY = 8
"""Minimum characters of a key. Shorter values are placeholders for local servers, such as "any"."""
_LOOKS_SECRET = re.compile(r"(?:\b(?:sk|pk|rk|key|api)[-_][\w*.-]{4,}|\bAIza[\w-]{8,}|\bBearer\s+\S+)", re.IGNORECASE)
_FRACTION = re.compile(r"\d{0,9}\.\d{1,9}", re.ASCII)


class Secrets:
    """The keys in the environment, which no text may contain."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = sorted(
            (key for key in keys if len(key) >= SHORTEST_KEY), key=len, reverse=True
        )  # longest first: one may begin with another

    @classmethod
    def of_environment(cls) -> Secrets:
        """Return the providers' keys."""
        return cls([os.environ.get(name, "") for names in KEY_VARIABLES.values() for name in names])

    def hide(self, text: str) -> str:
        """Return the text without keys, and without lone surrogates, which cannot be encoded."""
        for key in self._keys:
            text = text.replace(key, "[key]")
        return text.encode(errors="replace").decode()


class PatientModel(WrapperModel):
    """A model that retries temporary errors, except in streams. Raises only ``ModelUnavailable``.

    Answers carry ``metadata["requests"]``, the number of requests sent, and ``metadata["waits"]``,
    the waits between them as sentences.

    The client of the wrapped model must not retry. The name is ``provider:name``, for people.
    """

    def __init__(self, wrapped: Model, name: str, choice: ModelChoice, secrets: Secrets, recorder: Recorder | None = None) -> None:
        super().__init__(wrapped)
        self.name = name
        self._choice = choice
        self._secrets = secrets
        self._recorder = recorder

    async def request(
        self, messages: list[ModelMessage], model_settings: ModelSettings | None, model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        """Return one answer.

        Raises:
            ModelUnavailable: the model gives no answer.
        """
        try:
            response = await self._answer(messages, model_settings, model_request_parameters)
        except ModelUnavailable as it:
            if self._recorder:
                self._recorder.write(self.name, messages, code=it.code, reason=str(it), requests=it.requests, waits=it.waits)
            raise
        if self._recorder:
            self._recorder.write(self.name, messages, response)
        return response

    async def _answer(
        self, messages: list[ModelMessage], model_settings: ModelSettings | None, model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        settings = merge_model_settings(model_settings, ModelSettings(max_retries=0))
        waits: list[str] = []
        for number in range(1, self._choice.attempts + 1):
            try:
                async with asyncio.timeout(self._choice.timeout_s):
                    response = await self.wrapped.request(messages, settings, model_request_parameters)
            except ModelUnavailable:
                raise  # from a recording
            except Exception as error:  # boundary: a provider's client may raise anything
                wait_s = self._wait_after(error, number)
                text = self._error_text(error, number)
                if wait_s is None:
                    raise ModelUnavailable(text, _kind_of(error).code, number, tuple(waits)) from None
            else:
                metadata = {"requests": number, "waits": tuple(waits), **(response.metadata or {})}
                return dataclasses.replace(response, usage=_counted(messages, response), metadata=metadata)
            waits.append(f"{text}; retried after {wait_s:g} s")
            await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt raises")

    def _wait_after(self, error: Exception, number: int) -> float | None:
        """Return the seconds before the next request; None for no further request."""
        asked_s = _asked_s(error)
        if not _kind_of(error).transient or number == self._choice.attempts or asked_s > self._choice.max_wait_s:
            return None
        return max(asked_s, Backoff(self._choice.backoff_s, self._choice.max_wait_s).wait_s(number))

    def _address(self) -> str:
        """Return the address of the provider, without a name or password in it."""
        parts = urlsplit(getattr(self.wrapped, "base_url", None) or "")
        port = f":{parts.port}" if parts.port else ""
        return f" (at {parts.scheme}://{parts.hostname}{port}{parts.path})" if parts.hostname else ""

    def _error_text(self, error: Exception, number: int) -> str:
        kind = _kind_of(error)
        status = getattr(error, "status_code", None)
        text = f"{self.name}: {kind.text}" + (f" (HTTP {status})" if status else "")
        if kind.code == "unreachable":
            text += self._address()
        if kind.code == "timeout":
            text += f" ({self._choice.timeout_s:g} s)"
        if kind.code in _WITH_DETAIL and (detail := _detail(error)):
            text += f": {_LOOKS_SECRET.sub('[key]', self._secrets.hide(detail))[:MAX_DETAIL]}"
        if (asked_s := _asked_s(error)) > self._choice.max_wait_s:
            text += f"; it asks for a wait of {asked_s:g} s"
        return f"{text}; tried {number} times" if number > 1 else text


def _counted(messages: Sequence[ModelMessage], response: ModelResponse) -> RequestUsage:
    """Return the tokens of an answer, estimated if the provider counts none: limits need them."""
    if response.usage.input_tokens or response.usage.output_tokens:
        return response.usage
    asked, answered = (sum(len(text) for _, text in prompt_of(it)) for it in (messages, [response]))
    return RequestUsage(input_tokens=-(-asked // TOKEN), output_tokens=-(-answered // TOKEN))


def _kind_of(error: BaseException) -> _Kind:
    return next(kind for known, kind in _KINDS if isinstance(error, known))


def _asked_s(error: Exception) -> float:
    """Return the ``Retry-After`` of an error in seconds; 0 if it has none.

    The client does not parse fractions such as ``1.5``.
    """
    if isinstance(error, trouble.ModelHTTPError) and error.retry_after is None:
        header = (error.headers or {}).get("retry-after", "")
        return float(header) if _FRACTION.fullmatch(header) else 0.0
    return getattr(error, "retry_after", None) or 0.0


def _detail(error: Exception) -> str:
    """Return the provider's own message."""
    body = getattr(error, "body", None)
    found: Any = body.get("error", body) if isinstance(body, dict) else None
    found = found.get("message") if isinstance(found, dict) else found
    return " ".join(found.split()) if isinstance(found, str) else ""


# -- opening models --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ModelAccess:
    """The models to ask: the chosen one, then its backup.

    Attributes:
        models: one or two.
        choice: the settings that they were opened with.
        secrets: the keys that no text may contain.
    """

    models: Sequence[PatientModel]
    choice: ModelChoice
    secrets: Secrets

    @property
    def model(self) -> Model:
        """Return a pydantic-ai model: the chosen one, with the backup as fallback."""
        first, *others = self.models
        return FallbackModel(first, *others, fallback_on=(ModelUnavailable,)) if others else first


@contextlib.asynccontextmanager
async def open_model(choice: ModelChoice) -> AsyncIterator[ModelAccess]:
    """Open the models of a choice, with their connections.

    Raises:
        InvalidInput: a key is missing, or a setting or a recording is invalid.
    """
    secrets = Secrets.of_environment()
    recorder = Recorder(Path(choice.record), choice, secrets.hide) if choice.record else None
    recording = Recording(Path(choice.replays)) if choice.replays else None
    choice = recording.choice if recording else choice
    wanted = [(choice.model, choice.base_url)] + ([(choice.backup, choice.url_of_backup())] if choice.backup else [])
    models = [
        PatientModel(_replayed(recording, name) if recording else _made(name, url), name, choice, secrets, recorder) for name, url in wanted
    ]
    async with contextlib.AsyncExitStack() as stack:
        for model in models:
            await stack.enter_async_context(model)
        yield ModelAccess(models, choice, secrets)


def _made(named: str, base_url: str) -> Model:
    provider, name = split_model(named)
    kind = "openai-chat" if provider == "openai" else provider  # compatible servers implement this API of OpenAI's
    if provider == "ollama":
        base_url = base_url or os.environ.get("OLLAMA_BASE_URL") or "http://localhost:11434/v1"

    def client(_: str) -> Any:
        made: Any = infer_provider_class(provider)
        return made(base_url=base_url or None)

    try:
        return infer_model(f"{kind}:{name}", client)
    except trouble.UserError:
        raise InvalidInput(f"model {named} needs a key: set {' or '.join(KEY_VARIABLES[provider])} in the environment") from None
    except ValueError:  # the message may quote the proxy's password
        raise InvalidInput(
            f"model {named}: its client cannot use the value of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY; correct or unset it"
        ) from None


def _replayed(recording: Recording, name: str) -> Model:
    """Return a model that answers from a recording."""

    async def answer(messages: list[ModelMessage], _: Any) -> ModelResponse:
        try:
            exchange = recording.next_exchange(name, messages)
        except NotRecorded as error:
            raise ModelUnavailable(str(error), "not_recorded") from None
        if exchange.response is None:
            raise ModelUnavailable(exchange.reason, exchange.code, exchange.requests, exchange.waits)
        return response_of(exchange)

    return FunctionModel(answer, model_name=split_model(name)[1])


def usage_of(name: str, response: ModelResponse) -> Usage:
    """Return the usage of a ``PatientModel``'s answer.

    The price is from the client's price list; 0 if the list lacks the model.
    """
    price = Decimal(0)
    with contextlib.suppress(LookupError, ValueError, AssertionError):  # no price, or no token counts
        price = response.cost().total_price
    return Usage(
        model=name,
        requests=(response.metadata or {}).get("requests", 1),
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        cost_usd=float(price),
    )
