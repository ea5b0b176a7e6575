"""The functions of the four planning phases, and their selection by phase and mode."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.edits import BuildConstellation, EditRefused, Refusal, parse_action
from asterism.planner.draft import MemoryDraft
from asterism.planner.edit_tools import edit_tools
from asterism.planner.excerpt import cut, excerpt, page
from asterism.planner.phases import (
    ConstellationProcessorContext,
    ContextNames,
    ProcessingPhase,
    Strategy,
    depends_on,
    provides,
)
from asterism.planner.reply import ConstellationAgentResponse, InvalidReply, parse_reply

MAX_REMEMBERED = 20_000
"""Maximum characters of a prompt, and of a reply, that the journal records."""


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
        raise InvalidReply("missing 'constellation' field: CREATION wants a constellation with tasks, or status FAIL and why in 'thought'")
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
        """Return the strategies of a mode, by phase. Only ACTION_EXECUTION depends on the mode."""
        return {
            ProcessingPhase.CONTEXT_PROVISION: provide_context,
            ProcessingPhase.LLM_INTERACTION: ask_model,
            ProcessingPhase.ACTION_EXECUTION: execute_plan if weaving_mode == "CREATION" else execute_edits,
            ProcessingPhase.MEMORY_UPDATE: update_memory,
        }
