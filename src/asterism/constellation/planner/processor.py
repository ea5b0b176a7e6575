"""The planner with a model: four functions from a question to a proposal. Needs the ``llm`` extra.

    CONTEXT_PROVISION   provide_context                 the editor's tools and the constellation
    LLM_INTERACTION     ask_model                       prompt and reply; an unreadable reply is refused, with the reason
    ACTION_EXECUTION    execute_plan or execute_edits   the reply's actions on a draft; the model corrects a refused one
    MEMORY_UPDATE       update_memory                   the prompt and reply that the journal records

The answer is a proposal: the planner writes no state, and the machine's table validates it again.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from asterism.constellation.machine.events import WeavingMode
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import BuildConstellation, EditRefused, parse_action
from asterism.constellation.planner.draft import MemoryDraft
from asterism.constellation.planner.edit_tools import EditTool, edit_tools
from asterism.constellation.planner.excerpt import cut, excerpt, page
from asterism.constellation.planner.model import ModelAccess
from asterism.constellation.planner.model_conversation import ModelConversation
from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal
from asterism.constellation.planner.prompter import BaseConstellationPrompter, ConstellationPrompterFactory
from asterism.constellation.planner.reply import ConstellationAgentResponse, InvalidReply, parse_reply
from asterism.engine.kernel.refusal import Refusal

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
    """The fields of ``ConstellationProcessorContext`` that strategies set."""

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
    """Whether a phase succeeded, and the error of one that has not."""

    phase: ProcessingPhase
    success: bool = True
    error: str = ""


Strategy = Callable[[ConstellationProcessorContext], Awaitable[None]]
"""The function of a phase: it reads fields of the context and sets others."""


def depends_on(*keys: ContextNames) -> Callable[[Strategy], Strategy]:
    """Let a strategy raise ``LookupError`` if no phase before it has set one of these fields."""
    return functools.partial(_declared, before=keys)


def provides(*keys: ContextNames) -> Callable[[Strategy], Strategy]:
    """Let a strategy raise ``LookupError`` if it leaves one of these fields unset."""
    return functools.partial(_declared, after=keys)


def _declared(strategy: Strategy, before: Sequence[ContextNames] = (), after: Sequence[ContextNames] = ()) -> Strategy:
    @functools.wraps(strategy)
    async def checked(context: ConstellationProcessorContext) -> None:
        _check_provided(context, before)
        await strategy(context)
        _check_provided(context, after)

    return checked


def _check_provided(context: ConstellationProcessorContext, keys: Sequence[ContextNames]) -> None:
    if missing := [key for key in keys if not hasattr(context, key)]:
        raise LookupError(f"no phase has provided {str(missing[0])!r}")


# -- the function of each phase --------------------------------------------------------------------


@provides(ContextNames.TOOLS, ContextNames.CONSTELLATION)
async def provide_context(context: ConstellationProcessorContext) -> None:
    """Provide the tools and the constellation that the prompt shows."""
    known = context.question.constellation
    context.tools = edit_tools()
    context.constellation = TaskConstellation.from_dict(known) if known else TaskConstellation()


@depends_on(ContextNames.TOOLS, ContextNames.CONSTELLATION)
@provides(ContextNames.PROMPT_MESSAGE, ContextNames.RESPONSE_TEXT, ContextNames.PARSED_RESPONSE)
async def ask_model(context: ConstellationProcessorContext) -> None:
    """Ask the model until it gives a readable reply.

    Raises:
        PlanningUnavailable: no model gives a usable reply.
    """
    conversation, prompter, constellation = context.conversation, context.prompter, context.constellation
    if not conversation.prompt:
        whole = excerpt(constellation, context.question.batch).whole
        system = prompter.system_prompt_construction(context.tools)
        user = prompter.user_content_construction(context.question, constellation)
        conversation.begin(system, user, None if whole else lambda offset: page(constellation, offset))
    context.prompt_message = conversation.prompt
    while True:  # bounded: the conversation ends after too many refused replies
        context.response_text = await conversation.reply()
        try:
            reply = parse_reply(context.response_text)
            context.parsed_response = _with_plan(reply) if context.question.mode == "CREATION" else reply
        except InvalidReply as invalid:
            conversation.refuse(str(invalid), invalid.code, prompter.example_reply())
        else:
            return


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
async def execute_plan(context: ConstellationProcessorContext) -> None:
    """Apply the plan of a reply to a draft, as one ``build_constellation`` edit."""
    reply = context.parsed_response
    if reply.constellation is None or reply.status == "FAIL":
        context.execution_result = None
    else:
        plan = {"tool": "build_constellation", "parameters": msgspec.to_builtins(reply.constellation)}
        context.execution_result = await _rehearse(context, [plan])


@depends_on(ContextNames.CONSTELLATION, ContextNames.PARSED_RESPONSE)
@provides(ContextNames.EXECUTION_RESULT)
async def execute_edits(context: ConstellationProcessorContext) -> None:
    """Apply the actions of a reply to a draft, then merge its constellation, if it has one."""
    actions, plan = list(context.parsed_response.actions), context.parsed_response.constellation
    if plan is not None:
        actions.append({"tool": "build_constellation", "parameters": {**msgspec.to_builtins(plan), "clear": False}})
    context.execution_result = await _rehearse(context, actions)


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
async def update_memory(context: ConstellationProcessorContext) -> None:
    """Truncate the prompt and the reply to the length that the journal records."""
    context.memory_item = {"prompt": cut(context.prompt_message, MAX_REMEMBERED), "reply": cut(context.response_text, MAX_REMEMBERED)}


class ConstellationStrategyFactory:
    """Selects the function for a phase and mode."""

    @staticmethod
    def create_all_strategies(weaving_mode: str) -> dict[ProcessingPhase, Strategy]:
        """Return the strategies of a mode, by phase. Only ACTION_EXECUTION depends on the mode.

        Raises:
            ValueError: the mode is unknown.
        """
        creates = WeavingMode(weaving_mode) is WeavingMode.CREATION
        return {
            ProcessingPhase.CONTEXT_PROVISION: provide_context,
            ProcessingPhase.LLM_INTERACTION: ask_model,
            ProcessingPhase.ACTION_EXECUTION: execute_plan if creates else execute_edits,
            ProcessingPhase.MEMORY_UPDATE: update_memory,
        }


# -- the planner -----------------------------------------------------------------------------------


class ConstellationAgentProcessor:
    """A planner that asks the models of ``access``.

    Args:
        access: the models.
        strategies: functions of phases in place of the built-in ones. To add to a built-in function,
            call it in yours: ``await update_memory(context)``.

    Raises:
        InvalidInput: a demonstration file is invalid.
    """

    def __init__(self, access: ModelAccess, strategies: Mapping[ProcessingPhase, Strategy] = {}) -> None:
        self._access = access
        self._own_strategies = strategies
        folder = Path(access.choice.examples) if access.choice.examples else None
        self._prompters = {str(mode): ConstellationPrompterFactory.create_prompter(mode, folder) for mode in WeavingMode}

    async def propose(self, question: PlannerRequest) -> Proposal:
        """Answer a question.

        Raises:
            PlanningUnavailable: no model gives a usable answer. Holds the reason and the usage so
                far.
        """
        conversation = ModelConversation(self._access, question.key, question.budget_left)
        context = ConstellationProcessorContext(question=question, prompter=self._prompters[question.mode], conversation=conversation)
        try:
            await self._process(context)
        except PlanningUnavailable as unavailable:
            if unavailable.code == "not_recorded":  # the run differs from the recorded one; another answer would make it a third
                return Proposal(status="FAIL", thought=str(unavailable), usage=conversation.usage, notes=tuple(conversation.notes))
            raise
        except Exception as error:  # boundary: an error in a phase makes planning unavailable; the run continues
            raise conversation.unavailable(f"planning failed: {type(error).__name__}: {error}", "broken") from error
        reply = context.parsed_response
        return Proposal(
            thought=reply.thought,
            observation=reply.observation,
            status=reply.status,
            plan=reply.constellation,
            actions=reply.actions,
            result=reply.result,
            notes=tuple(conversation.notes),
            usage=conversation.usage,
            **context.memory_item,
        )

    async def _process(self, context: ConstellationProcessorContext) -> None:
        strategies = {**ConstellationStrategyFactory.create_all_strategies(context.question.mode), **self._own_strategies}

        async def run(phase: ProcessingPhase) -> bool:
            result = await run_phase(phase, strategies[phase], context)
            if not result.success:
                context.conversation.note(result.error)
            return result.success

        await run(ProcessingPhase.CONTEXT_PROVISION)
        while True:  # bounded: the conversation ends after too many refused replies
            await run(ProcessingPhase.LLM_INTERACTION)
            if not await run(ProcessingPhase.ACTION_EXECUTION) or (refusal := context.execution_result) is None:
                break
            context.conversation.refuse(f"{refusal.what}: {refusal.why}", refusal.code, context.prompter.example_reply())
        await run(ProcessingPhase.MEMORY_UPDATE)


async def run_phase(phase: ProcessingPhase, strategy: Strategy, context: ConstellationProcessorContext) -> ProcessingResult:
    """Run a phase in its own span.

    Spans and logs hold no prompt, reply or error text, since those may be secret.

    Raises:
        Exception: any error of a required phase.
    """
    question = context.question
    attributes = {"asterism.kind": "phase", "asterism.effect_id": question.key, "asterism.mode": question.mode}
    with _tracer.start_as_current_span(phase, attributes=attributes, record_exception=False, set_status_on_exception=False) as span:
        try:
            await strategy(context)
        except BaseException as error:  # boundary: the span records the error; a required phase raises it
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            if phase in REQUIRED or not isinstance(error, Exception):
                raise
            log.debug("%s: %s failed", question.key, phase)
            return ProcessingResult(phase=phase, success=False, error=f"{phase} failed: {type(error).__name__}: {error}")
        if phase is ProcessingPhase.LLM_INTERACTION:
            usage = context.conversation.usage
            tokens = {"asterism.tokens.input": usage.input_tokens, "asterism.tokens.output": usage.output_tokens}
            span.set_attributes({"asterism.model": usage.model, **tokens})
        log.debug("%s: %s done", question.key, phase)
        return ProcessingResult(phase=phase)
