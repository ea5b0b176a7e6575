"""Conversations with the flow agents that the server knows.

A secret in a message goes to the memory of this process, which drives the conversation; the inbox and the journal have
a placeholder.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body, Query, Response
from pydantic import BaseModel, BeforeValidator, Field

from asterism.conversation.machine.events import AgentStatus, ConversationStarted
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.conversation import Conversation, history_of
from asterism.conversation.python.registry import name_of
from asterism.conversation.python.resumption import class_of
from asterism.conversation.python.secret_fields import process_secret_store
from asterism.engine.ports.store import RunQuery, RunRow
from asterism.engine.ports.tokens import TokenRow
from asterism.engine.runtime.client import accepted
from asterism.errors import InvalidInput, RunNotFound, did_you_mean
from asterism.service.api.commands import found_within, inbox_key, verdict_within
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.files import MAX_TREE
from asterism.service.api.identity import Reader, Submitter, Talker, actor_of, owner_of
from asterism.service.api.inquiries import check_names_digest
from asterism.service.api.models import FromRow, Given, GivenObject, InquiryModel, RunList
from asterism.service.api.problems import Problem, documented
from asterism.service.api.runs import IdempotencyKey, page_of_runs, run_id_from
from asterism.words.reading import replies

router = APIRouter(tags=["conversations"])

Text = Annotated[str, Field(max_length=replies.MAX_MESSAGE_CHARS)]
Values = Annotated[GivenObject, Field(description="Fields given by name.")]


class AgentModel(BaseModel):
    """A flow agent."""

    name: str
    description: str
    fields: dict[str, Any] = Field(description="JSON Schema of its fields; a secret one is `writeOnly`.")


class AgentList(BaseModel):
    """The flow agents with which a server starts conversations."""

    agents: list[AgentModel]


class ConversationStart(Given):
    """A conversation to start."""

    agent: str = Field(min_length=1, max_length=200, description="Name of an agent of the server.")
    text: Text = ""
    values: Values = Field(default={})
    language: str = Field(default="", pattern="^([a-z]{2})?$", description="How messages are read; by default as the agent says.")
    time_zone: str = Field(default="", max_length=100, description="As Europe/Berlin; by default as the agent says.")


class GivenMessage(Given):
    """A message to an agent."""

    text: Text = ""
    values: Values = Field(default={})
    inquiry_id: str = Field(default="", max_length=300, description="Question that the person has seen; a yes to an approval needs it.")
    digest: str = Field(default="", max_length=64, description="Its `digest`; each message for an approval needs it.")


class UtteranceModel(FromRow):
    """A message of a conversation; a secret in it is a placeholder."""

    by: str
    text: Annotated[str, BeforeValidator(str)]


class ConversationModel(BaseModel):
    """A conversation."""

    run_id: str
    agent: str
    status: AgentStatus
    waits: bool = Field(description="It waits for a message, or has ended; else the agent works.")
    text: str = Field(description="The agent's last answer.")
    inquiry_id: str = Field(description="The open question; empty without one.")
    question: InquiryModel | None = Field(description="That question as it is shown; null without one.")
    fields: dict[str, Any] = Field(description="The collected fields; a secret one is masked.")
    missing_fields: list[str]
    data: dict[str, Any]
    metadata: dict[str, Any]
    code: str
    reason: str
    messages: list[UtteranceModel] = Field(description="The last messages.")


class MessageReply(ConversationModel):
    """What a message has led to."""

    verdict: str = Field(
        description="`accepted`; `pending` while the agent works; `unclear` where only a yes or no to the open question can be taken."
    )


@router.get("/agents", responses=documented())
async def list_agents(context: Context, sender: Reader) -> AgentList:  # noqa: ARG001 - any reader
    """Return the flow agents with which this server starts conversations."""
    found = [
        AgentModel(name=name, description=agent.description, fields=agent.json_schema()) for name, agent in sorted(context.agents.items())
    ]
    return AgentList(agents=found)


@router.post(
    "/conversations",
    status_code=201,
    responses={200: {"model": ConversationModel, "description": "Started before."}, **documented(409, 413, 422)},
)
async def start_conversation(
    given: ConversationStart, context: Context, sender: Submitter, response: Response, idempotency_key: IdempotencyKey = None
) -> ConversationModel:
    """Start a conversation with an agent, and return its answer, or its state after 10 seconds."""
    context.limits.submissions.count(owner_of(sender))
    agent = context.agents.get(given.agent)
    if agent is None:
        hint = did_you_mean(given.agent, context.agents) or "; start the server with --agents SOURCE"
        raise InvalidInput(f"this server has no agent {given.agent[:100]!r}{hint}")
    run_id = run_id_from(sender, "converse", idempotency_key) if idempotency_key else ""
    talk = Conversation(
        agent,
        run_id=run_id,
        user=actor_of(sender),
        tenant=sender.tenant,
        language=given.language,
        time_zone=given.time_zone,
    )
    if run_id and await _started_before(context, talk, given):
        response.status_code = 200
    else:
        try:
            await talk.begin(context.acting_as(sender), given.text, given.values)
        except InvalidInput:  # the same request may have come twice at once
            if not run_id or not await _started_before(context, talk, given):
                raise
            response.status_code = 200
    return await _shown(context, await _settled(context, talk.run_id))


@router.get("/conversations", responses=documented(422))
async def list_conversations(
    context: Context,
    sender: Reader,
    only_open: Annotated[bool, Query(alias="open", description="Only those that have not ended.")] = False,  # noqa: FBT002 - a query
    after: Annotated[str, Query(max_length=200, description="`next` of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> RunList:
    """Return the conversations that this token has started, newest first."""
    query = RunQuery(machine=FLOW_AGENT.name, tenant=sender.tenant, actor=actor_of(sender), open_only=only_open)
    return await page_of_runs(context, query, after, limit)


@router.get("/conversations/{run_id}", responses=documented(404, 409, 422))
async def read_conversation(run_id: str, context: Context, sender: Reader) -> ConversationModel:
    """Return a conversation: its last messages, and the fields collected so far."""
    return await _shown(context, await _conversation(context, run_id, sender))


@router.post(
    "/conversations/{run_id}/messages",
    responses={202: {"model": MessageReply, "description": "The agent has the message, and works."}, **documented(404, 409, 413, 422)},
)
async def send_message(
    run_id: str,
    given: Annotated[GivenMessage, Body()],
    context: Context,
    sender: Talker,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> MessageReply:
    """Send a message to the agent, or to the run below it that asks; return its answer, or its state after 10 seconds."""
    row = await _conversation(context, run_id, sender)
    live = await context.client.load(run_id)
    talk = Conversation(
        class_of(run_id, live.memory),
        run_id=run_id,
        user=actor_of(sender),
        tenant=sender.tenant,
        shown={run_id: given.inquiry_id or "nothing"},
    )
    key = inbox_key(sender, idempotency_key or context.clock.new_id())
    sent_to = await _sent_before(context, row, key) if idempotency_key else ""
    if not sent_to:
        if (asked := await talk.asked(context.client)) and asked.inquiry_id == given.inquiry_id:
            check_names_digest("respond", asked, given.digest)
        sent = await talk.put(context.acting_as(sender), given.text, given.values, key=key, digest=given.digest)
        if sent is None:
            shown = dict(await _shown(context, row))
            language = live.memory.language or talk.language
            return MessageReply(
                **{**shown, "text": f"{replies.unclear(given.text, language)} {shown['text']}".strip(), "verdict": "unclear"}
            )
        key, sent_to = sent
    if verdict := await verdict_within(context, sent_to, key):
        accepted(verdict)
        row = await _settled(context, run_id)
    else:
        row = await context.store.run(run_id)
    shown = dict(await _shown(context, row))
    is_settled = bool(verdict) and shown["waits"]
    response.status_code = 200 if is_settled else 202
    return MessageReply(**shown, verdict="accepted" if is_settled else "pending")


async def _conversation(context: ApiContext, run_id: str, sender: TokenRow) -> RunRow:
    row = await context.run(run_id, sender.tenant)
    if row.machine != FLOW_AGENT.name:
        raise RunNotFound(run_id)
    return row


async def _started_before(context: ApiContext, talk: Conversation, given: ConversationStart) -> bool:
    """Return True if the conversation of an idempotency key exists. Raises Problem if it was started with another body."""
    try:
        row = await context.store.run(talk.run_id)
    except RunNotFound:
        return False
    first, again = await context.client.first_event(row), talk.first_event(context.client, given.text, given.values)
    process_secret_store().drop(again.message.secret)
    was = (name_of(talk.agent), again.language, again.time_zone, again.message.text, again.message.values)
    is_same = isinstance(first, ConversationStarted) and was == (
        first.agent,
        first.language,
        first.time_zone,
        first.message.text,
        first.message.values,
    )
    if not is_same:
        raise Problem(422, "this Idempotency-Key was used with another body; use a new key for a new conversation")
    return True


async def _sent_before(context: ApiContext, row: RunRow, key: str) -> str:
    """Return the run that has the message with a key in its inbox: the conversation, or one below it; empty if none has."""
    tree = [it.run_id for it in await context.store.runs(root=row.root, limit=MAX_TREE)]
    waiting = {it.run_id for it in await context.store.inbox(tree) if it.key == key}
    for run_id in sorted(tree, key=lambda it: it != row.run_id):
        if run_id in waiting or await context.store.verdict(run_id, key):
            return run_id
    return ""


async def _settled(context: ApiContext, run_id: str) -> RunRow:
    """Return the row of a conversation once it waits for a message or has ended, as ``found_within``."""

    async def waits() -> bool:
        return await _waits(context, await context.store.run(run_id))

    await found_within(context, run_id, waits)
    return await context.store.run(run_id)


async def _waits(context: ApiContext, row: RunRow) -> bool:
    """Return True unless the agent works: also where a run below asks while other work continues."""
    below = row.status == "active" and any(it.run_id != row.run_id for it in await context.store.inquiries(root=row.run_id))
    return row.status != "active" or below


async def _shown(context: ApiContext, row: RunRow) -> ConversationModel:
    live = await context.client.load(row.run_id)
    talk = Conversation(class_of(row.run_id, live.memory), run_id=row.run_id, tenant=row.tenant)
    asked = await talk.asked(context.client)
    result = talk.result_from(live, row, asked)
    return ConversationModel.model_validate(
        {
            **msgspec.structs.asdict(result),
            "text": result.raw_message,
            "agent": live.memory.agent.rpartition(":")[2],
            "waits": await _waits(context, row),
            "inquiry_id": asked.inquiry_id if asked else "",
            "question": asked,
            "messages": history_of(live.memory),
        }
    )
