"""Fan-out in Python: ``nightly.task(transform, file=each(files))`` performs a task for each item of a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from asterism.constellation.model.fan_out import FailedItems
from asterism.constellation.model.references import ITEM


class Each:
    """The items of a list, as an input of a task that is performed for each of them; ``each`` makes it.

    ``each(files)["url"]`` is a field of the item.
    """

    def __init__(self, items: Any, max_concurrent: int | None, failed: FailedItems, path: tuple[str, ...] = ()) -> None:
        self.items = items
        self.max_concurrent = max_concurrent
        self.failed = failed
        self.path = path

    def __getitem__(self, key: str | int) -> Each:
        """Return a field of the item."""
        return Each(self.items, self.max_concurrent, self.failed, (*self.path, str(key)))

    @property
    def reference(self) -> str:
        """Return the reference to the item, or to its field."""
        return "${" + ".".join((ITEM, *self.path)) + "}"

    def __str__(self) -> NoReturn:
        raise TypeError("each(…) is a whole input; write ${item} in a text, beside an input that is each(…)")

    def __iter__(self) -> NoReturn:
        raise TypeError("each(…) has no items before the run has the list")


def each(items: Any, /, *, max_concurrent: int | None = None, failed: FailedItems = "stop") -> Any:
    """Return the items of a list, as an input: its task is performed once for each of them.

    The result of the task is the list of their results, in order, and ``parts["failed"]`` refers to the failed items.

    Args:
        items: a task that returns a list, a field of its result, a parameter, or a list.
        max_concurrent: number of items that may be under way at once; None for no limit.
        failed: ``stop`` to fail the task after the first failed item, ``omit`` to leave failed items out.
    """
    return Each(items, max_concurrent, failed)


def each_in(value: Any) -> Iterator[Each]:
    """Yield every ``Each`` in the inputs of a task."""
    match value:
        case Each():
            yield value
        case Mapping():
            for item in value.values():
                yield from each_in(item)
        case list() | tuple():
            for item in value:
                yield from each_in(item)
        case _:
            pass
