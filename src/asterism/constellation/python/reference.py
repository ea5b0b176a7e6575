"""Values of a run as its constellation refers to them: results of tasks, and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn, Protocol

from asterism.constellation.model.parameters import Param
from asterism.devices.model.references import PARAMS
from asterism.errors import InvalidInput

_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Named(Protocol):
    """The constellation that a value belongs to."""

    name: str


class Reference:
    """A value that a task will return, as an input of a later task.

    ``files["url"]`` is a field of it, ``files[0]`` an item. In a text it is a reference, too:
    ``f"{files['url']}.bak"``.
    """

    def __init__(self, constellation: Named, task_id: str, path: tuple[str, ...] = ()) -> None:
        self.constellation = constellation
        self.task_id = task_id
        self.path = path

    def __getitem__(self, key: str | int) -> Reference:
        """Return a field or an item of the value."""
        if not _KEY.fullmatch(str(key)):
            raise InvalidInput(
                f"{self}[{key!r}]: a reference can name fields of letters, digits, _ and - only; pass the whole value instead"
            )
        return Reference(self.constellation, self.task_id, (*self.path, str(key)))

    def __str__(self) -> str:
        return "${" + ".".join((self.task_id, *self.path)) + "}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self} of constellation {self.constellation.name!r}>"

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} has no value before the task has run; use when= or condition= to decide by it")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self} has no items before the task has run")


class Task(Reference):
    """A task of a constellation. As an input of another task, it is its whole result."""


class _UnknownParameter(InvalidInput, AttributeError):
    """A constellation has no parameter of this name; ``hasattr`` sees an AttributeError."""


class Params:
    """The parameters of a constellation: ``nightly.params.url`` is the value of ``url`` in a run."""

    def __init__(self, constellation: Named, declared: Mapping[str, Param]) -> None:
        self._constellation = constellation
        self._declared = declared

    def __getattr__(self, name: str) -> Reference:
        """Return a parameter as an input of a task."""
        if name not in self._declared:
            has = ", ".join(self._declared) or "none"
            raise _UnknownParameter(f"constellation {self._constellation.name!r} has no parameter {name!r}; it has {has}")
        return Reference(self._constellation, PARAMS, (name,))

    __getitem__ = __getattr__
