"""``on_running``: its body is entered once per handler, and by default runs the plan of the agent."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from asterism.conversation.machine.events import AgentStatus, Message
from asterism.conversation.python.agent_state import AgentResult, AgentState, checked
from asterism.conversation.python.children import constellation
from asterism.conversation.python.plans import params_from
from asterism.engine.control.children import StartChild
from asterism.errors import InvalidInput


class PlanAgent(Protocol):
    """The agent, as its default ``on_running`` uses it."""

    plan: ClassVar[Any]
    description: ClassVar[str]
    _state: AgentState

    def make_result(self, status: AgentStatus | None = None, raw_message: str = "", data: dict[str, Any] | None = None) -> AgentResult:
        """Return the result of a handler."""
        ...

    async def child(self, key: str, start: StartChild) -> Any:
        """Run a child and return its result."""
        ...


PLAN = "plan"
"""Key of the child run of an agent's plan."""


def entered_once(body: Callable[..., Any]) -> Any:
    """Wrap ``on_running``: its body is entered once RUNNING is journaled, and at most once per handler; ``super()`` passes."""

    @functools.wraps(body)
    async def on_running(self: Any, msg: Message) -> Any:
        state = self._state
        if state.depth == 0:
            if state.entered:
                raise InvalidInput(f"this handler has already entered {type(self).__name__}.on_running; call it once")
            if self.status is not AgentStatus.RUNNING:
                self.transition_to(AgentStatus.RUNNING)
            if state.host is not None:
                await state.host.enter(self)
            state.entered = True
        state.depth += 1
        try:
            result = await body(self, msg)
        finally:
            state.depth -= 1
        return result if state.depth else checked(self, "on_running", result)

    return on_running


async def run_plan(agent: PlanAgent) -> AgentResult:
    """Run the plan of an agent with its fields as parameters, and complete with the results of its tasks; without one, at once.

    Raises:
        ChildFailed: the run of the plan failed or was cancelled.
    """
    if agent.plan is None:
        return agent.make_result(AgentStatus.COMPLETED, "Done.")
    started = agent._state.host.started(PLAN) if agent._state.host else None  # after a crash: the plan of the agent may have changed since
    start = started or constellation(agent.plan, request=agent.description or type(agent).__name__, params=params_from(agent))
    report = await agent.child(PLAN, start)
    return agent.make_result(AgentStatus.COMPLETED, report["summary"], {"results": report["results"]})
