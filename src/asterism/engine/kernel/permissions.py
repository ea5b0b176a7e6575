"""Permissions of the sender of an event, which the door that takes it in writes on it."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Permission(enum.StrEnum):
    """One thing that a sender may do.

    Members:
        VIEW: read runs, questions, devices and schedules.
        SUBMIT: start runs, conversations and schedules.
        COMMAND: cancel, pause, retry and fork runs; change schedules.
        EDIT: change the plan of a run.
        ANSWER: answer questions.
        EVENT: send events.
        ADMIN: manage tokens and devices, and lift the guards of a plan.
        LOCAL: name files, secrets, variables and working folders of this computer. No token has it.
    """

    VIEW = "view"
    SUBMIT = "submit"
    COMMAND = "command"
    EDIT = "edit"
    ANSWER = "answer"
    EVENT = "event"
    ADMIN = "admin"
    LOCAL = "local"


Permissions = tuple[Permission, ...]
"""Permissions in the order of their definition, each once, so that equal ones have one text in journals."""

LOWEST: Permissions = (Permission.VIEW,)
"""Those of an event that has none: a program of an earlier version wrote it, or no person sent it."""
ALL_BUT_LOCAL: Permissions = tuple(it for it in Permission if it is not Permission.LOCAL)
"""The most that a sender from another computer has."""
ALL: Permissions = tuple(Permission)
"""Those of the local user: who can write to the database may do everything with it."""


def permissions_of(given: Iterable[Permission]) -> Permissions:
    """Return permissions in their order, each once."""
    there = set(given)
    return tuple([it for it in Permission if it in there])
