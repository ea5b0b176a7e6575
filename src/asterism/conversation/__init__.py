"""Conversations: flow agents that collect fields, ask for approval, and then run.

``machine`` is their table, ``view`` shows a conversation, ``python`` is the Python API with the performers, and
``form`` is what the engine gets. ``phrases`` has the words of its phrases.
"""

from asterism.conversation import phrases

__all__ = ["phrases"]
