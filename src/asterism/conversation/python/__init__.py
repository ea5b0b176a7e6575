"""Flow agents: conversations that collect fields, ask for approval, and then act.

    from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent

    class Lunch(StandardAgent):
        dish: str = InputField("What would you like?")

        async def on_running(self, msg: Message) -> AgentResult:
            return self.make_result(AgentStatus.COMPLETED, f"{self.dish} is on the way.")

- ``agent`` has ``StandardAgent`` and ``@flowagent``; ``fields`` declares what an agent asks for, ``declaration``
  checks the class, and ``limits`` has the limits of a field in words.
- ``dialogue_policy`` is the default conversation, and ``answers`` takes a message apart; ``text_answers`` takes the answer to
  the question for a text. Before, ``secret_answers`` takes the secrets out, and ``several`` divides a message with several
  changes. ``parsing`` and ``slot_filling`` find values with ``asterism.words.reading``, ``pattern_values`` by patterns and
  ``named_texts`` by names; ``paths`` corrects paths, and ``models`` asks a model for them.
- ``performer`` calls the handlers, and ``blocking`` those that are plain functions. ``agent_state`` is the state behind an
  agent object, ``secret_store`` holds its secrets, ``secret_fields`` recognizes and masks them, and ``children`` starts runs below it.
  ``plans`` reads and checks the plan of an agent, which ``running`` runs by default.
- ``registry`` finds the class of an agent, ``resumption`` checks that it fits its journals, and ``source`` finds the
  agents of a file and makes them devices.
- ``conversation`` is one agent from its user's side, ``conversation_result`` reads its answer from the journal,
  ``orchestrator`` routes many users to many agents, ``stream`` reports progress.
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
from asterism.conversation.python.fields import InputField as InputField
from asterism.conversation.python.fields import OutputField as OutputField
from asterism.conversation.python.fields import rule as rule
from asterism.conversation.python.orchestrator import Orchestrator as Orchestrator
from asterism.conversation.python.orchestrator import Router as Router
from asterism.conversation.python.stream import StreamEvent as StreamEvent
