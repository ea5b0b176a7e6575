"""Commands for open questions: inbox, answer."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import FORMS
from asterism.app.settings import database_path, server_url
from asterism.cli.exit_codes import FINISHED
from asterism.cli.file_previews import previews_of
from asterism.cli.foreground import Display
from asterism.cli.options import Database, Here, Json, JsonEvents, OtherFleet, ServerUrl
from asterism.cli.output import local_time, message, put
from asterism.cli.questions import AnswerVerb, TypedAnswer
from asterism.cli.run_access import actor, check_sendable, refuse_with_server, resume_hint, runs_of
from asterism.cli.run_commands import drive_unowned
from asterism.cli.served_runs import is_served, reserved
from asterism.constellation.view.proposals import ALWAYS, edit_hint, subject_lines, subject_of
from asterism.engine.ports.store import InboxRow, InquiryRow, RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.lookup import MAX_RUNS, find_inquiries, find_inquiry
from asterism.errors import InvalidInput, Refused, RunOwned
from asterism.views.text.questions import answer_line, answered_line
from asterism.views.text.show import pending_answers
from asterism.views.text.styled_line import MOMENT
from asterism.views.words import duration, plain

if TYPE_CHECKING:
    from asterism.service.remote_app import RemoteApp


def inbox(*, database: Database = None, server: ServerUrl = None, json: Json = False) -> int:
    """List the open questions to people."""
    return asyncio.run(_inbox(database, server, as_json=json))


async def _inbox(database: Path | None, server: str | None, *, as_json: bool) -> int:
    async with runs_of(database, server) as runs:
        store, asked = runs.store, await runs.inquiries()
        if as_json:
            put(json_text.dumps([_as_data(row) for row in asked], indent=2))
            return FINISHED
        if not asked:
            put("no open questions")
        answers = pending_answers(await store.inbox([row.run_id for row in asked]))
        previews = await previews_of(asked, runs, database)
        for row in asked:
            run = await store.run(row.run_id)
            root = await store.run(run.root)
            files = previews.get(row.inquiry_id, [])
            for line in _lines(row, plain(run.title, 100), root, answers.get(row.inquiry_id), files):
                put(line)
        return FINISHED


def _lines(row: InquiryRow, title: str, root: RunRow, answer: InboxRow | None, files: list[str]) -> list[str]:
    now = SystemClock().now()
    lines = [f"{plain(row.inquiry_id)}  {plain(row.prompt, 1000)}", f"    run        {plain(row.run_id)}  {title}"]
    lines += [f"    part of    {plain(root.run_id)}  {plain(root.title, 100)}"] if root.run_id != row.run_id else []
    lines += [f"    {line}" for line in (*subject_lines(row), *files, edit_hint(subject_of(row))) if line]
    lines.append(f"    asked      {local_time(row.asked_at, MOMENT)}, {duration(max(0.0, now - row.asked_at))} ago; risk {row.risk}")
    if row.expires_at:
        left_s = row.expires_at - now
        lines.append(
            f"    expires    {local_time(row.expires_at, MOMENT)}, {f'in {duration(left_s)}' if left_s > 0 else 'which has passed'}"
        )
    return [*lines, f"    {answered_line(answer, resume_hint(root)) if answer else answer_line(row, root.run_id)}", ""]


def _as_data(row: InquiryRow) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(row)
    del data["question"]
    try:
        schema = msgspec.json.decode(row.schema or "null")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"question {row.inquiry_id}: its schema in the database is invalid: {error}") from None
    return {**data, "prompt": row.prompt, "subject": subject_of(row), "digest": row.digest, "schema": schema}


def answer(
    inquiry: Annotated[str, Parameter(name="QUESTION", help="Id of the question or of its run, or the first characters of either id.")],
    word: Annotated[
        AnswerVerb, Parameter(name="VERB", help="approve or yes, reject or no, edit (change the arguments) or respond (give the result).")
    ],
    /,
    *,
    reason: Annotated[str, Parameter(help="Reason, for the journal and the planner.")] = "",
    value: Annotated[
        str | None, Parameter(help="JSON, or @FILE: the result for respond; for edit the arguments to replace, the others stay.")
    ] = None,
    every: Annotated[
        bool,
        Parameter(name="--all", negative=(), help="Answer every open question that allows this verb; QUESTION is then the id of a run."),
    ] = False,
    always: Annotated[bool, Parameter(negative=(), help="Approve this tool of this loop worker for the rest of the run.")] = False,
    no_drive: Annotated[bool, Parameter(negative=(), help="Record the answer, but do not drive the run.")] = False,
    fleet: OtherFleet = None,
    database: Database = None,
    server: ServerUrl = None,
    json: JsonEvents = False,
    here: Here = False,
) -> int:
    """Answer a question, and resume its run if no other process drives it."""
    verb = TypedAnswer(word=word).verb
    if value is not None and verb not in ("edit", "respond"):
        raise InvalidInput(f"--value works with edit and respond, not with {word}")
    if value is None and verb in ("edit", "respond"):
        raise InvalidInput(f"{verb} needs --value with JSON")
    if always and verb != "approve":
        raise InvalidInput(f"--always works with approve, not with {word}")
    if every and verb not in ("approve", "reject"):
        raise InvalidInput(f"--all works with approve and reject, not with {word}: each question needs its own value")
    given = _json(value) if value is not None else ALWAYS if always else None
    said = TypedAnswer(word=word, value=given, reason=reason)
    if server_url(server, database):
        refuse_with_server(fleet=fleet, no_drive=no_drive, json=json, here=here)
    return asyncio.run(_answer(inquiry, said, fleet, database, server, every=every, drive_on=not no_drive, as_json=json, here=here))


async def _answer(
    named: str,
    said: TypedAnswer,
    fleet: Path | None,
    database: Path | None,
    server: str | None,
    *,
    every: bool,
    drive_on: bool,
    as_json: bool,
    here: bool,
) -> int:
    async with runs_of(database, server) as runs:
        store = runs.store
        asked = await find_inquiries(store, named, said.verb) if every else [await find_inquiry(store, named)]
        if said.value == ALWAYS and (other := [row for row in asked if "tool" not in subject_of(row)]):
            raise InvalidInput(f"--always works with questions about a tool of a loop; {other[0].inquiry_id} is not one")
        if not isinstance(runs, Client):
            for row in asked:
                await _answer_served(runs, row, said)
            return FINISHED
        root = await store.run((await store.run(asked[0].run_id)).root)
        for it in await store.runs(root=root.run_id, limit=MAX_RUNS):
            check_sendable(it)
        answers = _Answers(runs, said, as_json=as_json)
        async with reserved(runs, root, here=here):
            await answers.post_all(asked, skips=every)
        root = await store.run(root.run_id)
        served = not (here or fleet) and await is_served(runs.store, root.fleet)
        if root.owner and not (served and drive_on):
            return await answers.report(f"delivered to {root.owner}")
        if root.machine not in FORMS:
            known = "the program that registers its machine"
            return await answers.report(
                f"recorded; it takes effect when {known} {root.machine!r} resumes run {root.run_id}", delivered=False
            )
        if not drive_on:
            return await answers.report(f"recorded; it takes effect with: asterism resume {root.run_id}", delivered=False)
        try:
            code = await drive_unowned(runs, root, database_path(database), fleet, Display(as_json), unpause=False, here=here)
        except RunOwned as owned:  # another process has started to drive it, and reads the answers
            return await answers.report(f"delivered to {owned.owner}")
        except InvalidInput as error:  # a definition or the fleet is missing
            await answers.report("recorded; it takes effect when the run continues", delivered=False)
            raise Refused(str(error)) from None
        await answers.verdicts(timeout_s=0.1)
        return code


async def _answer_served(app: RemoteApp, asked: InquiryRow, typed: TypedAnswer) -> None:
    """Print a question of a run of a server, and answer it."""
    answer = typed.to(asked)
    _put_request(asked)
    await app.run_of(asked.run_id).answer(
        answer.verb, value=answer.value, reason=answer.reason, inquiry_id=answer.effect_id, digest=asked.digest
    )
    put(f"{asked.inquiry_id}: {typed.word}, delivered to the server")


def _put_request(asked: InquiryRow, *, as_json: bool = False) -> None:
    """Print a question with the whole request that it is about, before it is answered; beside JSON, to standard error."""
    for line in (plain(asked.prompt, 1000), *(f"  {it}" for it in subject_lines(asked))):
        put(line, to_error=as_json)


class _Answers:
    """The same answer to one or more questions."""

    def __init__(self, client: Client, said: TypedAnswer, *, as_json: bool) -> None:
        self._client = client
        self._as_json = as_json
        self._said = said
        self._posted: list[tuple[InquiryRow, InboxRow]] = []

    async def post_all(self, asked: Sequence[InquiryRow], *, skips: bool) -> None:
        """Post the answers, all before the run is driven; if it ``skips``, only to the questions that are open still."""
        for row in asked:
            try:
                await self._post(row)
            except Refused as refused:  # another person has answered it meanwhile; the others are still open
                if not skips:
                    raise
                put(message(refused))

    async def _post(self, asked: InquiryRow) -> None:
        """Print a question with the whole request that it is about, and post the answer to it."""
        said = self._said.to(asked)
        _put_request(asked, as_json=self._as_json)
        posted = await self._client.post_answer(
            said.effect_id, said.verb, actor=actor(), value=said.value, reason=said.reason, digest=asked.digest
        )
        self._posted.append((asked, posted))

    async def verdicts(self, *, timeout_s: float = 30.0) -> None:
        """Wait until the run has accepted each answer; raises Refused if it refuses one."""
        for asked, posted in self._posted:
            await self._client.verdict(asked.run_id, posted.key, timeout_s=timeout_s)

    async def report(self, what: str, *, delivered: bool = True) -> int:
        """Print the status of each answer, after its run has accepted it."""
        if delivered:
            await self.verdicts()
        for asked, _ in self._posted:
            put(f"{asked.inquiry_id}: {self._said.word}, {what}")
        return FINISHED


def _json(given: str) -> Any:
    try:
        text = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"not valid UTF-8 ({error})"
        raise InvalidInput(f"--value {given}: cannot read the file: {why}") from None
    try:
        return json_text.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--value {plain(given, 60)} is not JSON: {error}; put text in quotes: '\"like this\"'") from None
