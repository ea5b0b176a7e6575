"""The planner with a model: four phases from a question to a proposal. Needs the ``llm`` extra.

    CONTEXT_PROVISION   the editor's tools and the constellation
    LLM_INTERACTION     prompt and reply; an unreadable reply is refused, with the reason
    ACTION_EXECUTION    the reply's actions on a draft; the model corrects a refused one
    MEMORY_UPDATE       the prompt and reply that the journal records

The answer is a proposal: the planner writes no state, and the machine's table validates it again.
"""

from __future__ import annotations

from pathlib import Path

from asterism.constellation.planner.model import ModelAccess
from asterism.constellation.planner.model_conversation import ModelConversation
from asterism.constellation.planner.phases import ConstellationProcessorContext, ConstellationStrategyFactory, ProcessingPhase, run_phase
from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal
from asterism.constellation.planner.prompter import ConstellationPrompterFactory


class ConstellationAgentProcessor:
    """A planner that asks the models of ``access``.

    Raises:
        InvalidInput: a demonstration file is invalid.
    """

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        folder = Path(access.choice.examples) if access.choice.examples else None
        modes = ConstellationPrompterFactory.get_supported_modes()
        self._prompters = {mode: ConstellationPrompterFactory.create_prompter(mode, folder) for mode in modes}

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

    @staticmethod
    async def _process(context: ConstellationProcessorContext) -> None:
        conversation = context.conversation
        strategies = ConstellationStrategyFactory.create_all_strategies(context.question.mode)

        async def succeeds(phase: ProcessingPhase) -> bool:
            result = await run_phase(phase, strategies[phase], context)
            if not result.success:
                conversation.note(result.data["error"])
            return result.success

        await succeeds(ProcessingPhase.CONTEXT_PROVISION)
        while True:  # bounded: the conversation ends after too many refused replies
            await succeeds(ProcessingPhase.LLM_INTERACTION)
            rehearsed = await succeeds(ProcessingPhase.ACTION_EXECUTION)
            if not rehearsed or (refusal := context.execution_result) is None:
                break
            conversation.refuse(f"{refusal.what}: {refusal.why}", refusal.code, context.prompter.example_reply())
        await succeeds(ProcessingPhase.MEMORY_UPDATE)
