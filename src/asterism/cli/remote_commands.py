"""The commands run, answer and cancel on the runs of a server."""

from __future__ import annotations

import msgspec

from asterism.app.bootstrap import FORMS
from asterism.cli.exit_codes import FINISHED
from asterism.cli.foreground import Display
from asterism.cli.output import put
from asterism.cli.questions import TypedAnswer
from asterism.cli.run_access import remote_runs
from asterism.cli.served_runs import follow_served
from asterism.constellation.machine.events import RunOptions
from asterism.constellation.python.goal import Goal
from asterism.constellation.view.proposals import subject_lines
from asterism.engine.ports.store import InquiryRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.lookup import find_inquiries, find_inquiry, find_run
from asterism.errors import InvalidInput
from asterism.views.words import plain


async def run_remote(url: str, goal: Goal, options: RunOptions, how: Display) -> int:
    """Submit a run to a server, and follow it; return the exit code."""
    async with remote_runs(url) as (app, store):
        submitted = await app.start(msgspec.structs.replace(goal, title=plain(goal.title)), options)
        if not how.as_json:
            put(f"run {submitted.run_id}\n")
        client = Client(store, SystemClock(), FORMS)
        return await follow_served(client, submitted.run_id, how)


async def answer_remote(url: str, named: str, said: TypedAnswer, *, every: bool) -> int:
    """Answer a question of a run of a server, or all of a run."""
    async with remote_runs(url) as (app, store):
        for asked in await find_inquiries(store, named, said.verb) if every else [await find_inquiry(store, named)]:
            handle = app.run_of(asked.run_id)
            answer = said.to(asked)
            put_request(asked)
            await handle.answer(answer.verb, value=answer.value, reason=answer.reason, inquiry_id=answer.effect_id, digest=asked.digest)
            put(f"{asked.inquiry_id}: {said.word}, delivered to the server")
    return FINISHED


def put_request(asked: InquiryRow, *, as_json: bool = False) -> None:
    """Print a question with the whole request that it is about, before it is answered; beside JSON, to standard error."""
    for line in (plain(asked.prompt, 1000), *(f"  {it}" for it in subject_lines(asked))):
        put(line, to_error=as_json)


async def cancel_remote(url: str, named: str, reason: str) -> int:
    """Cancel a run of a server."""
    async with remote_runs(url) as (app, store):
        row = await find_run(store, named)
        await app.run_of(row.run_id).cancel(reason)
        put(f"run {row.run_id} is being cancelled by the server")
    return FINISHED


def refuse_with_server(**given: object) -> None:
    """Refuse options that are about this computer, or about the driving of a run.

    Raises:
        InvalidInput: one of them is given.
    """
    if found := [name for name, value in given.items() if value]:
        raise InvalidInput(f"--{found[0].replace('_', '-')} does not work with a server, which drives its runs by its own settings")
