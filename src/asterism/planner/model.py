"""A model that can be asked: the one place that makes ``provider:name`` into one, with patience and a backup. Needs the ``llm`` extra.

A request that fails for what may pass (network, overload, a rate limit) is sent again, after what ``Retry-After`` says; the
clients' own retries are off, so that nobody retries a retry. What cannot be had is :class:`ModelUnavailable`, in our own words:
a provider's message may quote a key.
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

from pydantic_ai import exceptions as trouble
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.usage import RequestUsage

from asterism.errors import AsterismError, InvalidInput
from asterism.machines.usage import Usage
from asterism.planner.model_choice import KEY_VARIABLES, ModelChoice, split_model
from asterism.planner.recording import NotRecorded, Recorder, Recording, response_of, said

MAX_DETAIL = 300
"""Characters of a provider's own message that are told."""

TOKEN = 4
"""Characters of a token, about, for a provider that does not count them."""


class ModelUnavailable(AsterismError):
    """A model gave no answer; the text says which, and why.

    Attributes:
        code: one of those below, or ``not_recorded``, where a recording that is replayed has no answer.
        requests: how many were sent for it.
        waits: what was waited for before, in words.
    """

    def __init__(self, reason: str, code: str, requests: int = 0, waits: tuple[str, ...] = ()) -> None:
        self.code = code
        self.requests = requests
        self.waits = waits
        super().__init__(reason)


class _Kind(NamedTuple):
    code: str
    passes: bool
    words: str


_TIMEOUTS = (trouble.ModelTimeoutError, trouble.ModelRequestTimeout, TimeoutError)
_KINDS: Sequence[tuple[type[BaseException] | tuple[type[BaseException], ...], _Kind]] = (  # the first that fits
    (trouble.ModelRateLimitError, _Kind("rate_limited", passes=True, words="too many requests")),
    (trouble.ModelQuotaExceededError, _Kind("quota", passes=False, words="the account has nothing left to spend")),
    (trouble.ModelUnavailableError, _Kind("overloaded", passes=True, words="it cannot serve requests now")),
    (trouble.ModelServerError, _Kind("server_error", passes=True, words="it failed to serve the request")),
    (_TIMEOUTS, _Kind("timeout", passes=True, words="no answer in time")),
    (trouble.ModelConnectionError, _Kind("unreachable", passes=True, words="it cannot be reached, or the connection broke")),
    (trouble.ModelAuthenticationError, _Kind("unauthorized", passes=False, words="it does not accept the key")),
    (trouble.ModelNotFoundError, _Kind("unknown_model", passes=False, words="there is no such model there")),
    (trouble.ModelContextWindowExceededError, _Kind("too_long", passes=False, words="the prompt is longer than it can read")),
    (trouble.ModelRequestRejectedError, _Kind("rejected", passes=False, words="it does not take the request")),
    (trouble.ContentFilterError, _Kind("filtered", passes=False, words="its content filter stopped it")),
    (trouble.OutputTokenLimitExceeded, _Kind("rejected", passes=False, words="its answer is longer than it may write")),
    (trouble.UserError, _Kind("rejected", passes=False, words="it cannot be asked so")),
    (Exception, _Kind("bad_answer", passes=True, words="its answer is not of the protocol")),
)
_TELLS_MORE = ("quota", "unknown_model", "rejected", "server_error", "overloaded")
"""Where a provider's own words help. Not for a refused key, which they like to quote."""

SHORTEST_KEY = 8
"""Characters of a key. What is shorter stands for none, as local servers take it ("any", "none"), and is in every text."""
_LOOKS_SECRET = re.compile(r"(?:\b(?:sk|pk|rk|key|api)[-_][\w*.-]{4,}|\bAIza[\w-]{8,}|\bBearer\s+\S+)", re.IGNORECASE)
_FRACTION = re.compile(r"\d{0,9}\.\d{1,9}", re.ASCII)


class Secrets:
    """What may be told to nobody: the keys in the environment."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = sorted((key for key in keys if len(key) >= SHORTEST_KEY), key=len, reverse=True)  # one may begin with another

    @classmethod
    def of_environment(cls) -> Secrets:
        """The providers' keys."""
        return cls([os.environ.get(name, "") for names in KEY_VARIABLES.values() for name in names])

    def hide(self, text: str) -> str:
        """The text without them, and without halves of characters (lone surrogates), which no request, journal or file can hold."""
        for key in self._keys:
            text = text.replace(key, "[key]")
        return text.encode(errors="replace").decode()


class PatientModel(WrapperModel):
    """A model that is asked again while what is wrong may pass. Raises ``ModelUnavailable`` and nothing else. Streams are passed through.

    Its answers carry ``metadata["requests"]``, how many were sent for it, and ``metadata["waits"]``, what was waited for, in words.

    Args:
        wrapped: the model; its client must not retry by itself.
        name: ``provider:name``, for people.
        choice: how patient to be.
        secrets: what no message may hold.
        recorder: what writes down each exchange.
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
        """One answer.

        Raises:
            ModelUnavailable: there is none.
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
                raise  # a recording has it that way
            except Exception as error:  # boundary: a provider's client may raise anything
                wait_s = self._wait_after(error, number)
                told = self._told(error, number)
                if wait_s is None:
                    raise ModelUnavailable(told, _kind_of(error).code, number, tuple(waits)) from None
            else:
                told_on = {"requests": number, "waits": tuple(waits), **(response.metadata or {})}
                return dataclasses.replace(response, usage=_counted(messages, response), metadata=told_on)
            waits.append(f"{told}; asked again after {wait_s:g} s")
            await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt has raised")

    def _wait_after(self, error: Exception, number: int) -> float | None:
        """Seconds until it is asked again; None where it is not."""
        asked_s = _asked_s(error)
        if not _kind_of(error).passes or number == self._choice.attempts or asked_s > self._choice.max_wait_s:
            return None
        return float(max(asked_s, min(self._choice.backoff_s * 2 ** (number - 1), self._choice.max_wait_s)))

    def _told(self, error: Exception, number: int) -> str:
        kind = _kind_of(error)
        status = getattr(error, "status_code", None)
        words = f"{self.name}: {kind.words}" + (f" (HTTP {status})" if status else "")
        if kind.code == "timeout":
            words += f" ({self._choice.timeout_s:g} s)"
        if kind.code in _TELLS_MORE and (detail := _detail(error)):
            words += f": {_LOOKS_SECRET.sub('[key]', self._secrets.hide(detail))[:MAX_DETAIL]}"
        if (asked_s := _asked_s(error)) > self._choice.max_wait_s:
            words += f"; it wants to be left alone for {asked_s:g} s"
        return f"{words}; asked {number} times" if number > 1 else words


def _counted(messages: Sequence[ModelMessage], response: ModelResponse) -> RequestUsage:
    """The tokens of an answer; estimated where the provider counts none, so that a limit is one there, too."""
    if response.usage.input_tokens or response.usage.output_tokens:
        return response.usage
    asked, answered = (sum(len(text) for _, text in said(it)) for it in (messages, [response]))
    return RequestUsage(input_tokens=-(-asked // TOKEN), output_tokens=-(-answered // TOKEN))


def _kind_of(error: BaseException) -> _Kind:
    return next(kind for known, kind in _KINDS if isinstance(error, known))


def _asked_s(error: Exception) -> float:
    """Seconds for which the provider wants to be left alone; 0 where it says none. The client reads no fraction of a second: ``1.5``."""
    if isinstance(error, trouble.ModelHTTPError) and error.retry_after is None:
        header = (error.headers or {}).get("retry-after", "")
        return float(header) if _FRACTION.fullmatch(header) else 0.0
    return getattr(error, "retry_after", None) or 0.0


def _detail(error: Exception) -> str:
    """The provider's own message."""
    body = getattr(error, "body", None)
    found: Any = body.get("error", body) if isinstance(body, dict) else None
    found = found.get("message") if isinstance(found, dict) else found
    return " ".join(found.split()) if isinstance(found, str) else ""


# -- making them -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ModelAccess:
    """The models that may be asked: the chosen one, then its backup.

    Attributes:
        models: one or two.
        choice: how they were chosen.
        secrets: what no text may hold.
    """

    models: Sequence[PatientModel]
    choice: ModelChoice
    secrets: Secrets

    @property
    def model(self) -> Model:
        """For an agent of pydantic-ai: the chosen one, and the backup where that gives no answer."""
        first, *others = self.models
        return FallbackModel(first, *others, fallback_on=(ModelUnavailable,)) if others else first


@contextlib.asynccontextmanager
async def open_model(choice: ModelChoice) -> AsyncIterator[ModelAccess]:
    """The models of a choice, with their connections.

    Raises:
        InvalidInput: a key is missing, or a setting or a recording cannot be used.
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
    kind = "openai-chat" if provider == "openai" else provider  # what is compatible with OpenAI speaks this one of its APIs
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
        raise InvalidInput(f"model {named}: its client takes HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, and cannot use what is there") from None


def _replayed(recording: Recording, name: str) -> Model:
    """A model that answers as it was recorded."""

    async def answer(messages: list[ModelMessage], _: Any) -> ModelResponse:
        try:
            exchange = recording.take(name, messages)
        except NotRecorded as error:
            raise ModelUnavailable(str(error), "not_recorded") from None
        if exchange.response is None:
            raise ModelUnavailable(exchange.reason, exchange.code, exchange.requests, exchange.waits)
        return response_of(exchange)

    return FunctionModel(answer, model_name=split_model(name)[1])


def usage_of(name: str, response: ModelResponse) -> Usage:
    """What an answer of a ``PatientModel`` has used; its price from a list that ships with the client, 0 where the model is not in it."""
    price = Decimal(0)
    with contextlib.suppress(LookupError, ValueError, AssertionError):  # not in the list, or not counted by the provider
        price = response.cost().total_price
    return Usage(
        model=name,
        requests=(response.metadata or {}).get("requests", 1),
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        cost_usd=float(price),
    )
