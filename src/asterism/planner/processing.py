"""What a phase of planning is: what it needs, what it gives, and what stands around it.

The phases share one context. Each declares the keys that it needs and gives, which is checked when a processor is assembled.
Not here: what the phases do (``strategies``).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from asterism.constellation.constellation import TaskConstellation
from asterism.planner.conversation import Conversation
from asterism.planner.prompter import BaseConstellationPrompter, ToolView
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


class ContextNames(StrEnum):
    """Keys of the context: what phases need and give. Each is a field of ``ConstellationProcessorContext``."""

    REQUEST = "request"
    WEAVING_MODE = "weaving_mode"
    DEVICE_INFO = "device_info"
    CONSTELLATION = "constellation_before"
    CONSTELLATION_AFTER = "constellation_after"
    TOOLS = "tools"
    PROMPT_MESSAGE = "prompt_message"
    RESPONSE_TEXT = "response_text"
    PARSED_RESPONSE = "parsed_response"
    STATUS = "status"
    LLM_COST = "llm_cost"
    PROMPT_TOKENS = "prompt_tokens"
    COMPLETION_TOKENS = "completion_tokens"
    EXECUTION_RESULT = "execution_result"
    ACTION_INFO = "action_info"
    TARGET = "target"
    ADDITIONAL_MEMORY = "additional_memory"
    MEMORY_ITEM = "memory_item"
    MEMORY_KEYS_COUNT = "memory_keys_count"


@dataclasses.dataclass(kw_only=True)
class ConstellationProcessorContext:
    """What the phases of one question share.

    Attributes:
        question: what is asked.
        prompter: of its mode.
        conversation: with the model.
        constellation: the current one; an empty one before there is one.
        agent_type, weaving_mode, session_step, request: whose question this is, and which.
        device_info: profiles as JSON objects, in the order of the fleet.
        constellation_before, constellation_after: JSON text; None where there is none.
        tools: of the editor.
        prompt_message: what the model was told; without what holds for every question.
        response_text, parsed_response, status: what it said.
        action_info: the actions of the reply, as ``{"tool", "parameters"}``.
        execution_result: what came of each on the draft; of a refusal ``{"code", "what", "why"}``.
        target: id of the constellation that is acted on.
        llm_cost: US dollars; 0 where no price is known.
        prompt_tokens, completion_tokens: as the provider counts them.
        additional_memory, memory_item, memory_keys_count: what is remembered of it all.
        took_s: seconds spent in each phase.
    """

    question: PlannerQuestion
    prompter: BaseConstellationPrompter
    conversation: Conversation
    constellation: TaskConstellation
    agent_type: str = "ConstellationAgent"
    weaving_mode: str = "CREATION"
    session_step: int = 0
    request: str = ""
    device_info: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    constellation_before: str | None = None
    constellation_after: str | None = None
    tools: tuple[ToolView, ...] = ()
    prompt_message: str = ""
    response_text: str = ""
    parsed_response: ConstellationAgentResponse | None = None
    status: str = ""
    action_info: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    execution_result: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    target: str | None = None
    llm_cost: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    additional_memory: dict[str, Any] = dataclasses.field(default_factory=dict)
    memory_item: dict[str, Any] = dataclasses.field(default_factory=dict)
    memory_keys_count: int = 0
    took_s: dict[ProcessingPhase, float] = dataclasses.field(default_factory=dict)

    def reply(self) -> ConstellationAgentResponse:
        """The reply, in the phases after it."""
        if self.parsed_response is None:
            raise ValueError("the model has not replied yet")
        return self.parsed_response

    def update(self, data: Mapping[str, Any]) -> None:
        """Take what a phase gives."""
        for name, value in data.items():
            setattr(self, name, value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessingResult:
    """What a phase has come to: its data by key, or ``{"error": …}``."""

    success: bool
    phase: ProcessingPhase
    data: dict[str, Any] = dataclasses.field(default_factory=dict)


class BaseProcessingStrategy(ABC):
    """What is done in one phase.

    Args:
        fail_fast: what goes wrong ends the question; else the phases after it go on without what it gives.
    """

    phase: ClassVar[ProcessingPhase]
    needs: ClassVar[tuple[str, ...]] = ()
    gives: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, fail_fast: bool) -> None:
        self.fail_fast = fail_fast

    @property
    def name(self) -> str:
        """For people."""
        return str(self.phase)

    @abstractmethod
    async def execute(self, context: ConstellationProcessorContext) -> dict[str, Any]:
        """Do it; returns a value for each key in ``gives``."""

    async def process(self, context: ConstellationProcessorContext) -> ProcessingResult:
        """Do it, and put what it gives into the context.

        Raises:
            Exception: whatever went wrong, if it is to fail fast.
        """
        try:
            data = await self.execute(context)
            context.update({key: data[key] for key in self.gives})
        except Exception as error:  # boundary: a phase that may fail does not take the others with it
            return self.handle_error(error)
        return ProcessingResult(success=True, phase=self.phase, data=data)

    def handle_error(self, error: Exception) -> ProcessingResult:
        """A failed result; or, if it is to fail fast, the error itself."""
        if self.fail_fast:
            raise error
        return ProcessingResult(success=False, phase=self.phase, data={"error": f"{self.name} failed: {type(error).__name__}: {error}"})


S = TypeVar("S", bound=type[BaseProcessingStrategy])


def depends_on(*keys: str) -> Callable[[S], S]:
    """Declare which keys of the context a strategy needs, beside its parents'."""

    def declare(strategy: S) -> S:
        strategy.needs = (*strategy.needs, *map(str, keys))
        return strategy

    return declare


def provides(*keys: str) -> Callable[[S], S]:
    """Declare which keys of the context a strategy gives, beside its parents'."""

    def declare(strategy: S) -> S:
        strategy.gives = (*strategy.gives, *map(str, keys))
        return strategy

    return declare


GIVEN = (ContextNames.REQUEST, ContextNames.WEAVING_MODE)
"""What is there before the first phase."""


def check_assembly(strategies: Iterable[BaseProcessingStrategy], given: Iterable[str] = GIVEN) -> None:
    """See that each strategy gets what it needs from those before it, and gives what the context has a place for.

    Raises:
        ValueError: names the phase and the key.
    """
    known = {field.name for field in dataclasses.fields(ConstellationProcessorContext)}
    there = set(given)
    for strategy in strategies:
        if missing := [key for key in strategy.needs if key not in there]:
            raise ValueError(f"{strategy.phase} depends on {missing[0]!r}, and no phase before it provides that")
        if unknown := [key for key in strategy.gives if key not in known]:
            raise ValueError(f"{strategy.phase} provides {unknown[0]!r}, and the context has no such field")
        there.update(strategy.gives)


# -- what stands around a phase ------------------------------------------------------------------------

Proceed = Callable[[], Awaitable[ProcessingResult]]
Middleware = Callable[[ProcessingPhase, ConstellationProcessorContext, Proceed], Awaitable[ProcessingResult]]
"""Stands around a phase: does what it does, and proceeds."""


async def traced(phase: ProcessingPhase, context: ConstellationProcessorContext, proceed: Proceed) -> ProcessingResult:
    """A span of OpenTelemetry for each phase. It never holds a prompt, a reply or the text of an error: those may be secret."""
    attributes = {"asterism.kind": "phase", "asterism.effect_id": context.question.key, "asterism.mode": context.weaving_mode}
    with _tracer.start_as_current_span(str(phase), attributes=attributes, record_exception=False, set_status_on_exception=False) as span:
        try:
            result = await proceed()
        except BaseException as error:  # boundary: whatever ends the phase is in its span, and goes on
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        if not result.success:
            span.set_status(Status(StatusCode.ERROR))
        if phase is ProcessingPhase.LLM_INTERACTION:
            usage = context.conversation.usage
            span.set_attributes(
                {"asterism.model": usage.model, "asterism.tokens.input": usage.input_tokens, "asterism.tokens.output": usage.output_tokens}
            )
        return result


async def timed(phase: ProcessingPhase, context: ConstellationProcessorContext, proceed: Proceed) -> ProcessingResult:
    """Adds up the seconds spent in each phase."""
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        return await proceed()
    finally:
        context.took_s[phase] = context.took_s.get(phase, 0.0) + clock() - began


async def logged(phase: ProcessingPhase, context: ConstellationProcessorContext, proceed: Proceed) -> ProcessingResult:
    """A line for each phase; none holds a prompt or a reply."""
    result = await proceed()
    log.debug("%s: %s %s", context.question.key, phase, "done" if result.success else "failed")
    return result


MIDDLEWARE: tuple[Middleware, ...] = (traced, timed, logged)
"""The chain, outermost first."""


async def through(
    chain: Sequence[Middleware], strategy: BaseProcessingStrategy, context: ConstellationProcessorContext
) -> ProcessingResult:
    """One phase, with the chain around it."""
    if not chain:
        return await strategy.process(context)
    return await chain[0](strategy.phase, context, lambda: through(chain[1:], strategy, context))
