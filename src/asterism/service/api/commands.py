"""Commands to runs: the idempotency key in, the verdict out."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, TypeVar

import msgspec
from fastapi import APIRouter, Body, Response

from asterism.constellation.machine.events import Edited
from asterism.constellation.python.resumption import retry_ended
from asterism.engine.kernel.journal import check_known
from asterism.engine.kernel.machine import Event, kind_of
from asterism.engine.kernel.packing import event_body
from asterism.engine.kernel.permissions import Permission
from asterism.engine.ports.store import RunRow
from asterism.engine.ports.tokens import TokenRow
from asterism.engine.runtime.client import VERDICT_POLL_S, accepted
from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.identity import Known, actor_of, check_may, owner_of
from asterism.service.api.models import Command, EditCommand, ForkCommand, Given, LiftGuardCommand, RetryCommand, Verdict
from asterism.service.api.problems import Problem, documented
from asterism.service.api.runs import IdempotencyKey, run_id_from
from asterism.service.run_commands import EVENTS

router = APIRouter(tags=["commands"])

Found = TypeVar("Found")

_NEEDED: Mapping[type[Given], Permission] = {EditCommand: Permission.EDIT, LiftGuardCommand: Permission.ADMIN}
"""What a command takes, if it is not the permission of that name."""
VERDICT_S = 10.0
"""Seconds to wait for a verdict; past them the command stays in the inbox, and the response says that it is pending."""


@router.post(
    "/runs/{run_id}/commands",
    responses={202: {"model": Verdict, "description": "Sent, without a verdict yet."}, **documented(404, 409, 413, 422)},
)
async def command_run(
    run_id: str,
    given: Annotated[Command, Body()],
    context: Context,
    sender: Known,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Verdict:
    """Send a command to a run, and return its verdict."""
    check_may(sender, _NEEDED.get(type(given), Permission.COMMAND))
    row = await context.run(run_id, sender.tenant)
    if isinstance(given, ForkCommand | RetryCommand):
        new_id = run_id_from(sender, f"{run_id} {given.model_dump_json()}", idempotency_key) if idempotency_key else context.clock.new_id()
        if isinstance(given, ForkCommand) or row.status == "ended":
            await _copied(context, row, given, sender, new_id)
            return Verdict(verdict="accepted", run_id=new_id, key=idempotency_key or "")
    key = idempotency_key or context.clock.new_id()
    return await sent(context, row, _event_of(given), sender, key, response)


async def sent(context: ApiContext, row: RunRow, event: Event, sender: TokenRow, key: str, response: Response) -> Verdict:
    """Put a command into the inbox of a run and wait for its verdict.

    Raises:
        Refused: the run has ended, or refuses it.
        RunNewer: a newer program has written to the run.
        Problem: the key was used for another command.
    """
    sent_key = inbox_key(sender, key)
    if row.status == "ended" and not await context.store.verdict(row.run_id, sent_key):
        raise Refused(f"run {row.run_id} has ended already ({row.outcome})")
    if form := context.client.forms.get(row.machine):
        check_known(row.run_id, row.version, form.machine)
    there = await context.acting_as(sender).post(row.run_id, event, actor=actor_of(sender), key=sent_key)
    if (there.kind, there.body) != (kind_of(event), event_body(event)):
        raise Problem(422, "this Idempotency-Key was used with another body; use a new key for a new command")
    if verdict := await verdict_within(context, row.run_id, sent_key):
        accepted(verdict)
        return Verdict(verdict="accepted", run_id=row.run_id, key=key)
    response.status_code = 202
    return Verdict(verdict="pending", run_id=row.run_id, key=key)


def inbox_key(sender: TokenRow, key: str) -> str:
    """Return the key of an inbox row that an idempotency key of a token names."""
    return f"{owner_of(sender)}:{hashlib.sha256(key.encode()).hexdigest()[:32]}"


async def verdict_within(context: ApiContext, run_id: str, key: str) -> str:
    """Return the verdict on an inbox row; empty if none comes, as ``found_within``."""
    return await found_within(context, run_id, lambda: context.store.verdict(run_id, key))


async def found_within(context: ApiContext, run_id: str, look: Callable[[], Awaitable[Found]]) -> Found:
    """Return what ``look`` finds once a run has written it, or its last look after ``VERDICT_S``, or if the server stops."""
    end = asyncio.get_running_loop().time() + VERDICT_S
    while not (found := await look()):
        left = end - asyncio.get_running_loop().time()
        if left <= 0 or not context.is_ready():  # a stopping server drives nothing; the next owner of the run takes the row
            break
        await context.feeds.changes.wait(run_id, min(left, VERDICT_POLL_S))
    return found


async def _copied(context: ApiContext, row: RunRow, given: ForkCommand | RetryCommand, sender: TokenRow, new_id: str) -> None:
    client = context.acting_as(sender)
    if await _is_there(context, new_id):
        return
    try:
        if isinstance(given, ForkCommand):
            await client.fork(row.run_id, given.at, actor=actor_of(sender), new_id=new_id)
        else:
            await retry_ended(client, row.run_id, tuple(given.tasks), actor=actor_of(sender), new_id=new_id)
    except InvalidInput:  # the same request may have come twice at once
        if not await _is_there(context, new_id):
            raise


async def _is_there(context: ApiContext, run_id: str) -> bool:
    try:
        await context.store.run(run_id)
    except RunNotFound:
        return False
    return True


def _event_of(given: Command) -> Event:
    if isinstance(given, EditCommand):
        return Edited(actions=tuple(given.actions), base_version=given.version)
    return msgspec.convert(given.model_dump(exclude={"command"}), EVENTS[given.command])
