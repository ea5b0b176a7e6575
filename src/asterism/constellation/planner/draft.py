"""Drafts: the constellations that an editor can change.

A draft is a constellation in memory, a plan file, or an unfinished run. This module holds the
protocol and the first of the three. All three validate edits with the same code; they differ in
where they store the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import msgspec

from asterism.constellation.model.batch import apply_edits
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import Applied, Edit, EditRefused, parse_actions, with_index
from asterism.constellation.model.nesting import apply_on_fleet, exact_names, first_match
from asterism.engine.kernel.profile import Fleet


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted edit.

    Attributes:
        constellation: after the edit; read-only.
        changed: False if the edit changed nothing.
        notes: sentences that name the parts of the edit that changed nothing.
    """

    constellation: TaskConstellation
    changed: bool
    notes: tuple[str, ...] = ()


class Draft(Protocol):
    """A constellation that can be edited."""

    async def read(self) -> TaskConstellation:
        """Return the current constellation.

        Raises:
            EditRefused: the constellation does not exist or cannot be read.
        """
        ...

    async def edit(self, *actions: Mapping[str, Any]) -> Accepted:
        """Apply edits, each ``{"tool": …, "parameters": {…}}``, as a whole or not at all.

        Applying the same edits again is harmless.

        Raises:
            EditRefused: an edit is invalid; nothing has changed.
        """
        ...


class MemoryDraft:
    """A draft in memory: a planner applies edits one by one before proposing them as a batch.

    A task may come before the dependency that its inputs need. References and arguments are
    therefore validated by :meth:`check`, and everything else at each edit.

    Args:
        constellation: the initial state, which is copied. Empty by default.
        fleet: the devices and skills to validate against; None skips that validation.
    """

    def __init__(self, constellation: TaskConstellation | None = None, fleet: Fleet | None = None) -> None:
        self._base = (constellation or TaskConstellation()).to_dict()
        self._fleet = fleet
        self._edits: list[Edit] = []
        self.constellation = TaskConstellation.from_dict(self._base)

    async def read(self) -> TaskConstellation:
        """Return the current constellation."""
        return self.constellation

    async def edit(self, *actions: Mapping[str, Any]) -> Accepted:
        """Apply edits; see ``Draft.edit``."""
        edits = parse_actions(actions)
        try:
            applied = apply(self.constellation, edits, self._fleet, partial=True)
        except EditRefused as refused:
            there = self.constellation.to_dict()
            raise with_index(
                refused, len(edits), lambda number: apply(TaskConstellation.from_dict(there), edits[:number], self._fleet, partial=True)
            ) from None
        self._edits += edits
        return Accepted(constellation=self.constellation, changed=applied.changed, notes=tuple(map(str, applied.notes)))

    def check(self) -> Applied:
        """Validate all edits as one batch.

        Raises:
            EditRefused: the batch is invalid.
        """
        return apply(TaskConstellation.from_dict(self._base), self._edits, self._fleet)


def apply(
    constellation: TaskConstellation,
    edits: list[Edit],
    fleet: Fleet | None,
    *,
    partial: bool = False,
    exact: bool = False,
    params: Collection[str] = (),
) -> Applied:
    """Apply a batch with or without a fleet; ``exact`` refuses skills that are not named exactly.

    Raises:
        EditRefused: the batch is invalid; the constellation is unchanged.
    """
    if fleet is None:
        return apply_edits(constellation, edits, partial=partial)
    return apply_on_fleet(constellation, edits, fleet, exact_names(edits) if exact else first_match, params=params, partial=partial)
