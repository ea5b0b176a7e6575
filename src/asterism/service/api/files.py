"""The files of a run, those for runs to come, and what its tasks have printed."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from asterism.engine.kernel.data import FILE, files_in, safe_name
from asterism.engine.ports.files import FileRow
from asterism.engine.ports.logs import LogQuery
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.log_stream import read_chunks
from asterism.errors import InvalidInput
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.identity import Reader, Submitter, owner_of
from asterism.service.api.models import FileList, LogList, Seq
from asterism.service.api.problems import Problem, documented
from asterism.views.words import byte_count

router = APIRouter(tags=["files"])

MAX_TREE = 1000
"""Runs of a tree that are read."""
Digest = Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{64}$")]
_UPLOAD = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}


def uploads_of(tenant: str) -> str:
    """Return the root of the files that a tenant has uploaded; no run has this id, so they are removed after a day."""
    return f"upload:{tenant}"


async def files_for(context: ApiContext, tenant: str, run_id: str, given: Any) -> list[FileRow]:
    """Return the rows of the files that a submission names.

    Args:
        context: has the store.
        tenant: tenant of the sender.
        run_id: id of the run, which has the files if it was submitted before; empty if it has none yet.
        given: the plan and the parameters, as JSON.

    Raises:
        InvalidInput: the tenant has uploaded no such file.
    """
    named = list(files_in(given))
    if not named:
        return []
    known = [row for root in (uploads_of(tenant), run_id) if root for row in await context.store.files(root)]
    found = {msgspec.json.encode(_value_of(row), order="sorted"): row for row in known}
    rows = []
    for value in named:
        row = found.get(msgspec.json.encode(value, order="sorted"))
        if row is None:
            raise InvalidInput(
                f"there is no uploaded file {value[FILE]}; upload it with POST /api/files, and submit the value that returns"
            )
        rows.append(row)
    return rows


async def add_files(context: ApiContext, rows: list[FileRow], run_id: str) -> None:
    """Let a run read files; before it is submitted, because its first task may need them."""
    for row in rows:
        await context.store.add_file(msgspec.structs.replace(row, root=run_id, at=context.clock.now()))


def _value_of(row: FileRow) -> dict[str, Any]:
    return {FILE: row.digest, "name": row.name, "media_type": row.media_type, "size": row.size}


class FileValue(BaseModel):
    """The value that names a file in the parameters of a plan."""

    digest: str = Field(alias="$file")
    name: str
    media_type: str
    size: int


@router.post("/files", status_code=201, openapi_extra=_UPLOAD, responses=documented(408, 413, 422))
async def upload_file(
    request: Request,
    context: Context,
    sender: Submitter,
    name: Annotated[str, Query(min_length=1, max_length=300)],
    media_type: Annotated[str, Query(max_length=100, pattern=r"^[\x20-\x7e]*$", description="By default by the name.")] = "",
) -> FileValue:
    """Upload a file, the body of this request, and return the value that names it in a submission of the next 24 hours."""
    context.limits.submissions.count(owner_of(sender))
    if context.client.files is None:
        raise Problem(501, "this server has no store for files")

    async def chunks() -> AsyncIterator[bytes]:
        try:
            async for chunk in request.stream():
                yield chunk
        except ClientDisconnect:
            raise Problem(400, "the connection was closed before the end of the file") from None

    return FileValue.model_validate(await context.client.files.put(uploads_of(sender.tenant), name, chunks(), media_type=media_type))


@router.get("/runs/{run_id}/files", responses=documented(404, 422))
async def list_files(run_id: str, context: Context, sender: Reader) -> FileList:
    """Return the files of the tree of a run."""
    row = await context.run(run_id, sender.tenant)
    return FileList.model_validate({"files": await context.store.files(row.root)})


@router.get(
    "/runs/{run_id}/files/{digest}",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}, **documented(404, 422)},
)
async def read_file(run_id: str, digest: Digest, context: Context, sender: Reader) -> StreamingResponse:
    """Return a file of the tree of a run; it is downloaded, never shown as a page of this site."""
    row = await context.run(run_id, sender.tenant)
    files = context.client.files
    found = [it for it in await context.store.files(row.root) if it.digest == digest]
    if not found or files is None:
        raise Problem(404, f"run {run_id} has no file {digest}")

    async def content() -> AsyncIterator[bytes]:
        async for chunk in files.read(row.root, digest):
            yield chunk

    headers = {**_attachment(safe_name(found[0].name)), "Content-Length": str(found[0].size)}
    return StreamingResponse(content(), media_type="application/octet-stream", headers=headers)


Task = Annotated[str, Query(max_length=400, description="Only the output of this task, worker, tool or handler.")]
Attempt = Annotated[int, Query(ge=0, le=10**6, description="Only the output of the attempts with this number; 0 for all.")]
Below = Annotated[bool, Query(description="Also the output of the runs below it.")]


@router.get("/runs/{run_id}/logs", responses=documented(404, 422))
async def read_logs(
    run_id: str,
    context: Context,
    sender: Reader,
    after: Annotated[Seq, Query(description="`next` of the read before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=256)] = 64,
    task: Task = "",
    attempt: Attempt = 0,
    tail: Annotated[
        int, Query(ge=0, le=1 << 20, description="Only the end: the last parts, back to the one in which these bytes begin.")
    ] = 0,
    below: Below = True,  # noqa: FBT002 - a parameter of a query has a name
) -> LogList:
    """Return what the tasks of a run, and of the runs below it, have printed, in order."""
    runs = await _tree(context, await context.run(run_id, sender.tenant), below=below)
    chunks = await context.store.logs(runs, LogQuery(task=task, number=attempt, tail_bytes=tail), after=after, limit=limit)
    return LogList.model_validate({"chunks": chunks, "next": chunks[-1].seq if chunks else after})


@router.get(
    "/runs/{run_id}/logs.txt",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **documented(404, 422)},
)
async def download_logs(
    run_id: str,
    context: Context,
    sender: Reader,
    task: Task = "",
    attempt: Attempt = 0,
    below: Below = True,  # noqa: FBT002 - a parameter of a query has a name
) -> StreamingResponse:
    """Return what the tasks of a run have printed until now, as a text to download."""
    runs = await _tree(context, await context.run(run_id, sender.tenant), below=below)
    name = safe_name("-".join(filter(None, [run_id, task, str(attempt or "")])) + ".log")
    return StreamingResponse(
        _text(context.store, runs, LogQuery(task=task, number=attempt)), media_type="text/plain", headers=_attachment(name)
    )


async def _tree(context: ApiContext, row: RunRow, *, below: bool) -> list[str]:
    """Return the ids of a run and, if asked, of the runs below it."""
    if not below:
        return [row.run_id]
    tree = [it.run_id for it in await context.store.runs(root=row.root, limit=MAX_TREE)]
    return [it for it in tree if it == row.run_id or it.startswith(f"{row.run_id}.")]


async def _text(store: Store, runs: Sequence[str], query: LogQuery) -> AsyncIterator[bytes]:
    """Yield the output until now as it was printed, with a line for each gap."""
    ends = dict[tuple[str, str], int]()
    last = [it.seq for it in await store.logs(runs, msgspec.structs.replace(query, tail_bytes=1), limit=1)]
    async for it in read_chunks(store, runs, query, until=last[0] if last else 0):
        gap = it.position - ends.get((it.key, it.stream), 0) if it.key else it.position
        if gap > 0:
            yield f"\n… {byte_count(gap)} left out …\n".encode()
        ends[it.key, it.stream] = it.position + len(it.data)
        yield it.data


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{urllib.parse.quote(name)}"}
