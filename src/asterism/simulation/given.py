"""What a user gives to a world, refused where it could only make a test that tries nothing."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import TypeVar

from asterism.constellation.profile import AgentProfile
from asterism.errors import InvalidInput, first_of
from asterism.flows.agent import StandardAgent

T = TypeVar("T")


def seconds(what: str, given: object) -> None:
    """Raises InvalidInput where it is no number of seconds from 0 on."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not (0 <= given < math.inf):
        raise InvalidInput(f"{what}: {given!r} is no time; say seconds, 0 or more")


def chances(what: str, given: Iterable[object]) -> None:
    """Raises InvalidInput where these are no chances that exclude each other."""
    listed = list(given)
    numbers = [chance for chance in listed if isinstance(chance, int | float) and 0 <= chance <= 1]
    if len(numbers) < len(listed) or math.fsum(numbers) > 1 + 1e-9:
        raise InvalidInput(f"{what}: chances are numbers from 0 to 1, and together at most 1; not {', '.join(map(repr, listed))}")


def one_of(what: str, given: object, known: Iterable[str]) -> None:
    """Raises InvalidInput where it is none of these."""
    if given not in (names := list(known)):
        raise InvalidInput(f"{what}: there is no {given!r}; there are {', '.join(map(repr, names)) or 'none'}")


def of_kind(what: str, given: object, kind: type[T], how: str = "") -> T:
    """The same. Raises InvalidInput where it is something else; ``how`` says what to do."""
    if not isinstance(given, kind):
        raise InvalidInput(f"{what}: {given!r} is no {kind.__name__}{how and '; '}{how}")
    return given


def whole(what: str, given: object, *, least: int | None = None) -> int:
    """The same number. Raises InvalidInput where it is no whole one, or below the least."""
    if isinstance(given, bool) or not isinstance(given, int) or (least is not None and given < least):
        raise InvalidInput(f"{what}: {given!r} is no whole number{'' if least is None else f' from {least} on'}")
    return given


def each(what: str, given: object, kind: type[T]) -> list[T]:
    """What is given, or the only one. Raises InvalidInput where one is something else."""
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    return [of_kind(f"{what}[{number}]", one, kind) for number, one in enumerate(listed)]


def by_id(fleet: object) -> dict[str, AgentProfile]:
    """The profiles of a fleet. Raises InvalidInput where it is none, or two share an id."""
    found: dict[str, AgentProfile] = {}
    for number, profile in enumerate(each("fleet", fleet, AgentProfile)):
        if profile.device_id in found:
            raise InvalidInput(f"fleet[{number}]: there is another device {profile.device_id!r}; ids are unique")
        found[profile.device_id] = profile
    return found


def agent_class(given: object) -> type[StandardAgent]:
    """The class of a conversation. Raises InvalidInput where it is none."""
    if not (isinstance(given, type) and issubclass(given, StandardAgent)):
        raise InvalidInput(f"agent: {given!r} is no class of a StandardAgent")
    return given


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """The first error of a task group, in place of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_of(group) from None
