"""The resources of one journal: its view, its deltas, its entries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.feeds import PAGE
from asterism.service.api.identity import Reader
from asterism.service.api.models import EntryList, EntryModel, Seq, ViewModel
from asterism.service.api.problems import Problem, documented
from asterism.views.view import view_of

router = APIRouter(tags=["journals"])
LINES = "application/jsonl"


@router.get("/runs/{run_id}/view", responses=documented(404, 409, 422))
async def read_view(
    run_id: str,
    context: Context,
    sender: Reader,
    at: Annotated[Seq | None, Query(description="Seq of an entry; the last one by default.")] = None,
    kind: Annotated[str, Query(max_length=100, description="Only the rows of this kind, as `run` or `task`.")] = "",
) -> ViewModel:
    """Return the state rows of a run after an entry."""
    row = await context.run(run_id, sender.tenant)
    if at is None or at >= row.seq:
        live = await context.client.load(run_id)
    else:
        live = await _replayed(context, row, at)
    view = view_of(context.client.form_of(row), live)
    rows = {row_id: it for row_id, it in view.rows.items() if not kind or row_id.partition(":")[0] == kind}
    return ViewModel(run_id=run_id, seq=live.seq, rows=rows)


async def _replayed(context: ApiContext, row: RunRow, at: int) -> Run[object]:
    """Return a run as it was after an entry; raises the errors of ``Client.load``."""
    machine = context.client.form_of(row).machine
    live: Run[object] = Run(machine, row.run_id, performs=False)
    while live.seq < at:
        records = await context.store.records(row.run_id, after=live.seq, limit=min(PAGE, at - live.seq))
        if not records:
            break
        live.replay(map(packer(machine).unpack, records))
    return live


@router.get(
    "/runs/{run_id}/deltas",
    response_class=StreamingResponse,
    responses={
        200: {"content": {LINES: {"schema": {"type": "string"}}}, "description": "One delta in each line."},
        **documented(404, 409, 422),
    },
)
async def read_deltas(
    run_id: str,
    context: Context,
    sender: Reader,
    after: Annotated[Seq, Query(description="Only the deltas of the entries after this one.")] = 0,
) -> StreamingResponse:
    """Return the deltas of a run up to now, as lines of JSON."""
    row = await context.run(run_id, sender.tenant)
    context.client.form_of(row)

    async def lines() -> AsyncIterator[bytes]:
        async for line in context.feeds.history(row, after, until=row.seq):
            yield line.data + b"\n"

    return StreamingResponse(lines(), media_type=LINES)


@router.get("/runs/{run_id}/entries", responses=documented(404, 422))
async def list_entries(
    run_id: str,
    context: Context,
    sender: Reader,
    after: Annotated[Seq, Query(description="Only the entries after this one.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EntryList:
    """Return entries of a journal as they are stored."""
    await context.run(run_id, sender.tenant)
    found = await context.store.records(run_id, after=after, limit=limit)
    return EntryList.model_validate({"entries": found})


@router.get("/runs/{run_id}/entries/{seq}", responses=documented(404, 422))
async def read_entry(run_id: str, seq: Seq, context: Context, sender: Reader) -> EntryModel:
    """Return one entry of a journal as it is stored."""
    await context.run(run_id, sender.tenant)
    found = await context.store.records(run_id, after=max(0, seq - 1), limit=1)
    if not found or found[0].seq != seq:
        raise Problem(404, f"run {run_id} has no entry {seq}")
    return EntryModel.model_validate(found[0])
