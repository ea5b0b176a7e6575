"""The request with which one run starts another: the same type for every machine, as data."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from asterism.engine.kernel.guards import Guards
from asterism.errors import InvalidInput

D = TypeVar("D", bound=msgspec.Struct)


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to start a run of a machine.

    Attributes:
        definition: definition prepared by the machine's own package, as JSON; only that machine
            reads it (``defined_as``).
        request: the task, in words.
        inputs: JSON values by name.
        budget_s: seconds the run may take; None for the limit of its definition.
        fleet_file: path of the fleet file, for a machine that runs tasks on devices; empty without
            one.
        guards: the guards of the run that starts it, as they stand.
    """

    definition: dict[str, Any]
    request: str = ""
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    budget_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    fleet_file: str = ""
    guards: Guards = Guards()

    def defined_as(self, kind: type[D]) -> D:
        """Return the definition as the type of its machine.

        Raises:
            InvalidInput: the definition does not have this type.
        """
        try:
            return msgspec.convert(self.definition, kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"a run cannot be started: its definition is not a valid {kind.__name__}: {error}") from None

    def limit_s(self, own_s: float, *, default_s: float | None = None) -> float:
        """Return the seconds the run may take: its own limit, at most the budget.

        Args:
            own_s: the limit in the definition.
            default_s: the limit of a definition that names none; it does not shorten a budget.
        """
        if self.budget_s is None:
            return own_s
        return self.budget_s if own_s == default_s else min(own_s, self.budget_s)
