"""Flow agents: conversations that collect fields, ask for approval, and then act.

    from asterism.flows import AgentResult, AgentStatus, InputField, Message, StandardAgent

    class Lunch(StandardAgent):
        dish: str = InputField("What would you like?")

        async def on_running(self, msg: Message) -> AgentResult:
            return self.make_result(AgentStatus.COMPLETED, f"{self.dish} is on the way.")

``agent`` StandardAgent and @flowagent · ``fields`` what it asks for · ``parsing``, ``taking`` values from what people say ·
``models`` a model that finds them · ``collecting`` how it talks by default · ``children`` what it can start · ``seat`` where a view of it
stands · ``performer`` calls its handlers · ``vault`` its secrets · ``registry`` the agents of this process · ``conversation`` its user's
side · ``stream`` what is told on the way · ``orchestrator`` many agents, many users · ``source`` where agents are found again · ``device``
an agent as a device.
"""

from __future__ import annotations

from asterism.flows.agent import StandardAgent as StandardAgent
from asterism.flows.agent import flowagent as flowagent
from asterism.flows.children import ChildFailed as ChildFailed
from asterism.flows.children import as_child as as_child
from asterism.flows.children import constellation as constellation
from asterism.flows.children import flow as flow
from asterism.flows.conversation import Conversation as Conversation
from asterism.flows.fields import InputField as InputField
from asterism.flows.fields import OutputField as OutputField
from asterism.flows.fields import rule as rule
from asterism.flows.orchestrator import Orchestrator as Orchestrator
from asterism.flows.orchestrator import Router as Router
from asterism.flows.seat import AgentResult as AgentResult
from asterism.flows.stream import StreamEvent as StreamEvent
from asterism.machines.flow_agent.events import STATE_TRANSITIONS as STATE_TRANSITIONS
from asterism.machines.flow_agent.events import AgentStatus as AgentStatus
from asterism.machines.flow_agent.events import Message as Message
