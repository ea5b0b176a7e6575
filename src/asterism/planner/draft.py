"""What the constellation editor edits: a constellation in memory, a plan file, or a run that is under way.

The port, and the first of the three. Every edit is the same data and is judged by the same code; what differs is where the
result is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from asterism.constellation.batch import apply_edits
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.edits import Applied, Edit, parse_action
from asterism.constellation.nesting import apply_on_fleet
from asterism.constellation.profile import Fleet


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """An edit that was taken.

    Attributes:
        constellation: as it is after it; to look at.
        changed: False when it was so already.
        notes: what changed nothing, in words.
    """

    constellation: TaskConstellation
    changed: bool
    notes: tuple[str, ...] = ()


class Draft(Protocol):
    """A constellation that can be edited."""

    async def look(self) -> TaskConstellation:
        """The constellation as it is now.

        Raises:
            EditRefused: there is none, or it cannot be had; says why.
        """
        ...

    async def edit(self, action: Mapping[str, Any]) -> Accepted:
        """Carry out one edit, ``{"tool": …, "parameters": {…}}``: whole or not at all, and harmless a second time.

        Raises:
            EditRefused: nothing has changed.
        """
        ...


class MemoryDraft:
    """A draft in memory: a planner makes its edits here, one by one, before they are proposed as one batch.

    A task may come before the dependency that its inputs need, so references and arguments are judged by
    :meth:`check`, and all the rest at each edit.

    Args:
        constellation: to begin with; it is copied. An empty one by default.
        fleet: where devices and skills are looked up; None if that is not to be done.
    """

    def __init__(self, constellation: TaskConstellation | None = None, fleet: Fleet | None = None) -> None:
        self._base = (constellation or TaskConstellation()).to_dict()
        self._fleet = fleet
        self._edits: list[Edit] = []
        self.constellation = TaskConstellation.from_dict(self._base)

    async def look(self) -> TaskConstellation:
        """The draft as it is."""
        return self.constellation

    async def edit(self, action: Mapping[str, Any]) -> Accepted:
        """Carry out one edit; see ``Draft.edit``."""
        edit = parse_action(action)
        applied = apply(self.constellation, [edit], self._fleet, partial=True)
        self._edits.append(edit)
        return Accepted(constellation=self.constellation, changed=applied.changed, notes=applied.notes)

    def check(self) -> Applied:
        """Judge all edits as the one batch that they are.

        Raises:
            EditRefused: as a batch they cannot be taken.
        """
        return apply(TaskConstellation.from_dict(self._base), self._edits, self._fleet)


def apply(constellation: TaskConstellation, edits: list[Edit], fleet: Fleet | None, *, partial: bool = False) -> Applied:
    """Apply a batch with or without a fleet.

    Raises:
        EditRefused: the constellation is as it was.
    """
    if fleet is None:
        return apply_edits(constellation, edits, partial=partial)
    return apply_on_fleet(constellation, edits, fleet, partial=partial)
