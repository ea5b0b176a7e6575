"""The planner with a model: four phases from a question to a proposal. Needs the ``llm`` extra.

    CONTEXT_PROVISION   the editor's tools, the fleet
    LLM_INTERACTION     prompt and reply, told again what is wrong with it
    ACTION_EXECUTION    the reply's actions, on a draft; what the draft refuses is told, too
    MEMORY_UPDATE       what the journal is to remember

Its answer is a proposal: it writes no state, and the machine's table judges it once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import parse_plan
from asterism.planner.conversation import Conversation
from asterism.planner.model import ModelAccess
from asterism.planner.processing import (
    MIDDLEWARE,
    ConstellationProcessorContext,
    Middleware,
    ProcessingPhase,
    ProcessingResult,
    check_assembly,
    through,
)
from asterism.planner.prompter import BaseConstellationPrompter, ConstellationPrompterFactory
from asterism.planner.strategies import ConstellationStrategyFactory
from asterism.runtime.ports.planner import PlannerQuestion, PlanningUnavailable, Proposal


class ConstellationAgentProcessor:
    """A planner that asks a model.

    Args:
        access: the models.
        middleware: what stands around each phase, outermost first.

    Raises:
        ValueError: the phases of a mode do not fit together.
        InvalidInput: the demonstrations cannot be used.
    """

    def __init__(self, access: ModelAccess, middleware: Sequence[Middleware] = MIDDLEWARE) -> None:
        self._access = access
        self._middleware = tuple(middleware)
        folder = Path(access.choice.examples) if access.choice.examples else None
        modes = ConstellationPrompterFactory.get_supported_modes()
        self._prompters = {mode: ConstellationPrompterFactory.create_prompter(mode, folder) for mode in modes}
        self._strategies = {mode: ConstellationStrategyFactory.create_all_strategies(mode) for mode in modes}
        for strategies in self._strategies.values():
            check_assembly(strategies.values())

    async def propose(self, question: PlannerQuestion) -> Proposal:
        """Answer a question.

        Raises:
            PlanningUnavailable: no usable answer can be had; says why, and what trying has cost.
        """
        context = self._context(question)
        talk = context.conversation
        try:
            failed = [result for result in await self._process(context) if not result.success]
            talk.notes += [str(result.data["error"]) for result in failed]
            return self._proposal(context)
        except PlanningUnavailable as unavailable:
            if unavailable.code == "not_recorded":  # the run is another one than was recorded: to go on would be a third
                return Proposal(status="FAIL", thought=str(unavailable), usage=talk.usage, notes=tuple(talk.notes))
            raise
        except Exception as error:  # boundary: a phase that breaks is planning that cannot be had, and the run goes on
            raise talk.unavailable(f"planning broke: {type(error).__name__}: {error}", "broken") from error

    def _context(self, question: PlannerQuestion) -> ConstellationProcessorContext:
        known = question.constellation
        return ConstellationProcessorContext(
            question=question,
            prompter=self._prompter(question.mode),
            conversation=Conversation(self._access, question.key, question.budget_left),
            constellation=TaskConstellation.from_dict(known) if known else TaskConstellation(),
            weaving_mode=question.mode,
            session_step=question.number,
            request=question.request,
        )

    def _prompter(self, mode: str) -> BaseConstellationPrompter:
        if mode not in self._prompters:
            raise PlanningUnavailable(f"Unsupported mode: {mode}; there are {', '.join(self._prompters)}", "unsupported")
        return self._prompters[mode]

    async def _process(self, context: ConstellationProcessorContext) -> list[ProcessingResult]:
        strategies = self._strategies[context.weaving_mode]

        async def phase(which: ProcessingPhase) -> ProcessingResult:
            return await through(self._middleware, strategies[which], context)

        results = [await phase(ProcessingPhase.CONTEXT_PROVISION)]
        while True:  # bounded: the conversation ends when it has been told often enough
            asked = [await phase(ProcessingPhase.LLM_INTERACTION), await phase(ProcessingPhase.ACTION_EXECUTION)]
            refusal = _refusal(context)
            if not asked[1].success or refusal is None:
                break
            context.conversation.refuse(f"{refusal['what']}: {refusal['why']}", refusal["code"], context.prompter.example_reply())
        return [*results, *asked, await phase(ProcessingPhase.MEMORY_UPDATE)]

    @staticmethod
    def _proposal(context: ConstellationProcessorContext) -> Proposal:
        reply, item = context.reply(), context.memory_item
        plan = reply.constellation
        actions = reply.actions
        if context.weaving_mode == "CREATION" and plan is None and context.action_info:
            plan, actions = parse_plan(context.action_info[0]["parameters"]), ()
        return Proposal(
            thought=reply.thought,
            observation=reply.observation,
            status=reply.status,
            plan=plan,
            actions=() if context.weaving_mode == "CREATION" else actions,
            result=reply.result,
            prompt=item.get("prompt", ""),
            reply=item.get("reply", ""),
            notes=tuple(context.conversation.notes),
            usage=context.conversation.usage,
        )


def _refusal(context: ConstellationProcessorContext) -> dict[str, Any] | None:
    """What the draft has refused."""
    last = context.execution_result[-1] if context.execution_result else {}
    return last if "code" in last else None
