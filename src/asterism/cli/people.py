"""Commands for people who are asked: inbox, answer."""

from __future__ import annotations

import asyncio
import json as json_text
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from asterism.bootstrap import open_runtime
from asterism.cli.codes import FINISHED
from asterism.cli.finding import actor, find_inquiry, reading
from asterism.cli.options import Database, Json, JsonEvents, OtherFleet
from asterism.cli.output import put
from asterism.cli.proposals import how_to_edit, proposal_lines, subject_of
from asterism.cli.running import take_up
from asterism.cli.words import duration, moment, plain
from asterism.errors import InvalidInput, RunOwned
from asterism.machines.control import Answered
from asterism.runtime.clock import SystemClock
from asterism.runtime.ports import InquiryRow, RunRow
from asterism.settings import database_path

AnswerVerb = Literal["approve", "reject", "edit", "respond"]


def inbox(*, database: Database = None, json: Json = False) -> int:
    """List the open questions to people."""
    return asyncio.run(_inbox(database, as_json=json))


async def _inbox(database: Path | None, *, as_json: bool) -> int:
    async with reading(database) as store:
        asked = await store.inquiries()
        if as_json:
            put(json_text.dumps([_as_data(row) for row in asked], indent=2))
            return FINISHED
        if not asked:
            put("nobody is asked anything")
        for row in asked:
            run = await store.run(row.run)
            root = await store.run(run.root)
            for line in _lines(row, plain(run.title, 100), root):
                put(line)
        return FINISHED


def _lines(row: InquiryRow, title: str, root: RunRow) -> list[str]:
    now = SystemClock().now()
    lines = [f"{row.inquiry}  {plain(row.prompt, 1000)}", f"    run        {row.run}  {title}"]
    lines += [f"    part of    {root.run}  {plain(root.title, 100)}"] if root.run != row.run else []
    subject = subject_of(row)
    if "kind" in subject:
        lines += [f"    {line}" for line in (*proposal_lines(subject), how_to_edit(subject)) if line]
    else:
        lines += [f"    {plain(name, 20):<9}  {_shown(value)}" for name, value in subject.items()]
    lines.append(f"    asked      {moment(row.asked_at)}, {duration(max(0.0, now - row.asked_at))} ago; risk {row.risk}")
    if row.expires_at:
        left_s = row.expires_at - now
        lines.append(f"    expires    {moment(row.expires_at)}, {f'in {duration(left_s)}' if left_s > 0 else 'which has passed'}")
    return [*lines, f"    asterism answer {row.inquiry} {'|'.join(row.verbs)}", ""]


def _shown(value: Any) -> str:
    # Whole: what is approved is exactly this.
    return plain(value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False), 100_000)


def _as_data(row: InquiryRow) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(row)
    try:
        schema = msgspec.json.decode(row.schema or "null")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"question {row.inquiry}: its schema in the database was changed: {error}") from None
    return {**data, "subject": subject_of(row), "schema": schema}


def answer(
    inquiry: Annotated[str, Parameter(name="INQUIRY", help="Id of the question, the beginning of it, or of its run's.")],
    verb: Annotated[AnswerVerb, Parameter(name="VERB", help="approve it, reject it, edit its arguments, or respond with its result.")],
    /,
    *,
    reason: Annotated[str, Parameter(help="For the journal, and for whoever plans.")] = "",
    value: Annotated[str | None, Parameter(help="JSON, or @FILE with it: the new arguments of an edit, the value of a response.")] = None,
    always: Annotated[bool, Parameter(negative=(), help="Approve this tool for the rest of the run of a loop.")] = False,
    no_drive: Annotated[bool, Parameter(negative=(), help="Write the answer down; do not go on with the run here.")] = False,
    fleet: OtherFleet = None,
    database: Database = None,
    json: JsonEvents = False,
) -> int:
    """Answer a question, and go on with its run if nobody else does."""
    if value is not None and verb not in ("edit", "respond"):
        raise InvalidInput(f"--value goes with edit and respond, not with {verb}")
    if value is None and verb in ("edit", "respond"):
        raise InvalidInput(f"{verb} needs --value, as JSON")
    if always and verb != "approve":
        raise InvalidInput(f"--always goes with approve, not with {verb}")
    given = _json(value) if value is not None else {"always": True} if always else None
    said = Answered(effect="", verb=verb, value=given, reason=reason)
    return asyncio.run(_answer(inquiry, said, fleet, database, drive_on=not no_drive, as_json=json))


async def _answer(named: str, said: Answered, fleet: Path | None, database: Path | None, *, drive_on: bool, as_json: bool) -> int:
    path = database_path(database)
    async with reading(database) as store:
        asked = await find_inquiry(store, named)
        async with open_runtime(store, {}, path) as runtime:
            posted = await runtime.post_answer(asked.inquiry, said.verb, actor=actor(), value=said.value, reason=said.reason)
            row = await store.run((await store.run(asked.run)).root)
            if row.owner:
                await runtime.verdict(asked.run, posted.key)
                put(f"{asked.inquiry}: {said.verb}, taken by {row.owner}")
                return FINISHED
            if not drive_on:
                put(f"{asked.inquiry}: {said.verb}, written down; it is taken when somebody goes on with: asterism resume {row.run}")
                return FINISHED
            try:
                code = await take_up(store, row, path, fleet, unpause=False, as_json=as_json)
            except RunOwned as owned:  # somebody has taken it up at the same moment, and the answer with it
                await runtime.verdict(asked.run, posted.key)
                put(f"{asked.inquiry}: {said.verb}, taken by {owned.owner}")
                return FINISHED
            await runtime.verdict(asked.run, posted.key, timeout_s=0.1)
            return code


def _json(given: str) -> Any:
    try:
        text = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"not a text in UTF-8 ({error})"
        raise InvalidInput(f"--value {given}: the file cannot be read: {why}") from None
    try:
        return json_text.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--value is not JSON: {error}; a text needs its quotes: '\"like this\"'") from None
