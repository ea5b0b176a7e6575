"""Fan-out: a task with ``for_each`` becomes one task per item of a list, which is known when it could start.

An item has the id ``transform[3]``, with an index from 0. It is a task like any other, but edits cannot
change it, and its task stands for it wherever dependencies and results are concerned.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from asterism.devices.model.references import INDEX, ITEM, is_reference, references
from asterism.errors import InvalidInput

MAX_ITEMS = 10_000
"""Number of items of one task."""
MAX_ITEMS_OF_RUN = 50_000
"""Number of items of all tasks of a constellation."""

FailedItems = Literal["stop", "omit"]


class ForEach(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The fan-out of a task.

    Attributes:
        items: a reference to a list, or a list; its parts may be references.
        max_concurrent: number of items that may be under way at once; None for no limit.
        failed: ``stop`` to start no item after one has failed, and to fail the task; ``omit`` to leave failed items out
            of the result.
    """

    items: str | list[Any]
    max_concurrent: Annotated[int, msgspec.Meta(ge=1)] | None = None
    failed: FailedItems = "stop"


class ItemCounts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The progress of a task's items.

    Attributes:
        total: number of items.
        released: number of items, from the first, that have been allowed to start.
        under_way: number of those that have not settled.
        completed, failed: number of items that completed, and that failed.
        cancelled: number of items that were cancelled, or that a person did not approve.
        skipped: number of items that never started: their ``when`` was not met, or another item had failed.
        stopped: True if no further item starts, because one has failed.
    """

    total: int
    released: int = 0
    under_way: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    stopped: bool = False

    @property
    def settled(self) -> int:
        """Return the number of settled items."""
        return self.completed + self.unsuccessful + self.skipped

    @property
    def unsuccessful(self) -> int:
        """Return the number of items for which a task with ``failed: stop`` fails."""
        return self.failed + self.cancelled


def item_id(task_id: str, index: int) -> str:
    """Return the id of an item: ``transform[3]``."""
    return f"{task_id}[{index}]"


def items_words(items: ItemCounts) -> str:
    """Return the progress of items in words: ``19 of 20 items, 1 failed``."""
    parts = [f"{items.completed} of {items.total} item{'s' * (items.total != 1)}"]
    parts += [f"{items.failed} failed"] if items.failed else []
    parts += [f"{items.cancelled} cancelled"] if items.cancelled else []
    parts += [f"{items.skipped} skipped"] if items.skipped else []
    return ", ".join(parts)


def as_for_each(value: Any) -> Any:
    """Return ``for_each`` as an object; a list or a reference alone is its items."""
    return {"items": value} if isinstance(value, str | list | tuple) else value


def check_for_each(each: ForEach, where: str) -> None:
    """Check the items as far as they are known.

    Raises:
        InvalidInput: they are no list and no reference to one, too many, or refer to an item.
    """
    if isinstance(each.items, str) and not is_reference(each.items):
        raise InvalidInput(f"{where}.items: {each.items[:80]!r} is not a list; give a list, or a reference to one: ${{task.field}}")
    if isinstance(each.items, list) and len(each.items) > MAX_ITEMS:
        raise InvalidInput(f"{where}.items: {len(each.items)} items; at most {MAX_ITEMS}")
    for source, _ in references(each.items):
        if source in (ITEM, INDEX):
            raise InvalidInput(f"{where}.items: the list cannot refer to ${{{source}}}, an item of itself")
