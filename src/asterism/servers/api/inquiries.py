"""Questions to people, and answers to them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.kernel.machine import run_id_of
from asterism.runtime.ports.cursors import inquiry_cursor
from asterism.runtime.ports.store import InquiryRow
from asterism.runtime.run_status import CANCELLED
from asterism.runtime.verdicts import accepted
from asterism.servers.api.commands import verdict_within
from asterism.servers.api.context import ApiContext, Context
from asterism.servers.api.identity import Answerer, Reader, actor_of
from asterism.servers.api.models import GivenAnswer, InquiryList, InquiryModel, Verdict, inquiry_model
from asterism.servers.api.problems import Problem, documented

router = APIRouter(tags=["inquiries"])


@router.get("/inquiries", responses=documented(404, 422))
async def list_inquiries(
    context: Context,
    sender: Reader,
    run: Annotated[str, Query(max_length=200, description="Only those of the tree of this run.")] = "",
    after: Annotated[str, Query(max_length=400, description="`next` of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> InquiryList:
    """Return the open questions, oldest first."""
    root = (await context.run(run, sender.tenant)).root if run else None
    rows = await context.store.find_inquiries(root=root, tenant=sender.tenant, after=after, limit=limit + 1)
    page = rows[:limit]
    following = inquiry_cursor(page[-1]) if len(rows) > limit else None
    return InquiryList(inquiries=[inquiry_model(row) for row in page], next=following)


@router.get("/inquiries/{inquiry_id}", responses=documented(404, 422))
async def read_inquiry(inquiry_id: str, context: Context, sender: Reader) -> InquiryModel:
    """Return a question, open or closed."""
    return inquiry_model(await _inquiry(context, inquiry_id, sender.tenant))


@router.post(
    "/inquiries/{inquiry_id}/answer",
    responses={202: {"model": Verdict, "description": "Sent, without a verdict yet."}, **documented(404, 409, 410, 413, 422)},
)
async def answer_inquiry(inquiry_id: str, given: GivenAnswer, context: Context, sender: Answerer, response: Response) -> Verdict:
    """Answer a question. 409 has the answer that was first; 410 has the questions that are open instead."""
    asked = await _inquiry(context, inquiry_id, sender.tenant)
    if asked.answer == CANCELLED or 0 < asked.expires_at <= context.clock.now():
        raise await _gone(context, asked, sender.tenant)
    try:
        client = context.acting_as(sender)
        row = await client.post_answer(inquiry_id, given.verb, actor=actor_of(sender), value=given.value, reason=given.reason)
    except Refused as refused:
        asked = await _inquiry(context, inquiry_id, sender.tenant)
        if asked.answer == CANCELLED:
            raise await _gone(context, asked, sender.tenant) from None
        raise Problem(409, str(refused), answer=asked.answer) from None
    verdict = await verdict_within(context, row.run_id, row.key)
    if not verdict:
        response.status_code = 202
        return Verdict(verdict="pending", run_id=row.run_id, key=row.key)
    accepted(verdict)
    return Verdict(verdict="accepted", run_id=row.run_id, key=row.key)


async def _inquiry(context: ApiContext, inquiry_id: str, tenant: str) -> InquiryRow:
    try:
        run_id = run_id_of(inquiry_id)
        found = [
            row for row in await context.store.inquiries(run_id=run_id, tenant=tenant, open_only=False) if row.inquiry_id == inquiry_id
        ]
    except (InvalidInput, RunNotFound, ValueError):
        found = []
    if not found:
        raise Problem(404, f"there is no question {inquiry_id!r}")
    return found[0]


async def _gone(context: ApiContext, asked: InquiryRow, tenant: str) -> Problem:
    now_open = await context.store.inquiries(run_id=asked.run_id, tenant=tenant)
    forms = [inquiry_model(row).model_dump() for row in now_open if row.inquiry_id != asked.inquiry_id]
    return Problem(410, f"{asked.inquiry_id} is not open any more", open=forms)
