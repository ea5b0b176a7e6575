"""Conversations: flow agents that collect fields, ask for approval, and then run.

``machine`` is their table, ``view`` shows a conversation, and ``python`` is the Python API with the performers.
"""
