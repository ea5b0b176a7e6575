"""Decide what a role may do. Pure."""

from __future__ import annotations

from typing import Literal, get_args

from asterism.runtime.ports.tokens import Role

Action = Literal["read", "submit", "command", "answer", "manage"]
"""``read`` runs, questions and devices; ``submit`` a run; ``command`` a run; ``answer`` a question; ``manage`` tokens."""

_LEAST: dict[Action, Role] = {"read": "viewer", "submit": "operator", "command": "operator", "answer": "approver", "manage": "admin"}
_ROLES: tuple[Role, ...] = get_args(Role)


def allowed(role: Role, action: Action) -> bool:
    """Return True if a role may do this; each role may do what the ones before it may."""
    return _ROLES.index(role) >= _ROLES.index(_LEAST[action])


def least_role(action: Action) -> Role:
    """Return the first role that may do this."""
    return _LEAST[action]
