"""Values, texts, files and profiles in the messages of A2A.

A number in a ``data`` part is a double, so JSON is sent as text with the media type of JSON, which
keeps every digit. All text of an agent is bounded, and is data: it reaches a planner or a person as
one line of printable characters. File arguments are sent as raw parts, and the file parts of a result
become files. A file that an agent only links to is fetched under the rules for addresses (``http``).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import httpx
import msgspec
from a2a.types import AgentCard, Message, Part, Role, Task, TaskArtifactUpdateEvent
from google.protobuf.json_format import MessageToDict

from asterism.devices.attempts.attempt_files import CURRENT, chunks_of
from asterism.devices.kinds.a2a.http import FETCH_LIMIT, RefusedAnswer
from asterism.devices.kinds.addresses import ForbiddenAddress
from asterism.devices.kinds.remote import SentFiles
from asterism.devices.port import Attempt, AttemptError, AttemptResult
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.data import files_in, one_line, safe_name
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.ports.files import FILE_BYTES
from asterism.errors import InvalidInput

JSON_TYPE = "application/json"
MAX_RESULT_BYTES = 1024 * 1024
MAX_RAW_BYTES = 16 * 1024 * 1024
"""Bytes of the files that a result contains; those that it links to do not count."""
MAX_TEXT = 500
"""Characters of a description, an error or a report of progress."""
MAX_PROMPT = 4000
MAX_SKILLS, MAX_TAG, MAX_TAGS = 30, 60, 50
TRIES, RETRIES = 5, Backoff(0.5, 60.0)
"""Tries to fetch a file, and the waits between them."""
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "asterism:attempt")


class UnusableResult(AttemptError):
    """The artifacts of a task cannot be a result."""

    def __init__(self, why: str) -> None:
        super().__init__("bad_result", why)


class FilePart(NamedTuple):
    """A file in a result that is not stored yet: its content, or the address of it."""

    name: str
    media_type: str
    raw: bytes
    url: str


def message_id(message_key: str) -> str:
    """Return the id of the message that begins a leg: the same after a crash."""
    return str(uuid.uuid5(_NAMESPACE, message_key))


def request_of(attempt: Attempt, files: Iterable[Part], *, takes_json: bool) -> Message:
    """Return the first message of an attempt: the task in words, then its arguments and results as JSON, then its files.

    Args:
        attempt: the attempt.
        files: its file arguments.
        takes_json: True if the agent accepts a part of that type; else the JSON follows in the text.
    """
    text = attempt.description or attempt.skill or attempt.task_id
    named = {"arguments": attempt.arguments, "results": attempt.results}
    values = {name: value for name, value in named.items() if value}
    parts = [Part(text=text)]
    if values and takes_json:
        parts.append(_json_part(values))
    elif values:
        parts = [Part(text=f"{text}\n\n{_json(values)}")]
    return Message(message_id=message_id(attempt.message_key), role=Role.ROLE_USER, parts=[*parts, *files])


def reply_of(attempt: Attempt, task_id: str) -> Message:
    """Return the message of a person's reply, on the task that asked."""
    reply = attempt.reply
    value = "The authorization is complete." if reply is None or reply.verb == "approve" else reply.value
    return Message(
        message_id=message_id(attempt.message_key),
        role=Role.ROLE_USER,
        task_id=task_id,
        context_id=attempt.state.get("context", ""),
        parts=[Part(text=value) if isinstance(value, str) and value else _json_part(value)],
    )


def result_of(task: Task) -> AttemptResult:
    """Return the artifacts of a completed task as the result of its attempt.

    One part is the result: JSON as its value, text as text, and a file as a ``FilePart``. Several
    are a list. Without an artifact the last message of the agent is the result; without both it is null.
    """
    try:
        return AttemptResult(result=value_of([it.parts for it in task.artifacts] or [task.status.message.parts]))
    except UnusableResult as error:
        return error.end


def value_of(groups: Sequence[Iterable[Part]]) -> Any:
    """Return the value of several artifacts, or of one message.

    Raises:
        UnusableResult: it is too large, or a part with the type of JSON is not JSON.
    """
    parts = [list(group) for group in groups]
    _check_size(part for group in parts for part in group)
    values = [value for group in parts for value in _values(group)]
    return values[0] if len(values) == 1 else values or None


def text_of(parts: Iterable[Part]) -> str:
    """Return the parts of a message as text for a person, links included and data that is not JSON left out."""
    texts: list[str] = []
    for part in parts:
        with contextlib.suppress(UnusableResult):
            texts.append(part.text or part.url or (_json(_value(part)) if part.HasField("data") else ""))
    return "\n".join(text for text in texts if text)


def add_artifact(task: Task, update: TaskArtifactUpdateEvent) -> None:
    """Add a part of an artifact to the task that a stream builds.

    Raises:
        UnusableResult: the artifacts have become too large.
    """
    sent = update.artifact
    known = next((it for it in task.artifacts if it.artifact_id == sent.artifact_id), None)
    if known is None:
        task.artifacts.append(sent)
    elif update.append:
        known.parts.extend(sent.parts)
    else:
        known.CopyFrom(sent)
    _check_size(part for it in task.artifacts for part in it.parts)


def described(profile: AgentProfile, card: AgentCard) -> AgentProfile:
    """Return the profile of a device with what the card of its agent says.

    The skills of a card have no parameters: they are words for the planner. The fleet file's own
    description and capabilities come first.
    """
    skills = list(card.skills)[:MAX_SKILLS]
    words = [*profile.capabilities, *(one_line(word, MAX_TAG) for skill in skills for word in (skill.name, *skill.tags))]
    listed = [{"name": one_line(skill.name, MAX_TAG), "description": one_line(skill.description, MAX_TEXT)} for skill in skills]
    return msgspec.structs.replace(
        profile,
        description=profile.description or one_line(card.description, MAX_TEXT),
        capabilities=tuple(dict.fromkeys(word for word in words if word))[: max(MAX_TAGS, len(profile.capabilities))],
        natural_language=True,
        metadata={**profile.metadata, "agent": one_line(card.name, MAX_TAG), "skills": listed},
        reattach=True,
    )


def takes_json(card: AgentCard) -> bool:
    """Return whether the agent accepts a part with the type of JSON."""
    return any(mode in {JSON_TYPE, "application/*", "*/*"} for mode in card.default_input_modes)


def _values(parts: list[Part]) -> list[Any]:
    """Return the values of one artifact; a text that arrived in pieces is one text."""
    values: list[Any] = []
    for (kind, media_type), group in groupby(parts, lambda part: (part.WhichOneof("content"), part.media_type)):
        if kind != "text":
            values += [_value(part) for part in group]
            continue
        text = "".join(part.text for part in group)
        values.append(_parsed(text) if media_type.partition(";")[0] == JSON_TYPE else text)
    return values


def _value(part: Part) -> Any:
    if part.HasField("data"):
        try:
            return _with_integers(MessageToDict(part.data))
        except ValueError as error:  # NaN and the infinities
            raise UnusableResult(f"a data part of the result is not JSON: {error}") from None
    if part.WhichOneof("content") is None:
        return None
    return FilePart(part.filename or part.url.partition("?")[0], one_line(part.media_type, MAX_TAG), part.raw, part.url)


def _with_integers(value: Any) -> Any:
    """Return a value of a ``data`` part, where every number is a double, with whole numbers as integers."""
    if isinstance(value, dict):
        return {name: _with_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53 else value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableResult(f"a part of the result has the type {JSON_TYPE} and is not JSON: {error}") from None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json_part(value: Any) -> Part:
    return Part(text=_json(value), media_type=JSON_TYPE)


def _check_size(parts: Iterable[Part]) -> None:
    """Raise UnusableResult if parts of a result are too large together; files have a limit of their own."""
    size = raw = 0
    for part in parts:
        raw += len(part.raw)
        size += part.ByteSize() - len(part.raw)
    if size > MAX_RESULT_BYTES:
        raise UnusableResult(f"the result has {size:,} bytes, and the limit is {MAX_RESULT_BYTES:,}")
    if raw > MAX_RAW_BYTES:
        raise UnusableResult(f"the result has files of {raw:,} bytes, and the limit is {MAX_RAW_BYTES:,}; link to them")


async def parts_of(attempt: Attempt, card: AgentCard) -> list[Part]:
    """Return the file arguments of an attempt as raw parts.

    Raises:
        AttemptError: ``bad_arguments`` if the agent takes no such file; or one is too large, missing, damaged, or of another run.
    """
    named = {(it["$file"], safe_name(it.get("name"))): it for it in files_in(attempt.arguments)}
    parts: list[Part] = []
    sent = SentFiles(attempt.device_id)
    for (_, name), value in sorted(named.items()):
        media_type = str(value.get("media_type") or "application/octet-stream")
        if not _takes(card, media_type):
            modes = ", ".join(one_line(mode, 60) for mode in _modes(card)[:10])
            message = f"file {name}: device {attempt.device_id} takes no {media_type}; its card names {modes}"
            raise AttemptError("bad_arguments", message)
        parts.append(Part(raw=await sent.content(value), filename=name, media_type=media_type))
    return parts


async def with_files(end: AttemptResult, http: httpx.AsyncClient) -> AttemptResult:
    """Return the end of an attempt with its file parts stored, as values that name files.

    Raises:
        UnusableResult: one cannot be fetched, is too large, or there is no store for files.
    """
    values = end.result if isinstance(end.result, list) else [end.result]
    if not any(isinstance(it, FilePart) for it in values):
        return end
    found = [await _stored(it, http) if isinstance(it, FilePart) else it for it in values]
    return msgspec.structs.replace(end, result=found if isinstance(end.result, list) else found[0])


async def _stored(part: FilePart, http: httpx.AsyncClient) -> dict[str, Any]:
    if (files := CURRENT.get()) is None:
        raise UnusableResult("the result has a file, and this program has no store for files")
    for tried in range(1, TRIES + 1):
        try:
            chunks = _fetched(part.url, http) if part.url else chunks_of(part.raw)
            async with contextlib.aclosing(chunks):  # type: ignore[type-var]
                return await files.put(part.name, chunks, part.media_type)
        except ForbiddenAddress as error:
            raise UnusableResult(f"file {safe_name(part.name)}: refused to connect: {error}") from error
        except (InvalidInput, RefusedAnswer, httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
            raise UnusableResult(f"file {safe_name(part.name)}: {error}") from error
        except httpx.HTTPError as error:
            is_final = isinstance(error, httpx.HTTPStatusError) and error.response.status_code < httpx.codes.INTERNAL_SERVER_ERROR
            if is_final or tried == TRIES:
                raise UnusableResult(f"file {safe_name(part.name)}: {one_line(str(error) or type(error).__name__, MAX_TEXT)}") from error
        await asyncio.sleep(RETRIES.wait_s(tried))
    raise AssertionError("the last try returns or raises")


async def _fetched(url: str, http: httpx.AsyncClient) -> AsyncIterator[bytes]:
    """Yield the content at an address; each redirect follows the rules for addresses, too."""
    if not url.startswith(("https://", "http://")):
        raise UnusableResult(f"{one_line(url, 100)} is no link that can be followed; it begins with https:// or http://")
    async with http.stream("GET", url, follow_redirects=True, extensions={FETCH_LIMIT: FILE_BYTES}) as response:
        response.raise_for_status()
        async for chunk in response.aiter_raw():
            yield chunk


def _takes(card: AgentCard, media_type: str) -> bool:
    """Return whether the card names the media type, or names none. Older cards have words: ``file``, ``image``."""
    modes, wanted = _modes(card), media_type.partition(";")[0].strip().lower()
    kind = wanted.partition("/")[0]
    return not modes or any(mode in {wanted, kind, f"{kind}/*", "*/*", "*", "file"} for mode in modes)


def _modes(card: AgentCard) -> list[str]:
    all_modes = [*card.default_input_modes, *(mode for skill in card.skills for mode in skill.input_modes)]
    return list(dict.fromkeys(mode.partition(";")[0].strip().lower() for mode in all_modes))
