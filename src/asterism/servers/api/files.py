"""The files of a run, those for runs to come, and what its tasks have printed."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from asterism.kernel.file_value import safe_name
from asterism.servers.api.context import Context
from asterism.servers.api.identity import Reader, Submitter, owner_of
from asterism.servers.api.models import FileList, LogList, Seq, file_model, log_model
from asterism.servers.api.problems import Problem, documented
from asterism.servers.api.uploads import uploads_of

router = APIRouter(tags=["files"])

MAX_TREE = 1000
"""Runs below a run whose logs are read."""
Digest = Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{64}$")]


_UPLOAD = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}


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
    return FileList(files=[file_model(it) for it in await context.store.files(row.root)])


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
    name = urllib.parse.quote(safe_name(found[0].name))

    async def content() -> AsyncIterator[bytes]:
        async for chunk in files.read(row.root, digest):
            yield chunk

    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}", "Content-Length": str(found[0].size)}
    return StreamingResponse(content(), media_type="application/octet-stream", headers=headers)


@router.get("/runs/{run_id}/logs", responses=documented(404, 422))
async def read_logs(
    run_id: str,
    context: Context,
    sender: Reader,
    after: Annotated[Seq, Query(description="`next` of the read before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=256)] = 64,
) -> LogList:
    """Return what the tasks of a run, and of the runs below it, have printed, in order."""
    row = await context.run(run_id, sender.tenant)
    tree = [it.run_id for it in await context.store.runs(root=row.root, limit=MAX_TREE)]
    below = [it for it in tree if it == run_id or it.startswith(f"{run_id}.")]
    chunks = await context.store.logs(below, after=after, limit=limit)
    return LogList(chunks=[log_model(it) for it in chunks], next=chunks[-1].seq if chunks else after)
