"""Divide free places among tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asterism.engine.ports.store import RunRow


def fair_share(due: Mapping[str, Sequence[RunRow]], owned: Mapping[str, int], limit: int) -> list[RunRow]:
    """Return the runs to acquire: each goes to the tenant that has the fewest then.

    Args:
        due: runs of each tenant that are due, in the order in which they are to be acquired.
        owned: runs of each tenant that are owned already.
        limit: the most runs to return.
    """
    ranked = [(owned.get(tenant, 0) + place, row.due_at or 0.0, row) for tenant, rows in due.items() for place, row in enumerate(rows)]
    return [row for _, _, row in sorted(ranked, key=lambda it: it[:2])[:limit]]
