"""The phases of planning: their shared context, the function of each, and ``run_phase``."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

import msgspec
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from asterism.constellation.machine.events import WeavingMode
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import BuildConstellation, EditRefused, Refusal, parse_action
from asterism.constellation.planner.draft import MemoryDraft
from asterism.constellation.planner.edit_tools import EditTool, edit_tools
from asterism.constellation.planner.excerpt import cut, excerpt, page
from asterism.constellation.planner.model_conversation import ModelConversation
from asterism.constellation.planner.port import PlannerRequest
from asterism.constellation.planner.prompter import BaseConstellationPrompter
from asterism.constellation.planner.reply import ConstellationAgentResponse, InvalidReply, parse_reply

MAX_REMEMBERED = 20_000
"""Maximum characters of a prompt, and of a reply, that the journal records."""

log = logging.getLogger("asterism.constellation.planner")
_tracer = trace.get_tracer("asterism.constellation.planner")


class ProcessingPhase(StrEnum):
    """The four phases, in order."""

    CONTEXT_PROVISION = "context_provision"
    LLM_INTERACTION = "llm_interaction"
    ACTION_EXECUTION = "action_execution"
    MEMORY_UPDATE = "memory_update"


REQUIRED = (ProcessingPhase.CONTEXT_PROVISION, ProcessingPhase.LLM_INTERACTION)
"""The phases that a proposal needs. An error in another phase is noted, and planning continues."""


class ContextNames(StrEnum):
    """Keys of the values that phases provide: fields of ``ConstellationProcessorContext``."""

    TOOLS = "tools"
    CONSTELLATION = "constellation"
    PROMPT_MESSAGE = "prompt_message"
    RESPONSE_TEXT = "response_text"
    PARSED_RESPONSE = "parsed_response"
    EXECUTION_RESULT = "execution_result"
    MEMORY_ITEM = "memory_item"


@dataclasses.dataclass(kw_only=True)
class ConstellationProcessorContext:
    """State shared by the phases of one question. Most fields are unset until a phase sets them.

    Attributes:
        constellation: the current constellation; empty in CREATION.
        prompt_message: the user prompt, without the system prompt that all questions share.
        execution_result: the draft's refusal of the reply; None if the draft accepted all of it.
        memory_item: the ``prompt`` and ``reply`` that the journal records.
    """

    question: PlannerRequest
    prompter: BaseConstellationPrompter
    conversation: ModelConversation
    tools: tuple[EditTool, ...] = dataclasses.field(init=False)
    constellation: TaskConstellation = dataclasses.field(init=False)
    prompt_message: str = dataclasses.field(init=False)
    response_text: str = dataclasses.field(init=False)
    parsed_response: ConstellationAgentResponse = dataclasses.field(init=False)
    execution_result: Refusal | None = dataclasses.field(init=False)
    memory_item: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessingResult:
    """The result of a phase: the values that it provides, by key, or ``{"error": …}``."""

    phase: ProcessingPhase
    success: bool
    data: dict[str, Any]


Strategy = Callable[[ConstellationProcessorContext], Awaitable[dict[str, Any]]]
"""The function of a phase; returns the values that it provides, by key."""


def depends_on(*keys: ContextNames) -> Callable[[Strategy], Strategy]:
    """Declare the keys that a strategy reads.

    The strategy raises ``LookupError`` if no earlier phase has provided one of them.
    """

    def declare(strategy: Strategy) -> Strategy:
        @functools.wraps(strategy)
        async def checked(context: ConstellationProcessorContext) -> dict[str, Any]:
            if missing := [key for key in keys if not hasattr(context, key)]:
                raise LookupError(f"no phase has provided {str(missing[0])!r}")
            return await strategy(context)

        return checked

    return declare


def provides(*keys: ContextNames) -> Callable[[Callable[[ConstellationProcessorContext], Awaitable[tuple[Any, ...]]]], Strategy]:
    """Declare the keys of the values that a function returns as a tuple, and make it a strategy."""

    def declare(work: Callable[[ConstellationProcessorContext], Awaitable[tuple[Any, ...]]]) -> Strategy:
        @functools.wraps(work)
        async def keyed(context: ConstellationProcessorContext) -> dict[str, Any]:
            return dict(zip(keys, await work(context), strict=True))

        return keyed

    return declare


# -- the function of each phase --------------------------------------------------------------------


@provides(ContextNames.TOOLS, ContextNames.CONSTELLATION)
async def provide_context(context: ConstellationProcessorContext) -> tuple[Any, ...]:
    """Provide the tools and the constellation that the prompt shows."""
    known = context.question.constellation
    return edit_tools(), TaskConstellation.from_dict(known) if known else TaskConstellation()


@depends_on(ContextNames.TOOLS, ContextNames.CONSTELLATION)
@provides(ContextNames.PROMPT_MESSAGE, ContextNames.RESPONSE_TEXT, ContextNames.PARSED_RESPONSE)
async def ask_model(context: ConstellationProcessorContext) -> tuple[Any, ...]:
    """Ask the model until it gives a readable reply.

    Raises:
        PlanningUnavailable: no model gives a usable reply.
    """
    conversation, prompter = context.conversation, context.prompter
    if not conversation.prompt:
        constellation = context.constellation
        whole = excerpt(constellation, context.question.batch).whole
        system = prompter.system_prompt_construction(context.tools)
        user = prompter.user_content_construction(context.question, constellation)
        conversation.begin(system, user, None if whole else lambda offset: page(constellation, offset))
    while True:  # bounded: the conversation ends after too many refused replies
        text = await conversation.reply()
        try:
            reply = parse_reply(text)
            return conversation.prompt, text, _with_plan(reply) if context.question.mode == "CREATION" else reply
        except InvalidReply as invalid:
            conversation.refuse(str(invalid), invalid.code, prompter.example_reply())


def _with_plan(reply: ConstellationAgentResponse) -> ConstellationAgentResponse:
    """Return the reply with its plan as ``constellation``, also if its only edit builds the plan.

    Raises:
        InvalidReply: the reply has no plan and its status is not FAIL.
    """
    plan = reply.constellation
    if plan is None and len(reply.actions) == 1 and isinstance(edit := parse_action(reply.actions[0]), BuildConstellation):
        plan = edit.plan
    if plan is None and reply.status != "FAIL":
        raise InvalidReply(
            "missing 'constellation' field: in CREATION, give a constellation with tasks; or give status FAIL, with the reason in 'thought'"
        )
    return msgspec.structs.replace(reply, constellation=plan, actions=())


@depends_on(ContextNames.CONSTELLATION, ContextNames.PARSED_RESPONSE)
@provides(ContextNames.EXECUTION_RESULT)
async def execute_plan(context: ConstellationProcessorContext) -> tuple[Any, ...]:
    """Apply the plan of a reply to a draft, as one ``build_constellation`` edit."""
    reply = context.parsed_response
    if reply.constellation is None or reply.status == "FAIL":
        return (None,)
    return (await _rehearse(context, [{"tool": "build_constellation", "parameters": msgspec.to_builtins(reply.constellation)}]),)


@depends_on(ContextNames.CONSTELLATION, ContextNames.PARSED_RESPONSE)
@provides(ContextNames.EXECUTION_RESULT)
async def execute_edits(context: ConstellationProcessorContext) -> tuple[Any, ...]:
    """Apply the actions of a reply to a draft, then merge its constellation, if it has one."""
    actions, plan = list(context.parsed_response.actions), context.parsed_response.constellation
    if plan is not None:
        actions.append({"tool": "build_constellation", "parameters": {**msgspec.to_builtins(plan), "clear": False}})
    return (await _rehearse(context, actions),)


async def _rehearse(context: ConstellationProcessorContext, actions: list[dict[str, Any]]) -> Refusal | None:
    """Return the first refusal of a draft, of a single action or of the batch; else None."""
    draft = MemoryDraft(context.constellation, context.question.fleet)
    for number, action in enumerate(actions):
        try:
            await draft.edit(action)
        except EditRefused as refused:
            return msgspec.structs.replace(refused.refusal, what=f"actions[{number}] {refused.refusal.what}")
    try:
        draft.check()
    except EditRefused as refused:
        return refused.refusal
    return None


@depends_on(ContextNames.PROMPT_MESSAGE, ContextNames.RESPONSE_TEXT)
@provides(ContextNames.MEMORY_ITEM)
async def update_memory(context: ConstellationProcessorContext) -> tuple[Any, ...]:
    """Truncate the prompt and the reply to the length that the journal records."""
    return ({"prompt": cut(context.prompt_message, MAX_REMEMBERED), "reply": cut(context.response_text, MAX_REMEMBERED)},)


class ConstellationStrategyFactory:
    """Selects the function for a phase and mode."""

    @staticmethod
    def create_all_strategies(weaving_mode: str) -> dict[ProcessingPhase, Strategy]:
        """Return the strategies of a mode, by phase. Only ACTION_EXECUTION depends on the mode.

        Raises:
            ValueError: the mode is unknown.
        """
        if weaving_mode not in list(WeavingMode):
            raise ValueError(f"Unsupported mode: {weaving_mode}; there are {', '.join(WeavingMode)}")
        return {
            ProcessingPhase.CONTEXT_PROVISION: provide_context,
            ProcessingPhase.LLM_INTERACTION: ask_model,
            ProcessingPhase.ACTION_EXECUTION: execute_plan if weaving_mode == "CREATION" else execute_edits,
            ProcessingPhase.MEMORY_UPDATE: update_memory,
        }


# -- running ---------------------------------------------------------------------------------------


async def run_phase(phase: ProcessingPhase, strategy: Strategy, context: ConstellationProcessorContext) -> ProcessingResult:
    """Run a phase in its own span and copy the values that it provides into the context.

    Spans and logs hold no prompt, reply or error text, since those may be secret.

    Raises:
        Exception: any error of a required phase.
    """
    question = context.question
    attributes = {"asterism.kind": "phase", "asterism.effect_id": question.key, "asterism.mode": question.mode}
    with _tracer.start_as_current_span(phase, attributes=attributes, record_exception=False, set_status_on_exception=False) as span:
        try:
            result = ProcessingResult(phase=phase, success=True, data=await strategy(context))
        except BaseException as error:  # boundary: the span records the error; a required phase raises it
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            if phase in REQUIRED or not isinstance(error, Exception):
                raise
            log.debug("%s: %s failed", question.key, phase)
            return ProcessingResult(phase=phase, success=False, data={"error": f"{phase} failed: {type(error).__name__}: {error}"})
        for key, value in result.data.items():
            setattr(context, key, value)
        if phase is ProcessingPhase.LLM_INTERACTION:
            usage = context.conversation.usage
            tokens = {"asterism.tokens.input": usage.input_tokens, "asterism.tokens.output": usage.output_tokens}
            span.set_attributes({"asterism.model": usage.model, **tokens})
        log.debug("%s: %s done", question.key, phase)
        return result
