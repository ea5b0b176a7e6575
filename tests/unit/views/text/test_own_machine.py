"""A run of a program's own machine: its page says what its rows and its log say, with or without a view of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asterism.engine.control import StepContext
from asterism.engine.runtime.form import Form
from asterism.views import BaseView
from asterism.views.text.show import RunTree, read_tree, show_data, show_lines
from tests.support.errand_machine import Basket, Bought, State, bought, ended, errand, opened


def bought_and_touched(memory: Basket, event: Bought, context: StepContext) -> State:
    context.touch("bag", "1")
    return bought(memory, event, context)


ERRAND = errand(bought=bought_and_touched)


class ErrandView(BaseView):
    def parts(self) -> Iterator[tuple[str, str]]:
        yield from super().parts()
        yield "bag", "1"

    def row(self, kind: str, key: str) -> dict[str, Any] | None:
        return {"what": self.run.memory.what} if kind == "bag" else super().row(kind, key)


def utc(at: float, form: str) -> str:
    return time.strftime(form, time.gmtime(at))


def read(folder: Path, view: type[BaseView] | None = None) -> RunTree:
    async def drive() -> RunTree:
        async with opened(folder, ERRAND) as runtime:
            await ended(runtime, ERRAND)
            return read_tree("r", await runtime.export("r"), lambda _: Form(ERRAND, view=view))

    return asyncio.run(drive())


def page(tree: RunTree) -> list[str]:
    return [str(line) for line in show_lines(tree, tree.history.last_at, utc)]


def test_a_machine_without_a_view_is_shown_with_its_states_and_its_log(tmp_path: Path) -> None:
    tree = read(tmp_path)
    lines = page(tree)
    assert lines[0] == "run r  finished  DONE"
    assert lines[1] == "an errand"
    assert [word for word in lines[lines.index("states") + 1].split() if word in State.__members__] == ["OUT", "BACK", "DONE"]
    assert [line[12:] for line in lines if "→" in line and line[2].isdigit()] == ["OUT → BACK", "BACK → DONE"]
    assert show_data(tree, tree.history.last_at)["rows"]["run"]["state"] == "DONE"


def test_the_rows_of_a_machines_own_view_are_shown(tmp_path: Path) -> None:
    tree = read(tmp_path, ErrandView)
    assert "  bag:1  what=tea" in page(tree)
    assert tree.history.part_status() == {"bag:1": "what=tea"}
