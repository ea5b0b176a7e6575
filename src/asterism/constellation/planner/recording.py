"""Recordings of a model's exchanges: files to write, and to answer from. Needs the ``llm`` extra.

A recording has one JSON value per line: first the choice of models, then the exchanges. It holds
prompts and answers as text, including device output, but no headers or keys. An exchange is found
by its prompt, so a run that was killed and resumed replays as well. The models that write and read
recordings are in ``model``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse

from asterism.constellation.planner.model_choice import ModelChoice
from asterism.engine.runtime.private_files import opener
from asterism.errors import AsterismError, InvalidInput

VERSION = 1
SHOWN = 160
"""Maximum characters shown of each side where two prompts differ."""
_OMITTED = frozenset({"provider_url", "timestamp", "run_id", "conversation_id"})


Prompt = tuple[tuple[str, str], ...]


class NotRecorded(AsterismError):
    """A recording has no answer to a prompt; the text names the expected exchange."""


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a recording."""

    exchanges_of: ModelChoice
    version: int = VERSION


class Exchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt, and the answer or the failure.

    Attributes:
        number: position in the file, from 1.
        model: ``provider:name``.
        prompt: the prompt, as (role, text).
        response: the answer, as ``pydantic_ai`` serializes it; None for a failure.
        code, reason: the failure.
        requests: the number of requests sent.
        waits: the waits between requests, as sentences.
    """

    number: int
    model: str
    prompt: Prompt
    response: dict[str, Any] | None = None
    code: str = ""
    reason: str = ""
    requests: int = 1
    waits: tuple[str, ...] = ()


class Recorder:
    """Appends exchanges to a file as they happen; after a crash it continues the file.

    ``choice`` has the models, for replays; ``hide`` removes secrets from a text.

    Raises:
        InvalidInput: the file cannot be written, or is no recording.
    """

    def __init__(self, path: Path, choice: ModelChoice, hide: Callable[[str], str]) -> None:
        self._path = path
        self._choice = choice
        self._hide = hide
        self._written = 0
        try:
            if not path.parent.is_dir():
                raise InvalidInput(f"recording {path}: there is no folder {path.parent}")
            if path.exists():
                self._written = len(Recording(path).exchanges)
                whole = path.read_bytes()
                path.write_bytes(whole[: whole.rfind(b"\n") + 1])  # a killed process may have cut off the last line
        except OSError as error:
            raise InvalidInput(f"recording {path}: {error.strerror or error}") from None

    def write(self, model: str, messages: Sequence[ModelMessage], answer: ModelResponse | None = None, **failure: Any) -> None:
        """Append an exchange: its answer, or the fields of its failure, as in ``Exchange``."""
        response: dict[str, Any] | None = None
        if answer is not None:
            (dumped,) = ModelMessagesTypeAdapter.dump_python([answer], mode="json")
            response = {name: it for name, it in dumped.items() if name not in _OMITTED}
        lines: list[Any] = []
        if not self._written:
            lines.append(Heading(exchanges_of=msgspec.structs.replace(self._choice, base_url="", backup_base_url="", record="")))
        self._written += 1
        lines.append(Exchange(number=self._written, model=model, prompt=prompt_of(messages), response=response, **failure))
        with open(self._path, "ab", opener=opener) as file:
            file.write(b"".join(msgspec.json.encode(_map_text(msgspec.to_builtins(line), self._hide)) + b"\n" for line in lines))


class Recording:
    """Recorded exchanges; each answers one request.

    Attributes:
        choice: the recorded models.
        exchanges: all exchanges, in order.

    Raises:
        InvalidInput: the file does not exist, or is no recording.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            first, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]  # text after the last line end was cut off
            self.choice = msgspec.json.decode(first, type=Heading).exchanges_of
            self.exchanges = [msgspec.json.decode(line, type=Exchange) for line in lines]
        except OSError as error:
            raise InvalidInput(f"recording {path}: {error.strerror or error}") from None
        except msgspec.DecodeError as error:
            raise InvalidInput(f"recording {path}: not a file that --record has written: {error}") from None
        self._left = list(self.exchanges)

    def next_exchange(self, model: str, messages: Sequence[ModelMessage]) -> Exchange:
        """Return and use up the next exchange of this model with this prompt.

        Raises:
            NotRecorded: no such exchange is left.
        """
        prompt = prompt_of(messages)
        found = next((exchange for exchange in self._left if (exchange.model, exchange.prompt) == (model, prompt)), None)
        if found is None:
            raise NotRecorded(f"recording {self._path}: {self._mismatch(model, prompt)}")
        self._left.remove(found)
        return found

    def _mismatch(self, model: str, prompt: Prompt) -> str:
        expected = next((exchange for exchange in self._left if exchange.model == model), None)
        if expected is None:
            return f"none of its {len(self.exchanges)} exchanges with {model} is left, and the run asks for one more"
        pairs = zip_longest(_lines(expected.prompt), _lines(prompt), fillvalue="(nothing)")
        recorded, asked = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        return f"exchange {expected.number} does not match: it was recorded for {recorded[:SHOWN]!r}, and the run asks {asked[:SHOWN]!r}"


def response_of(exchange: Exchange) -> ModelResponse:
    """Return the answer of an exchange that has one."""
    (response,) = ModelMessagesTypeAdapter.validate_python([exchange.response])
    if not isinstance(response, ModelResponse):
        raise TypeError(f"exchange {exchange.number} holds a {type(response).__name__} instead of an answer")
    return response


def prompt_of(messages: Sequence[ModelMessage]) -> Prompt:
    """Return a prompt as (role, text), without times and ids, which differ each time."""
    found: list[tuple[str, str]] = []
    for message in messages:
        if isinstance(message, ModelRequest) and message.instructions:
            found.append(("instructions", message.instructions))
        for part in message.parts:
            content = getattr(part, "content", None) or getattr(part, "args", None) or ""
            found.append((part.part_kind, content if isinstance(content, str) else json.dumps(content, default=str, ensure_ascii=False)))
    return tuple(found)


def _lines(prompt: Prompt) -> Iterator[str]:
    return (line for _, text in prompt for line in text.splitlines())


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with ``change`` applied to each text in it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_map_text(it, change) for it in value]
    if isinstance(value, dict):
        return {name: _map_text(it, change) for name, it in value.items()}
    return value
