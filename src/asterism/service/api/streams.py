"""Server-sent events: the deltas of one run, or of many over one connection."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from asterism.constellation.python.handle import is_idle
from asterism.engine.ports.store import RunRow
from asterism.engine.ports.tokens import TokenRow
from asterism.errors import AsterismError
from asterism.service.api.changes import ListWatcher, Topic
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.feeds import Batch
from asterism.service.api.identity import Reader, owner_of
from asterism.service.api.models import Seq
from asterism.service.api.problems import Problem, documented, problem_of

router = APIRouter(tags=["streams"])

COMMENT_S = 10.0
"""Seconds after which a silent stream sends a comment, so that no proxy closes it."""
LISTS_S = 1.0
"""Seconds between two looks at the lists of a stream's topics, at most."""
PART_BYTES = 1 << 16
"""Bytes that are written at once: the connection holds about as many that the client has not read."""
MAX_RUNS = 500
"""Runs of one stream."""

_CURSOR = re.compile(r"(?P<run>[^@,]+)@(?P<seq>[0-9]{1,15})")
_SSE = "text/event-stream"
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {_SSE: {"schema": {"type": "string"}}}, "description": "Server-sent events."}}
Words = Callable[[dict[str, int], Sequence[Batch]], bytes]
"""Returns what the watchers of some runs receive as events; the cursors are those before it."""

LastEventId = Annotated[str | None, Header(max_length=50_000, description="Id of the last event that was received.")]


@router.get("/runs/{run_id}/stream", response_class=StreamingResponse, responses={**_STREAM, **documented(404, 409, 422)})
async def stream_run(
    run_id: str, context: Context, sender: Reader, after: Annotated[Seq, Query()] = 0, last_event_id: LastEventId = None
) -> StreamingResponse:
    """Follow a run: an event `delta` for each entry after `after`, with its seq as id.

    The event `idle` says that the run has ended, or waits for a person, and has no entry after the seq in it.
    The event `reset` has a seq: the stream continues after it, and the view at it must be read. The event `problem` ends the stream.
    """
    row = await context.run(run_id, sender.tenant)
    cursor = int(last_event_id) if last_event_id and re.fullmatch(r"[0-9]{1,15}", last_event_id) else after
    return _response(context, sender, [row], {run_id: cursor}, _one_run)


@router.get("/stream", response_class=StreamingResponse, responses={**_STREAM, **documented(404, 409, 422)})
async def stream_runs(
    context: Context,
    sender: Reader,
    run: Annotated[list[str], Query(max_length=MAX_RUNS, description="`ID@SEQ`, or `ID` for all deltas.")] = [],  # noqa: B006 - FastAPI copies it
    topic: Annotated[list[Topic], Query(max_length=3, description="Lists of which the ids that changed are sent.")] = [],  # noqa: B006 - as above
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """Follow many runs: an event `deltas` has a list of runs, each with its next deltas; its id lists the cursors.

    The events `reset` and `problem` name the run. An event `changed` has a topic and the ids that changed, or null: read the list again.
    """
    if not run and not topic:
        raise Problem(422, "name a run or a topic")
    named, received = _cursors(run), _cursors(last_event_id.split(",")) if last_event_id else {}
    rows = [await context.run(run_id, sender.tenant) for run_id in named]
    return _response(context, sender, rows, {run_id: received.get(run_id, seq) for run_id, seq in named.items()}, _many_runs, topic)


def _cursors(given: Sequence[str]) -> dict[str, int]:
    """Return the seqs of ``ID@SEQ``, by id; 0 without one."""
    found = {}
    for text in given:
        parts = _CURSOR.fullmatch(text)
        found[parts["run"] if parts else text] = int(parts["seq"]) if parts else 0
    return found


def _response(
    context: ApiContext, sender: TokenRow, rows: Sequence[RunRow], cursors: dict[str, int], words: Words, topics: Sequence[Topic] = ()
) -> StreamingResponse:
    for row in rows:
        context.client.form_of(row)
    return _Stream(_events(context, sender, rows, cursors, words, topics), context, sender)


class _Stream(StreamingResponse):
    """A stream that counts as one of its token until it is closed; the listener closes that of a client that does not read."""

    media_type = _SSE

    def __init__(self, content: AsyncIterator[bytes], context: ApiContext, sender: TokenRow) -> None:
        super().__init__(_in_parts(content), headers={"X-Accel-Buffering": "no"})
        self._counted = functools.partial(context.limits.stream, owner_of(sender))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._counted():
            await super().__call__(scope, receive, send)


async def _in_parts(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for chunk in content:
        for at in range(0, len(chunk), PART_BYTES):
            yield chunk[at : at + PART_BYTES]


async def _events(
    context: ApiContext, sender: TokenRow, rows: Sequence[RunRow], cursors: dict[str, int], words: Words, topics: Sequence[Topic]
) -> AsyncIterator[bytes]:
    """Yield events until the server stops, no run can be followed, or the token cannot be used any more."""
    yield b": \n\n"
    checked_at, idle_at = context.clock.monotonic(), -1
    lists = ListWatcher(context.store, context.feeds.changes, sender.tenant, topics)
    try:
        async with contextlib.aclosing(context.feeds.follow(rows, cursors, LISTS_S if topics else COMMENT_S)) as batches:
            async for found in batches:
                for topic, ids in (await lists.changed()).items() if topics else ():
                    yield _event("changed", {"topic": topic, "ids": ids})
                yield words(cursors, found) if found else b": \n\n"
                if not found and words is _one_run and idle_at < cursors[rows[0].run_id]:
                    row = await context.store.run(rows[0].run_id)
                    if is_idle(row) and row.seq <= cursors[row.run_id]:
                        idle_at = cursors[row.run_id]
                        yield _event("idle", {"seq": row.seq, "status": row.status})
                if context.clock.monotonic() >= checked_at + COMMENT_S:
                    checked_at = context.clock.monotonic()
                    if not await _is_usable(context, sender, context.clock.now()):
                        return
    except AsterismError as error:  # the response has begun
        yield _event("problem", {"detail": problem_of(error).detail})


async def _is_usable(context: ApiContext, sender: TokenRow, now: float) -> bool:
    found = [await context.store.token(token_id) for token_id in (sender.token_id, sender.parent) if token_id]
    return all(row is not None and row.usable(now) for row in found)


def _advance(cursors: dict[str, int], batches: Sequence[Batch]) -> None:
    for batch in batches:
        if batch.lines:
            cursors[batch.run_id] = batch.lines[-1].seq
        elif batch.reset is not None:
            cursors[batch.run_id] = batch.reset


def _one_run(cursors: dict[str, int], batches: Sequence[Batch]) -> bytes:
    """Return the events of the stream of one run; its cursor advances."""
    _advance(cursors, batches)
    parts = []
    for batch in batches:
        parts += [_event("delta", line.data, str(line.seq)) for line in batch.lines]
        if batch.reset is not None:
            parts.append(_event("reset", {"seq": batch.reset}, str(batch.reset)))
        if batch.problem:
            parts.append(_event("problem", {"detail": batch.problem}))
    return b"".join(parts)


def _many_runs(cursors: dict[str, int], batches: Sequence[Batch]) -> bytes:
    """Return the events of the stream of many runs; the cursors advance."""
    _advance(cursors, batches)
    deltas = [{"run": batch.run_id, "deltas": [msgspec.Raw(line.data) for line in batch.lines]} for batch in batches if batch.lines]
    parts = []
    at = ",".join(f"{run_id}@{seq}" for run_id, seq in cursors.items())
    if deltas:
        parts.append(_event("deltas", deltas, at))
    for batch in batches:
        if batch.reset is not None:
            parts.append(_event("reset", {"run": batch.run_id, "seq": batch.reset}, at))
        if batch.problem:
            parts.append(_event("problem", {"run": batch.run_id, "detail": batch.problem}))
    return b"".join(parts)


def _event(kind: str, data: object, at: str = "") -> bytes:
    """Return a server-sent event; its data is JSON, which has no line breaks."""
    text = data if isinstance(data, bytes) else msgspec.json.encode(data)
    return b"".join([f"id: {at}\n".encode() if at else b"", f"event: {kind}\ndata: ".encode(), text, b"\n\n"])
