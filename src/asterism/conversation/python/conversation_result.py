"""Read the agent's last answer from the journal of a conversation, in its language."""

from __future__ import annotations

import msgspec

from asterism.conversation.machine.events import AgentStatus
from asterism.conversation.machine.memory import FlowMemory, Utterance
from asterism.conversation.machine.moves import CANCELLED_PROMPT, INTERRUPTED_PROMPT, TOO_LONG_PROMPT
from asterism.conversation.python.agent_state import HIDDEN, AgentResult, in_order
from asterism.conversation.python.registry import agent_class
from asterism.engine.ports.store import RunRow
from asterism.words.reading.words import words_of

_PROMPTS = {INTERRUPTED_PROMPT: "interrupted", CANCELLED_PROMPT: "cancelled", TOO_LONG_PROMPT: "too_late"}
"""The sentences of the machine; journals have them in English."""


def in_language(memory: FlowMemory, text: str) -> str:
    """Return a text with the sentences of the machine in the language of the conversation."""
    if text not in _PROMPTS:
        return text
    return words_of(memory.language or agent_class(memory.agent).language).text(_PROMPTS[text])


def history_of(memory: FlowMemory) -> list[Utterance]:
    """Return the most recent messages, without secrets."""
    return [msgspec.structs.replace(it, text=in_language(memory, it.text)) for it in memory.history]


def result_of(memory: FlowMemory, row: RunRow) -> AgentResult:
    """Return the result of a conversation that waits or has ended."""
    agent, view = agent_class(memory.agent), memory.view
    fields = in_order(agent, {**view.fields, **dict.fromkeys(view.withheld_fields, HIDDEN)})
    return AgentResult(
        status=AgentStatus(row.state),
        raw_message=in_language(memory, memory.prompt),
        data={**view.outputs, **memory.data},
        metadata=dict(view.metadata),
        fields=fields,
        missing_fields=tuple(name for name, field in agent.input_fields().items() if field.asked and name not in fields),
        run_id=row.run_id,
        code=memory.code if memory.code != "finished" else "",
        reason=memory.reason,
    )
