"""What was said to a model and what it answered, in a file, and a model that answers from such a file.

A recording is lines of JSON: first the choice of models, then one exchange a line. It holds prompts and answers as text, so
whatever the devices said is in it; it holds no header and no key. An exchange is found again by its prompt, so a run that
was killed and resumed replays as well. Not here: the models that write and read one (``model``). Needs the ``llm`` extra.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse

from asterism.errors import AsterismError, InvalidInput
from asterism.planner.model_choice import ModelChoice
from asterism.runtime.private_files import opener

VERSION = 1
SHOWN = 160
"""Characters shown of each side where two prompts differ."""
_NOT_KEPT = frozenset({"provider_url", "timestamp", "run_id", "conversation_id"})


Prompt = tuple[tuple[str, str], ...]


class NotRecorded(AsterismError):
    """A recording has no answer to what is asked; the text names the exchange that was expected."""


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a recording."""

    exchanges_of: ModelChoice
    version: int = VERSION


class Exchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt and what came of it.

    Attributes:
        number: from 1, in the file.
        model: ``provider:name``.
        prompt: what was said, as (role, text).
        response: the answer, as ``pydantic_ai`` writes one; None where there was none.
        code, reason: why there was none.
        requests: how many were sent for it.
        waits: what was waited for on the way, in words.
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
    """Writes exchanges to a file as they happen; after a crash it goes on where the file ends.

    Args:
        path: of the file; made if it is not there.
        choice: of models, for whoever replays it.
        hide: a text without what is secret in it.

    Raises:
        InvalidInput: the file cannot be written, or is something else.
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
                path.write_bytes(whole[: whole.rfind(b"\n") + 1])  # the last line may have been cut off with its process
        except OSError as error:
            raise InvalidInput(f"recording {path}: {error.strerror or error}") from None

    def write(self, model: str, messages: Sequence[ModelMessage], answer: ModelResponse | None = None, **failure: Any) -> None:
        """Write an exchange down: its answer, or the ``code``, ``reason``, ``requests`` and ``waits`` of a failure."""
        response: dict[str, Any] | None = None
        if answer is not None:
            (dumped,) = ModelMessagesTypeAdapter.dump_python([answer], mode="json")
            response = {name: it for name, it in dumped.items() if name not in _NOT_KEPT}
        lines: list[Any] = []
        if not self._written:
            lines.append(Heading(exchanges_of=msgspec.structs.replace(self._choice, base_url="", backup_base_url="", record="")))
        self._written += 1
        lines.append(Exchange(number=self._written, model=model, prompt=said(messages), response=response, **failure))
        with open(self._path, "ab", opener=opener) as file:
            file.write(b"".join(msgspec.json.encode(_each_text(msgspec.to_builtins(line), self._hide)) + b"\n" for line in lines))


class Recording:
    """Exchanges that were written down; each answers once.

    Attributes:
        choice: the models that were asked.
        exchanges: all of them, in order.

    Raises:
        InvalidInput: the file is not there, or is something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            first, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]  # what follows the last line's end was cut off
            self.choice = msgspec.json.decode(first, type=Heading).exchanges_of
            self.exchanges = [msgspec.json.decode(line, type=Exchange) for line in lines]
        except OSError as error:
            raise InvalidInput(f"recording {path}: {error.strerror or error}") from None
        except msgspec.DecodeError as error:
            raise InvalidInput(f"recording {path} is not one that --record has written: {error}") from None
        self._left = list(self.exchanges)

    def take(self, model: str, messages: Sequence[ModelMessage]) -> Exchange:
        """The next exchange of this model with this prompt.

        Raises:
            NotRecorded: there is none.
        """
        prompt = said(messages)
        found = next((exchange for exchange in self._left if (exchange.model, exchange.prompt) == (model, prompt)), None)
        if found is None:
            raise NotRecorded(f"recording {self._path}: {self._mismatch(model, prompt)}")
        self._left.remove(found)
        return found

    def _mismatch(self, model: str, prompt: Prompt) -> str:
        expected = next((exchange for exchange in self._left if exchange.model == model), None)
        if expected is None:
            return f"its {len(self.exchanges)} exchanges hold no other one with {model}, and the run asks for more"
        pairs = zip_longest(_lines(expected.prompt), _lines(prompt), fillvalue="(nothing)")
        recorded, asked = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        return f"exchange {expected.number} does not fit: it was recorded for {recorded[:SHOWN]!r}, and the run asks {asked[:SHOWN]!r}"


def response_of(exchange: Exchange) -> ModelResponse:
    """The answer of an exchange that has one."""
    (response,) = ModelMessagesTypeAdapter.validate_python([exchange.response])
    if not isinstance(response, ModelResponse):
        raise TypeError(f"exchange {exchange.number} holds a {type(response).__name__} where its answer should be")
    return response


def said(messages: Sequence[ModelMessage]) -> Prompt:
    """What a prompt says, as (role, text), without times and ids, which differ each time."""
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


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """The same JSON value with each text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_each_text(it, change) for it in value]
    if isinstance(value, dict):
        return {name: _each_text(it, change) for name, it in value.items()}
    return value
