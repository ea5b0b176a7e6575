"""The phases of planning: their names, their shared context, and ``run_phase``.

``strategies`` implements each of them.
"""

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
from asterism.runtime.ports.planner import PlannerRequest

log = logging.getLogger("asterism.planner")
_tracer = trace.get_tracer("asterism.planner")


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
        question: the planner's question.
        prompter: the prompter of the question's mode.
        conversation: the conversation with the model.
        tools: the editor's tools.
        constellation: the current constellation; empty in CREATION.
        prompt_message: the user prompt, without the system prompt that all questions share.
        response_text, parsed_response: the model's reply.
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

Work = Callable[[ConstellationProcessorContext], Awaitable[tuple[Any, ...]]]
"""A strategy as written: it returns a tuple of values, which ``provides`` turns into a dict."""


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


def provides(*keys: ContextNames) -> Callable[[Work], Strategy]:
    """Declare the keys of the values that a strategy returns, in order."""

    def declare(work: Work) -> Strategy:
        @functools.wraps(work)
        async def keyed(context: ConstellationProcessorContext) -> dict[str, Any]:
            return dict(zip(keys, await work(context), strict=True))

        return keyed

    return declare


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
