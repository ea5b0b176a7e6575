"""Checks of the arguments of a world: each refuses a value that could only make a test that tests nothing."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import TypeVar

from asterism.conversation.python.agent import StandardAgent
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput, first_of

T = TypeVar("T")


def check_seconds(name: str, value: object) -> None:
    """Raise InvalidInput unless the value is a finite number of seconds, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 <= value < math.inf):
        raise InvalidInput(f"{name}: {value!r} is not a number of seconds, 0 or more")


def check_chances(name: str, values: Iterable[object]) -> None:
    """Raise InvalidInput unless the values are probabilities whose sum is at most 1."""
    listed = list(values)
    numbers = [chance for chance in listed if isinstance(chance, int | float) and 0 <= chance <= 1]
    if len(numbers) < len(listed) or math.fsum(numbers) > 1 + 1e-9:
        raise InvalidInput(f"{name}: chances must be from 0 to 1 with a sum of at most 1, not {', '.join(map(repr, listed))}")


def check_one_of(name: str, value: object, known: Iterable[str]) -> None:
    """Raise InvalidInput unless the value is one of the known names."""
    if value not in (names := list(known)):
        raise InvalidInput(f"{name}: unknown {value!r}; known: {', '.join(map(repr, names)) or 'none'}")


def check_type(name: str, value: object, kind: type[T], hint: str = "") -> T:
    """Return the value if it is of this type; else raise InvalidInput with the hint."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name}: {value!r} is not of type {kind.__name__}{hint and '; '}{hint}")
    return value


def check_int(name: str, value: object, *, least: int | None = None) -> int:
    """Return the value if it is an integer and not below ``least``; else raise InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise InvalidInput(f"{name}: {value!r} is not an integer{'' if least is None else f' of at least {least}'}")
    return value


def check_each(name: str, value: object, kind: type[T]) -> list[T]:
    """Return the values, or the single value, as a list. Raise InvalidInput if one is of another type."""
    listed = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return [check_type(f"{name}[{number}]", one, kind) for number, one in enumerate(listed)]


def check_fleet(fleet: object) -> dict[str, AgentProfile]:
    """Return the profiles of a fleet by id. Raise InvalidInput for another type or a duplicate id."""
    found: dict[str, AgentProfile] = {}
    for number, profile in enumerate(check_each("fleet", fleet, AgentProfile)):
        if profile.device_id in found:
            raise InvalidInput(f"fleet[{number}]: duplicate device id {profile.device_id!r}")
        found[profile.device_id] = profile
    return found


def check_agent_class(value: object) -> type[StandardAgent]:
    """Return the value if it is a class of conversations; else raise InvalidInput."""
    if not (isinstance(value, type) and issubclass(value, StandardAgent)):
        raise InvalidInput(f"agent: {value!r} is not a subclass of StandardAgent")
    return value


@contextlib.contextmanager
def unwrapped_group() -> Iterator[None]:
    """Raise the first error of a task group in place of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_of(group) from None
