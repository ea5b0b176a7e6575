"""What the four phases of planning do, and which of them serve which mode."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from mcp import Client

from asterism.constellation.edits import EditRefused
from asterism.planner.draft import MemoryDraft
from asterism.planner.editor import editor_server
from asterism.planner.excerpt import cut, excerpt, page
from asterism.planner.processing import (
    BaseProcessingStrategy,
    ConstellationProcessorContext,
    ContextNames,
    ProcessingPhase,
    depends_on,
    provides,
)
from asterism.planner.prompter import ToolView
from asterism.planner.reply import ConstellationAgentResponse, InvalidReply, parse_reply

MAX_REMEMBERED = 20_000
"""Characters of a prompt, and of a reply, that go into the journal."""


@depends_on(ContextNames.REQUEST, ContextNames.WEAVING_MODE)
@provides(ContextNames.TOOLS, ContextNames.DEVICE_INFO, ContextNames.CONSTELLATION, ContextNames.TARGET)
class ConstellationContextProvisionStrategy(BaseProcessingStrategy):
    """Gathers what the model is told: the editor's tools, the fleet, the constellation as it is."""

    phase = ProcessingPhase.CONTEXT_PROVISION

    async def execute(self, context: ConstellationProcessorContext) -> dict[str, Any]:
        """See :class:`BaseProcessingStrategy`."""
        async with Client(editor_server(MemoryDraft())) as editor:
            listed = (await editor.list_tools()).tools
        question = context.question
        return {
            "tools": tuple(ToolView(name=it.name, description=it.description or "", schema=it.input_schema) for it in listed),
            "device_info": [msgspec.to_builtins(profile) for profile in question.fleet.values()],
            "constellation_before": json.dumps(question.constellation) if question.constellation else None,
            "target": context.constellation.constellation_id or None,
        }


@depends_on(ContextNames.TOOLS, ContextNames.DEVICE_INFO)
@provides(
    ContextNames.PARSED_RESPONSE,
    ContextNames.RESPONSE_TEXT,
    ContextNames.LLM_COST,
    ContextNames.PROMPT_TOKENS,
    ContextNames.COMPLETION_TOKENS,
    ContextNames.PROMPT_MESSAGE,
    ContextNames.STATUS,
)
class ConstellationLLMInteractionStrategy(BaseProcessingStrategy):
    """Asks the model until its reply can be read; the mode's prompter words the question."""

    phase = ProcessingPhase.LLM_INTERACTION

    async def execute(self, context: ConstellationProcessorContext) -> dict[str, Any]:
        """See :class:`BaseProcessingStrategy`.

        Raises:
            PlanningUnavailable: no usable reply can be had.
        """
        talk = context.conversation
        if not talk.is_open:
            self._begin(context)
        while True:  # bounded: the conversation ends when it has been told often enough
            text = await talk.reply()
            try:
                reply = parse_reply(text)
                self._check_mode(reply, context)
            except InvalidReply as invalid:
                talk.refuse(str(invalid), invalid.code, context.prompter.example_reply())
                continue
            return {
                "parsed_response": reply,
                "response_text": text,
                "llm_cost": talk.usage.cost_usd,
                "prompt_tokens": talk.usage.input_tokens,
                "completion_tokens": talk.usage.output_tokens,
                "prompt_message": context.prompt_message,
                "status": reply.status,
            }

    def _begin(self, context: ConstellationProcessorContext) -> None:
        constellation = context.constellation
        prompter = context.prompter
        whole = excerpt(constellation, context.question.batch).whole
        reader = None if whole else lambda offset: page(constellation, offset)
        system, user = (
            prompter.system_prompt_construction(context.tools),
            prompter.user_content_construction(context.question, constellation),
        )
        context.prompt_message = context.conversation.begin(system, user, reader)

    @staticmethod
    def _check_mode(reply: ConstellationAgentResponse, context: ConstellationProcessorContext) -> None:
        if context.weaving_mode == "CREATION" and reply.status != "FAIL" and _plan_of(reply) is None:
            raise InvalidReply(
                "missing 'constellation' field: CREATION wants a constellation with tasks, or status FAIL and why in 'thought'"
            )


def _plan_of(reply: ConstellationAgentResponse) -> dict[str, Any] | None:
    """The plan of a reply, under ``constellation`` or as its one action."""
    if reply.constellation is not None:
        found: dict[str, Any] = msgspec.to_builtins(reply.constellation)
        return found
    match reply.actions:
        case ({"tool": "build_constellation", "parameters": plan},):
            return dict(plan)
        case _:
            return None


@depends_on(ContextNames.PARSED_RESPONSE)
@provides(ContextNames.EXECUTION_RESULT, ContextNames.ACTION_INFO, ContextNames.CONSTELLATION_AFTER, ContextNames.STATUS)
class BaseConstellationActionExecutionStrategy(BaseProcessingStrategy):
    """Carries the reply's actions out on a draft, through the editor. What the draft refuses is in ``execution_result``, last."""

    phase = ProcessingPhase.ACTION_EXECUTION
    weaving_mode: ClassVar[str]

    @abstractmethod
    def actions_of(self, reply: ConstellationAgentResponse) -> list[dict[str, Any]]:
        """The actions of a reply in this mode."""

    async def execute(self, context: ConstellationProcessorContext) -> dict[str, Any]:
        """See :class:`BaseProcessingStrategy`."""
        reply = context.reply()
        actions = self.actions_of(reply)
        draft = MemoryDraft(context.constellation, context.question.fleet)
        return {
            "execution_result": await self._carry_out(actions, draft),
            "action_info": actions,
            "constellation_after": draft.constellation.to_json(),
            "status": reply.status,
        }

    @staticmethod
    async def _carry_out(actions: Sequence[Mapping[str, Any]], draft: MemoryDraft) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        async with Client(editor_server(draft)) as editor:
            for number, action in enumerate(actions):
                answer = await editor.call_tool(action["tool"], action["parameters"])
                content = answer.structured_content or {}
                if answer.is_error:
                    return [*results, {"code": "bad_content", "why": "", **content, "what": f"actions[{number}] {content.get('what', '')}"}]
                results.append({name: content[name] for name in ("version", "changed", "notes")})
        try:
            draft.check()
        except EditRefused as refused:
            results.append(msgspec.to_builtins(refused.refusal))
        return results


class ConstellationCreationActionExecutionStrategy(BaseConstellationActionExecutionStrategy):
    """One action: build the constellation."""

    weaving_mode = "CREATION"

    def actions_of(self, reply: ConstellationAgentResponse) -> list[dict[str, Any]]:
        """The plan, as the edit that builds it."""
        plan = _plan_of(reply)
        return [{"tool": "build_constellation", "parameters": plan}] if plan is not None and reply.status != "FAIL" else []


class ConstellationEditingActionExecutionStrategy(BaseConstellationActionExecutionStrategy):
    """The reply's actions; a constellation in it is merged into the one that is there."""

    weaving_mode = "EDITING"

    def actions_of(self, reply: ConstellationAgentResponse) -> list[dict[str, Any]]:
        """The actions, then the merge."""
        actions = list(reply.actions)
        if reply.constellation is not None:
            plan = msgspec.to_builtins(reply.constellation)
            actions.append({"tool": "build_constellation", "parameters": {**plan, "clear": False}})
        return actions


@depends_on(ContextNames.PARSED_RESPONSE)
@provides(ContextNames.ADDITIONAL_MEMORY, ContextNames.MEMORY_ITEM, ContextNames.MEMORY_KEYS_COUNT)
class ConstellationMemoryUpdateStrategy(BaseProcessingStrategy):
    """Puts together what is remembered of the question; the journal keeps it, as the outcome of the effect that asked."""

    phase = ProcessingPhase.MEMORY_UPDATE

    async def execute(self, context: ConstellationProcessorContext) -> dict[str, Any]:
        """See :class:`BaseProcessingStrategy`."""
        additional = {
            "agent_type": context.agent_type,
            "session_step": context.session_step,
            "target": context.target,
            "action": context.action_info,
            "function_call": [action["tool"] for action in context.action_info],
            "arguments": [action["parameters"] for action in context.action_info],
            "constellation_before": context.constellation_before,
            "constellation_after": context.constellation_after,
        }
        item = {
            "step": context.session_step,
            "weaving_mode": context.weaving_mode,
            "request": context.request,
            "prompt": cut(context.prompt_message, MAX_REMEMBERED),
            "reply": cut(context.response_text, MAX_REMEMBERED),
        }
        return {"additional_memory": additional, "memory_item": item, "memory_keys_count": len(item)}


class ConstellationStrategyFactory:
    """Which strategy serves which phase and mode."""

    _action_execution_strategies: ClassVar[dict[str, type[BaseConstellationActionExecutionStrategy]]] = {
        "CREATION": ConstellationCreationActionExecutionStrategy,
        "EDITING": ConstellationEditingActionExecutionStrategy,
    }

    @classmethod
    def register(cls, strategy: type[BaseConstellationActionExecutionStrategy]) -> type[BaseConstellationActionExecutionStrategy]:
        """Take on how a further mode's actions are carried out; usable as a decorator."""
        return cls._action_execution_strategies.setdefault(strategy.weaving_mode, strategy)

    @classmethod
    def create_context_provision_strategy(cls, *, fail_fast: bool = True) -> BaseProcessingStrategy:
        """For every mode."""
        return ConstellationContextProvisionStrategy(fail_fast=fail_fast)

    @classmethod
    def create_llm_interaction_strategy(cls, *, fail_fast: bool = True) -> BaseProcessingStrategy:
        """For every mode. Without a reply there is nothing to go on with, so it fails fast."""
        return ConstellationLLMInteractionStrategy(fail_fast=fail_fast)

    @classmethod
    def create_action_execution_strategy(cls, weaving_mode: str, *, fail_fast: bool = False) -> BaseProcessingStrategy:
        """For one mode.

        Raises:
            ValueError: nobody serves that mode.
        """
        if weaving_mode not in cls._action_execution_strategies:
            raise ValueError(f"Unsupported mode: {weaving_mode}; there are {', '.join(cls._action_execution_strategies)}")
        return cls._action_execution_strategies[weaving_mode](fail_fast=fail_fast)

    @classmethod
    def create_memory_update_strategy(cls, *, fail_fast: bool = False) -> BaseProcessingStrategy:
        """For every mode."""
        return ConstellationMemoryUpdateStrategy(fail_fast=fail_fast)

    @classmethod
    def create_all_strategies(
        cls, weaving_mode: str, *, llm_fail_fast: bool = True, action_fail_fast: bool = False, memory_fail_fast: bool = False
    ) -> dict[ProcessingPhase, BaseProcessingStrategy]:
        """One strategy per phase, in order.

        Raises:
            ValueError: nobody serves that mode.
        """
        return {
            ProcessingPhase.CONTEXT_PROVISION: cls.create_context_provision_strategy(),
            ProcessingPhase.LLM_INTERACTION: cls.create_llm_interaction_strategy(fail_fast=llm_fail_fast),
            ProcessingPhase.ACTION_EXECUTION: cls.create_action_execution_strategy(weaving_mode, fail_fast=action_fail_fast),
            ProcessingPhase.MEMORY_UPDATE: cls.create_memory_update_strategy(fail_fast=memory_fail_fast),
        }
