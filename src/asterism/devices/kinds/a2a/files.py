"""Files in the messages of A2A: file arguments are sent as raw parts, and the file parts of a result become files.

A file that an agent only links to is fetched under the rules for addresses (``http``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
from a2a.types import AgentCard, Part

from asterism.devices.attempts.attempt_files import CURRENT, chunks_of
from asterism.devices.kinds.a2a.content import MAX_TEXT, FilePart, UnusableResult
from asterism.devices.kinds.a2a.http import FETCH_LIMIT, RefusedAnswer
from asterism.devices.kinds.addresses import ForbiddenAddress
from asterism.devices.kinds.remote import SentFiles, one_line
from asterism.devices.port import Attempt, AttemptError, AttemptResult
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.data import files_in, safe_name
from asterism.engine.ports.files import FILE_BYTES
from asterism.errors import InvalidInput

TRIES, RETRIES = 5, Backoff(0.5, 60.0)
"""Tries to fetch a file, and the waits between them."""


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
