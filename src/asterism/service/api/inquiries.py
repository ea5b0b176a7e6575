"""Questions to people, and answers to them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from asterism.engine.control.run_control import Verb, needed_for, needs_digest
from asterism.engine.kernel.machine import run_id_of
from asterism.engine.ports.store import InquiryRow, inquiry_cursor
from asterism.engine.runtime.client import accepted
from asterism.engine.runtime.run_status import CANCELLED
from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.service.api.commands import found_within, inbox_key, verdict_within
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.identity import Answerer, Reader, actor_of, check_may
from asterism.service.api.models import GivenAnswer, InquiryList, InquiryModel, Verdict
from asterism.service.api.problems import Problem, documented
from asterism.service.api.runs import IdempotencyKey

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
    return InquiryList.model_validate({"inquiries": page, "next": following})


@router.get("/inquiries/{inquiry_id}", responses=documented(404, 422))
async def read_inquiry(inquiry_id: str, context: Context, sender: Reader) -> InquiryModel:
    """Return a question, open or closed."""
    return InquiryModel.model_validate(await _inquiry(context, inquiry_id, sender.tenant))


@router.post(
    "/inquiries/{inquiry_id}/answer",
    responses={202: {"model": Verdict, "description": "Sent, without a verdict yet."}, **documented(404, 409, 410, 413, 422)},
)
async def answer_inquiry(
    inquiry_id: str, given: GivenAnswer, context: Context, sender: Answerer, response: Response, idempotency_key: IdempotencyKey = None
) -> Verdict:
    """Answer a question. 409 has the answer that was first; 410 has the questions that are open instead."""
    asked, client = await _inquiry(context, inquiry_id, sender.tenant), context.acting_as(sender)
    subject = InquiryModel.model_validate(asked).subject
    check_may(sender, *needed_for(given.verb, subject.get("kind", "") if isinstance(subject, dict) else ""))
    check_names_digest(given.verb, asked, given.digest)
    key = inbox_key(sender, idempotency_key) if idempotency_key else ""
    is_gone = asked.answer == CANCELLED or 0 < asked.expires_at <= context.clock.now()
    if is_gone and not (key and await client.has_sent(asked.run_id, key)):
        raise await _gone(context, asked, sender.tenant)
    try:
        answer = {"value": given.value, "reason": given.reason, "key": key, "digest": given.digest}
        row = await client.post_answer(inquiry_id, given.verb, actor=actor_of(sender), **answer)
    except Refused as refused:
        if given.digest not in ("", asked.digest):
            raise  # nobody else was first
        closed = await _closed(context, asked, sender.tenant)  # the answer that was first may not have been taken yet
        raise await _lost(context, closed, sender.tenant, refused) from None
    verdict = await verdict_within(context, row.run_id, row.key)
    if not verdict:
        response.status_code = 202
        return Verdict(verdict="pending", run_id=row.run_id, key=idempotency_key or row.key)
    try:
        accepted(verdict)
    except Refused as refused:
        asked = await _inquiry(context, inquiry_id, sender.tenant)
        if not asked.answer and await client.is_open(asked):
            raise  # the question is open for another answer
        if not asked.answer:
            raise await _gone(context, asked, sender.tenant) from None
        raise await _lost(context, asked, sender.tenant, refused) from None
    return Verdict(verdict="accepted", run_id=row.run_id, key=idempotency_key or row.key)


def check_names_digest(verb: Verb, asked: InquiryRow, digest: str) -> None:
    """Check that an answer that may be a yes has a digest; the run checks which. Raises Problem."""
    if needs_digest(verb, asked.verbs) and not digest:
        raise Problem(422, f"digest: an answer with {verb} names the digest of the question that was read; send it with the answer")


async def _closed(context: ApiContext, asked: InquiryRow, tenant: str) -> InquiryRow:
    """Return a question once the run has taken an answer to it, as ``found_within``."""

    async def answer() -> str:
        return (await _inquiry(context, asked.inquiry_id, tenant)).answer

    return msgspec.structs.replace(asked, answer=await found_within(context, asked.run_id, answer))


async def _lost(context: ApiContext, asked: InquiryRow, tenant: str, refused: Refused) -> Problem:
    """Return the problem of an answer that lost, with the one that won."""
    if asked.answer == CANCELLED:
        return await _gone(context, asked, tenant)
    return Problem(409, str(refused), answer=asked.answer)


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
    forms = [InquiryModel.model_validate(row).model_dump() for row in now_open if row.inquiry_id != asked.inquiry_id]
    return Problem(410, f"{asked.inquiry_id} is not open any more", open=forms)
