"""Plugin of pytest: the fixture ``world`` and the option ``--kill-at-every-entry`` (docs/testing.md).

pytest imports this module in every environment that has Asterism. So it imports nothing before a test uses it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from asterism.testing.people import Crash
    from asterism.testing.world import World

OPTION = "--kill-at-every-entry"


class Worlds:
    """Makes the worlds of one test, which has it as the fixture ``world``.

    Attributes:
        made: the worlds in the order of their making.
        crashes: crashes to add to the worlds of this repetition of the test, by their place in ``made``.
    """

    def __init__(self) -> None:
        self.made: list[World] = []
        self.crashes: dict[int, Crash] = {}

    def __call__(self, seed: int = 0, **surroundings: Any) -> World:
        """Return a new world; the arguments are those of ``World``."""
        from asterism.testing.world import World  # noqa: PLC0415 - only a test with a world loads it

        if crash := self.crashes.get(len(self.made)):
            surroundings["crashes"] = [crash]
        self.made.append(World(seed, **surroundings))
        return self.made[-1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.getgroup("asterism").addoption(
        OPTION, action="store_true", help="repeat each test that uses the fixture world, with a crash at each entry of its journals"
    )


@pytest.fixture
def world() -> Worlds:
    """Return ``World``, as a function with its arguments. With ``--kill-at-every-entry``, the test is repeated for each crash."""
    return Worlds()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Call a test. With the option, call it again with a crash at each entry of each of its worlds."""
    result = yield
    worlds = pyfuncitem.funcargs.get("world")
    if isinstance(worlds, Worlds) and not worlds.crashes and pyfuncitem.config.getoption(OPTION):
        _kill_at_every_entry(pyfuncitem, worlds)
    return result


def _kill_at_every_entry(test: pytest.Function, worlds: Worlds) -> None:
    """Repeat a test. A world that has crashes of its own, or that did not run to its end, stays as it is."""
    from asterism.testing.recovery import check_recovered, crash_points, noted  # noqa: PLC0415 - as above

    for place, undisturbed in enumerate(tuple(worlds.made)):
        if undisturbed.ending is None or undisturbed.counts["crashed"]:
            continue
        for crash, where in crash_points(undisturbed.ending):
            worlds.made, worlds.crashes = [], {place: crash}
            with noted(where):
                test.ihook.pytest_pyfunc_call(pyfuncitem=test)
            check_recovered(undisturbed, next(iter(worlds.made[place:]), None), crash, where)
