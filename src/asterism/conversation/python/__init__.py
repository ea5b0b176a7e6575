"""Flow agents: conversations that collect fields, ask for approval, and then act.

    from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent

    class Lunch(StandardAgent):
        dish: str = InputField("What would you like?")

        async def on_running(self, msg: Message) -> AgentResult:
            return self.make_result(AgentStatus.COMPLETED, f"{self.dish} is on the way.")

- ``agent`` has ``StandardAgent`` and ``@flowagent``; ``fields`` declares what an agent asks for, and ``declaration``
  checks the class.
- ``dialogue_policy`` is the default conversation, and ``answers`` takes a message apart; ``text_answers`` takes the
  answer to the question for a text. Before, ``secret_answers`` takes the secrets out, and divides a message with
  several changes. ``parsing`` and ``slot_filling`` find values with ``asterism.words.reading``, ``pattern_values`` by
  patterns and ``named_texts`` by names, and ``models`` asks a model for them.
- ``performer`` calls the handlers. ``agent_state`` is the state behind an agent object, ``secret_fields`` holds its
  secrets, recognizes and masks them, and ``children`` starts runs below it. ``plans`` reads and checks the plan of an agent.
- ``registry`` finds the class of an agent, ``resumption`` checks that it fits its journals, and ``source`` finds the
  agents of a file and makes them devices.
- ``conversation`` is one agent from its user's side, with its answers and its stream, and ``orchestrator`` routes many users
  to many agents.
"""

from __future__ import annotations

from asterism.conversation.machine.events import STATE_TRANSITIONS as STATE_TRANSITIONS
from asterism.conversation.machine.events import AgentStatus as AgentStatus
from asterism.conversation.machine.events import Message as Message
from asterism.conversation.python.agent import StandardAgent as StandardAgent
from asterism.conversation.python.agent import flowagent as flowagent
from asterism.conversation.python.agent_state import AgentResult as AgentResult
from asterism.conversation.python.children import ChildFailed as ChildFailed
from asterism.conversation.python.children import as_child as as_child
from asterism.conversation.python.children import constellation as constellation
from asterism.conversation.python.children import flow as flow
from asterism.conversation.python.conversation import Conversation as Conversation
from asterism.conversation.python.conversation import StreamEvent as StreamEvent
from asterism.conversation.python.fields import InputField as InputField
from asterism.conversation.python.fields import OutputField as OutputField
from asterism.conversation.python.fields import rule as rule
from asterism.conversation.python.orchestrator import Orchestrator as Orchestrator
from asterism.conversation.python.orchestrator import Router as Router
