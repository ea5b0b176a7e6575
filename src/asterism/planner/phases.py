"""The phases of planning: their names, what they share, and how one is run. What each of them does is in ``strategies``."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.edits import Refusal
from asterism.planner.edit_tools import EditTool
from asterism.planner.model_conversation import ModelConversation
from asterism.planner.prompter import BaseConstellationPrompter
from asterism.planner.reply import ConstellationAgentResponse
from asterism.runtime.ports.planner import PlannerQuestion

log = logging.getLogger("asterism.planner")
_tracer = trace.get_tracer("asterism.planner")


class ProcessingPhase(StrEnum):
    """The four phases, in order."""

    CONTEXT_PROVISION = "context_provision"
    LLM_INTERACTION = "llm_interaction"
    ACTION_EXECUTION = "action_execution"
    MEMORY_UPDATE = "memory_update"


REQUIRED = (ProcessingPhase.CONTEXT_PROVISION, ProcessingPhase.LLM_INTERACTION)
"""The phases without which there is no proposal. An error in one of the others is noted, and the table judges the reply alone."""


class ContextNames(StrEnum):
    """Keys of the context that phases provide. Each is a field of ``ConstellationProcessorContext``."""

    TOOLS = "tools"
    CONSTELLATION = "constellation"
    PROMPT_MESSAGE = "prompt_message"
    RESPONSE_TEXT = "response_text"
    PARSED_RESPONSE = "parsed_response"
    EXECUTION_RESULT = "execution_result"
    MEMORY_ITEM = "memory_item"


@dataclasses.dataclass(kw_only=True)
class ConstellationProcessorContext:
    """What the phases of one question share. Most fields are missing until a phase provides them.

    Attributes:
        question: what is asked.
        prompter: the prompter of the question's mode.
        conversation: the conversation with the model.
        tools: the editor's tools.
        constellation: the current one; an empty one in CREATION.
        prompt_message: the question as the model sees it, without what is the same for every question.
        response_text, parsed_response: the model's reply.
        execution_result: what the draft refused of the reply; None where it took all of it.
        memory_item: the ``prompt`` and ``reply`` that the journal keeps.
    """

    question: PlannerQuestion
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
    """The outcome of a phase: what it provides by key, or ``{"error": …}``."""

    phase: ProcessingPhase
    success: bool
    data: dict[str, Any]


Strategy = Callable[[ConstellationProcessorContext], Awaitable[dict[str, Any]]]
"""What is done in a phase; returns what it provides, by key."""

Work = Callable[[ConstellationProcessorContext], Awaitable[tuple[Any, ...]]]
"""The same as it is written: ``provides`` names the values that it returns."""


def depends_on(*keys: ContextNames) -> Callable[[Strategy], Strategy]:
    """Declare what a strategy reads. Where an earlier phase has not provided it, the strategy raises ``LookupError``."""

    def declare(strategy: Strategy) -> Strategy:
        @functools.wraps(strategy)
        async def checked(context: ConstellationProcessorContext) -> dict[str, Any]:
            if missing := [key for key in keys if not hasattr(context, key)]:
                raise LookupError(f"no phase has provided {str(missing[0])!r}")
            return await strategy(context)

        return checked

    return declare


def provides(*keys: ContextNames) -> Callable[[Work], Strategy]:
    """Declare what a strategy returns: one value for each key, in this order."""

    def declare(work: Work) -> Strategy:
        @functools.wraps(work)
        async def keyed(context: ConstellationProcessorContext) -> dict[str, Any]:
            return dict(zip(keys, await work(context), strict=True))

        return keyed

    return declare


async def run_phase(phase: ProcessingPhase, strategy: Strategy, context: ConstellationProcessorContext) -> ProcessingResult:
    """Run a phase in a span of its own and put what it provides into the context.

    Neither span nor log holds a prompt, a reply or the text of an error: those may be secret.

    Raises:
        Exception: whatever a required phase raises.
    """
    question = context.question
    attributes = {"asterism.kind": "phase", "asterism.effect_id": question.key, "asterism.mode": question.mode}
    with _tracer.start_as_current_span(phase, attributes=attributes, record_exception=False, set_status_on_exception=False) as span:
        try:
            result = ProcessingResult(phase=phase, success=True, data=await strategy(context))
        except BaseException as error:  # boundary: the span says what ended the phase; a required one raises it
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
