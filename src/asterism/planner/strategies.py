"""What the four phases of planning do, and which function serves which phase and mode."""

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
"""Characters of a prompt, and of a reply, that go into the journal."""


@provides(ContextNames.TOOLS, ContextNames.CONSTELLATION)
async def provide_context(context: ConstellationProcessorContext) -> tuple[Any, ...]:
    """Gather what the prompt shows beside the question itself."""
    known = context.question.constellation
    return edit_tools(), TaskConstellation.from_dict(known) if known else TaskConstellation()


@depends_on(ContextNames.TOOLS, ContextNames.CONSTELLATION)
@provides(ContextNames.PROMPT_MESSAGE, ContextNames.RESPONSE_TEXT, ContextNames.PARSED_RESPONSE)
async def ask_model(context: ConstellationProcessorContext) -> tuple[Any, ...]:
    """Ask the model until its reply can be read.

    Raises:
        PlanningUnavailable: no usable reply can be had.
    """
    talk, prompter = context.conversation, context.prompter
    if not talk.prompt:
        constellation = context.constellation
        whole = excerpt(constellation, context.question.batch).whole
        system = prompter.system_prompt_construction(context.tools)
        user = prompter.user_content_construction(context.question, constellation)
        talk.begin(system, user, None if whole else lambda offset: page(constellation, offset))
    while True:  # bounded: the conversation ends when too many replies are refused
        text = await talk.reply()
        try:
            reply = parse_reply(text)
            return talk.prompt, text, _with_plan(reply) if context.question.mode == "CREATION" else reply
        except InvalidReply as invalid:
            talk.refuse(str(invalid), invalid.code, prompter.example_reply())


def _with_plan(reply: ConstellationAgentResponse) -> ConstellationAgentResponse:
    """Return the reply with its plan as ``constellation``, also where the plan is the one edit that builds it.

    Raises:
        InvalidReply: the reply has no plan, and does not give up.
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
    """Carry the plan of a reply out on a draft, as the edit that builds it."""
    reply = context.parsed_response
    if reply.constellation is None or reply.status == "FAIL":
        return (None,)
    return (await _rehearse(context, [{"tool": "build_constellation", "parameters": msgspec.to_builtins(reply.constellation)}]),)


@depends_on(ContextNames.CONSTELLATION, ContextNames.PARSED_RESPONSE)
@provides(ContextNames.EXECUTION_RESULT)
async def execute_edits(context: ConstellationProcessorContext) -> tuple[Any, ...]:
    """Carry the actions of a reply out on a draft; then merge the constellation that is in it, if there is one."""
    actions, plan = list(context.parsed_response.actions), context.parsed_response.constellation
    if plan is not None:
        actions.append({"tool": "build_constellation", "parameters": {**msgspec.to_builtins(plan), "clear": False}})
    return (await _rehearse(context, actions),)


async def _rehearse(context: ConstellationProcessorContext, actions: list[dict[str, Any]]) -> Refusal | None:
    """Return what a draft refuses of the actions: first of each by itself, then of all as one batch."""
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
    """Cut what was said to what the journal keeps of it."""
    return ({"prompt": cut(context.prompt_message, MAX_REMEMBERED), "reply": cut(context.response_text, MAX_REMEMBERED)},)


class ConstellationStrategyFactory:
    """Which function serves which phase and mode."""

    @staticmethod
    def create_all_strategies(weaving_mode: str) -> dict[ProcessingPhase, Strategy]:
        """Return the strategies of a mode by phase, in order; modes differ in how actions are carried out."""
        return {
            ProcessingPhase.CONTEXT_PROVISION: provide_context,
            ProcessingPhase.LLM_INTERACTION: ask_model,
            ProcessingPhase.ACTION_EXECUTION: execute_plan if weaving_mode == "CREATION" else execute_edits,
            ProcessingPhase.MEMORY_UPDATE: update_memory,
        }
