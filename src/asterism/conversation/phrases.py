"""The words of a conversation's phrases. What a person reads in the conversation itself is in the language of that person."""

from __future__ import annotations

from collections.abc import Mapping

from asterism.engine.kernel.phrase import Wording, declare

PHRASES: Mapping[str, Wording] = {
    # messages of the agent, and questions to the person; ``words.reading`` has the first three in each language
    "conversation.interrupted": "It was interrupted while it was under way, and may have finished. Run it again? (yes/no)",
    "conversation.cancelled": "Cancelled.",
    "conversation.too_late": "It has been too long; this is cancelled.",
    "conversation.waits": "{agent} waits for you.",
    # why a command is refused
    "conversation.being_cancelled": "this conversation is being cancelled",
    "conversation.not_paused": "this conversation is not paused",
    "conversation.paused_already": "this conversation is paused already",
    "conversation.queue_full": "{most} messages wait already; send it again later",
    "conversation.resumed_already": "this conversation is being resumed already",
    # why it, its handler or its child has ended
    "conversation.approved_otherwise": "a person has approved its request with another value of {names}; edit the task, which asks again",
    "conversation.cancelled_by": "cancelled{by:+ by }",
    "conversation.outcome_unknown": "it was interrupted; whether it finished is not known",
    "conversation.owner_ended": "its process ended while on_running was under way",
    "conversation.parent_ended": "its conversation is {state}",
    "conversation.rejected": "rejected",
    "conversation.too_long": "it took longer than {limit_s:g} s",
}
declare(PHRASES)
