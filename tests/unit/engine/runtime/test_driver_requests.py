"""A defect in how a request is made ends no run by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import ConstellationSubmitted, Dispatch
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, RequestFactory
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.stores.memory import MemoryStore
from tests.support.constellation_harness import FLEET
from tests.support.constellations import tasks

FIRST = ConstellationSubmitted(request="go", fleet=FLEET, plan=parse_plan({"tasks": tasks("a")}))


class Watcher:
    def __init__(self) -> None:
        self.troubles: list[str] = []

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None: ...

    def trouble(self, run_id: str, message: str) -> None:
        self.troubles.append(message)


def test_a_request_that_cannot_be_built_is_the_result_of_its_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(run: Any, effect_id: str, effect: Any) -> Any:
        raise KeyError("a")

    changed: dict[type[Effect], RequestFactory] = {**CONSTELLATION_AGENT.requests, Dispatch: RequestFactory(lost)}
    monkeypatch.setattr(CONSTELLATION_AGENT, "requests", changed)
    watcher = Watcher()

    async def main() -> str:
        store = MemoryStore()
        async with Driver(store=store, clock=SystemClock(), forms=by_name([FORM]), observers=[watcher]).opened() as driver:
            runtime = Runtime(store, driver, SystemClock())
            await runtime.submit(CONSTELLATION_AGENT, FIRST, title="a run", actor="me", run_id="r")
            return (await runtime.drive("r")).status

    assert asyncio.run(main()) == "waiting", "a person is asked whether it happened"
    assert watcher.troubles == ["dispatch r:3.0: KeyError: 'a'"]
