"""The resource /runs: submit, search, one run with its tree, and the check of a plan."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Response

from asterism.constellation.machine.events import ConstellationSubmitted, Retry, RunOptions
from asterism.constellation.model.documents import as_file, parse_plan
from asterism.constellation.python.goal import Goal, params_of, rehearse
from asterism.constellation.python.handle import result_of
from asterism.constellation.python.rounds import submit
from asterism.constellation.requirements import sources_of
from asterism.engine.control.run_control import Cancel, Forked
from asterism.engine.kernel.machine import kind_of
from asterism.engine.ports.store import RunQuery, RunRow, RunStatus, Store, run_cursor
from asterism.engine.ports.tokens import TokenRow
from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.files import MAX_TREE, add_files, files_for
from asterism.service.api.identity import Reader, Submitter, actor_of, owner_of
from asterism.service.api.models import (
    CheckedPlan,
    GivenGoal,
    OriginModel,
    ResultModel,
    RunDetails,
    RunList,
    RunModel,
    Submission,
    json_of,
)
from asterism.service.api.problems import Problem, documented
from asterism.views.words import plain

router = APIRouter(tags=["runs"])

READ_FOR_ORIGIN = 100
"""Entries that are read at the beginning of a copy. The one that made it is the first one, unless the clock stood still."""

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key with the same body, of the same token, is the same request: it is carried out once.",
    ),
]


@router.post(
    "/runs", status_code=201, responses={200: {"model": RunModel, "description": "Submitted before."}, **documented(409, 413, 422)}
)
async def submit_run(
    given: Submission, context: Context, sender: Submitter, response: Response, idempotency_key: IdempotencyKey = None
) -> RunModel:
    """Submit a run; the server drives it."""
    context.limits.submissions.count(owner_of(sender))
    goal = goal_from(given, given.title)
    options = options_from(given.options)
    run_id = run_id_from(sender, "submit", idempotency_key) if idempotency_key else ""
    files = await files_for(context, sender.tenant, run_id, [given.plan, given.params])
    if run_id and (row := await _submitted_before(context, run_id, goal, options)):
        response.status_code = 200
        return RunModel.model_validate(row)
    if files:
        run_id = run_id or context.clock.new_id()
        await add_files(context, files, run_id)
    try:
        actor, tenant, client = actor_of(sender), sender.tenant, context.acting_as(sender)
        run_id = await submit(client, goal, options=options, model=context.model, actor=actor, tenant=tenant, run_id=run_id)
    except InvalidInput:  # the same request may have come twice at once
        if not run_id or not (row := await _submitted_before(context, run_id, goal, options)):
            raise
        response.status_code = 200
        return RunModel.model_validate(row)
    return RunModel.model_validate(await context.store.run(run_id))


@router.post("/plans/check", responses=documented(413, 422))
async def check_plan(given: GivenGoal, context: Context, sender: Submitter) -> CheckedPlan:  # noqa: ARG001 - the sender may submit
    """Return the plan with which a run would start, with its skills; nothing is written."""
    goal = goal_from(given)
    if context.planner is None:
        raise Problem(501, "this server has no planner that works without a run")
    try:
        plan, _ = await rehearse(goal, context.client.fleet, context.planner)
    except Refused as refused:
        raise InvalidInput(str(refused)) from None
    return CheckedPlan(plan=as_file(plan))


@router.get("/runs", responses=documented(422))
async def list_runs(
    context: Context,
    sender: Reader,
    q: Annotated[str, Query(max_length=200, description="Part of the title, or the beginning of the id.")] = "",
    status: RunStatus | None = None,
    outcome: Annotated[str, Query(max_length=100, description="How they have ended, such as `failed`.")] = "",
    machine: Annotated[str, Query(max_length=100)] = "",
    actor: Annotated[str, Query(max_length=200, description="Who has started them, such as `ada@operator` or `schedule nightly`.")] = "",
    created_from: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    created_before: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    children: Annotated[bool, Query(description="Also the runs that other runs have started.")] = False,  # noqa: FBT002 - a query
    after: Annotated[str, Query(max_length=200, description="`next` of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> RunList:
    """Search the runs, newest first."""
    query = RunQuery(
        text=q,
        status=status,
        outcome=outcome,
        machine=machine,
        tenant=sender.tenant,
        actor=actor,
        created_from=created_from,
        created_before=created_before,
        roots_only=not children,
    )
    return await page_of_runs(context, query, after, limit)


@router.get("/runs/{run_id}", responses=documented(404, 422))
async def read_run(run_id: str, context: Context, sender: Reader) -> RunDetails:
    """Return a run, what it was copied from, the runs of its tree, and their open questions."""
    row = await context.run(run_id, sender.tenant)
    tree = await context.store.runs(root=row.root, limit=MAX_TREE)
    inquiries = await context.store.inquiries(root=row.root, tenant=sender.tenant)
    origin = await origin_of(context.store, row)
    return RunDetails.model_validate({"run": row, "origin": origin, "tree": tree, "inquiries": inquiries})


@router.get("/runs/{run_id}/result", responses=documented(404, 409, 422))
async def read_result(run_id: str, context: Context, sender: Reader) -> ResultModel:
    """Return the result of a run that has ended, is paused, or waits for a person."""
    row = await context.run(run_id, sender.tenant)
    if row.status == "active":
        raise Problem(409, f"run {run_id} has no result yet")
    data = msgspec.structs.asdict(await result_of(context.client, row))
    inquiries = data.pop("inquiries")
    return ResultModel.model_validate({**msgspec.to_builtins(data), "inquiries": inquiries})


async def page_of_runs(context: ApiContext, query: RunQuery, after: str, limit: int) -> RunList:
    """Return a page of the runs that match a query. Raises InvalidInput if ``after`` is no cursor."""
    rows = await context.store.find_runs(query, after=after, limit=limit)
    return RunList.model_validate({"runs": rows, "next": run_cursor(rows[-1]) if len(rows) == limit else None})


def goal_from(given: GivenGoal, title: str | None = None) -> Goal:
    """Return the goal of a request. Nothing in it names a file or a function of this computer.

    Raises:
        InvalidInput: it is neither a request nor a plan, or the plan cannot be used.
    """
    if (given.request is None) == (given.plan is None):
        raise InvalidInput("give either a request or a plan")
    if given.request is not None:
        if given.params:
            raise InvalidInput("a request in words has no parameters; write their values into the request")
        return Goal(title=plain(title or given.request, 200), request=given.request)
    try:
        document = parse_plan(given.plan)
        functions = list(sources_of(document))
    except RecursionError:
        raise InvalidInput("plan: lists and objects are nested too deeply") from None
    if functions:
        raise InvalidInput(
            f"plan: {functions[0]!r} is a function of the server's computer; such tasks cannot be submitted over the network"
        )
    for name, param in document.params.items():
        if param.type == "file" and name in given.params and not isinstance(given.params[name], dict):
            raise InvalidInput(f"params: {name!r} is a file, and a path would name one of the server's computer")
    named = document.name or "plan"
    return Goal(title=plain(title or named, 200), request=named, plan=document, params=given.params)


def run_id_from(sender: TokenRow, action: str, key: str) -> str:
    """Return the id of the run that an idempotency key of a token names."""
    text = msgspec.json.encode([sender.tenant, owner_of(sender), action, key])
    return f"key-{hashlib.sha256(text).hexdigest()[:24]}"


def options_from(given: dict[str, Any]) -> RunOptions:
    """Return the options of a run from JSON. Raises InvalidInput if they cannot be used."""
    try:
        return msgspec.convert(given, RunOptions)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"options: {error}") from None


async def _submitted_before(context: ApiContext, run_id: str, goal: Goal, options: RunOptions) -> RunRow | None:
    """Return the run with this id; None if there is none. Raises Problem if it was submitted with another body."""
    try:
        row = await context.store.run(run_id)
    except RunNotFound:
        return None
    first = await context.client.first_event(row)
    same = isinstance(first, ConstellationSubmitted) and (
        (row.title, first.request, first.options) == (goal.title, goal.request, options)
        and _text(first.plan) == _text(goal.plan)
        and _text(first.params) == _text(params_of(goal))
    )
    if not same:
        raise Problem(422, "this Idempotency-Key was used with another body; use a new key for a new run")
    return row


def _text(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


async def origin_of(store: Store, row: RunRow) -> OriginModel | None:
    """Return what a run was copied from; None for a run that is no copy. Raises RunNotFound if it was deleted meanwhile.

    The entry that made the copy is as old as the run, and those before it were copied and are older. So a few entries
    are read, however long the journal is.
    """
    if row.parent or row.session in ("", row.run_id):
        return None
    copied, end = 0, row.seq
    while copied < end:  # the first `copied` entries are older than the run
        middle = (copied + end) // 2
        found = await store.records(row.run_id, after=middle, limit=1)
        if not found:  # it was deleted after its row was read
            raise RunNotFound(row.run_id)
        copied, end = (middle + 1, end) if found[0].at < row.created_at else (copied, middle)
    records = await store.records(row.run_id, after=copied, limit=READ_FOR_ORIGIN)
    at = next((at for at, it in enumerate(records) if it.kind == kind_of(Forked)), None)
    if at is None:  # a later run of the session
        return None
    forked = json_of(records[at].body)["event"]
    after = await store.records(forked["origin"], after=forked["seq"], limit=1)  # a retry of a cancelled run goes on before its cancel
    is_retry = any(it.kind == kind_of(Retry) for it in records[at + 1 : at + 2]) or any(it.kind == kind_of(Cancel) for it in after)
    try:
        created_at = (await store.run(forked["origin"])).created_at
    except RunNotFound:
        created_at = 0.0
    return OriginModel(run_id=forked["origin"], seq=forked["seq"], is_retry=is_retry, created_at=created_at)
