"""A loop whose workers do nothing, through everything: machine, session, driver, SQLite; beside LangGraph, where that is installed.

LangGraph is given the least that is the same loop: a node that executes a step and one that reflects on it, each checkpoint written
before the next node (``durability="sync"``). To have it measured: ``pip install langgraph langgraph-checkpoint-sqlite``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import operator
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.loop.form import FORM
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker
from asterism.loop.python.definition import open_performers
from asterism.stores.sqlite import SqliteStore
from benchmarks.floors import durable_floor
from benchmarks.plans import chain
from benchmarks.timing import Taken, in_turns, taking

STEPS = 100


async def _nothing(handoff: Handoff) -> None:
    """A worker that does nothing."""


async def _goes_on(view: LoopView) -> str:
    return "continue"


def durable_loop(steps: int) -> Taken:
    """A loop of so many steps over a fresh SQLite file, each reflected on."""
    plan = [{"worker": "idle", "intent": "nothing"} for _ in range(steps)]
    loop = OrchestrationLoop(plan=plan, workers={"idle": Worker(_nothing, idempotent=True)}, reflect=_goes_on)

    async def measured() -> Taken:
        with tempfile.TemporaryDirectory() as folder:
            store, clock = SqliteStore.open(Path(folder) / "loop.db", create=True), SystemClock()
            try:
                async with open_performers() as performers:
                    driver = Driver(store=store, clock=clock, forms=by_name([FORM.performed_by(performers)]))
                    async with driver.opened():
                        runtime = Runtime(store, driver, clock)
                        with taking() as taken, loop.here():
                            run = await runtime.submit(ORCHESTRATION_LOOP, loop.submitted("go"), title="a loop", actor="benchmark")
                            row = await runtime.drive(run)
            finally:
                await store.close()
        if row.outcome != "finished":
            raise RuntimeError(f"the loop ended {row.outcome or row.status}, so its time means nothing")
        return taken

    return asyncio.run(measured())


def has_langgraph() -> bool:
    """True where LangGraph and its SQLite checkpointer are installed."""
    return all(importlib.util.find_spec(name) for name in ("langgraph", "aiosqlite"))


class _State(TypedDict):
    done: int
    results: Annotated[list[Any], operator.add]


def langgraph_loop(steps: int) -> Taken:
    """The same loop in LangGraph."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415 - not a dependency
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415 - as above

    async def execute(state: _State) -> dict[str, Any]:
        return {"done": state["done"] + 1, "results": [None]}

    async def reflect(state: _State) -> dict[str, Any]:
        return {}

    graph = StateGraph(_State)
    graph.add_node("execute", execute)
    graph.add_node("reflect", reflect)
    graph.add_edge(START, "execute")
    graph.add_edge("execute", "reflect")
    graph.add_conditional_edges("reflect", lambda state: END if state["done"] >= steps else "execute")

    async def measured() -> Taken:
        with tempfile.TemporaryDirectory() as folder:
            async with AsyncSqliteSaver.from_conn_string(str(Path(folder) / "graph.db")) as saver:
                app = graph.compile(checkpointer=saver)
                config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 10 * steps}
                with taking() as taken:
                    ended = await app.ainvoke({"done": 0, "results": []}, config, durability="sync")
        if ended["done"] != steps:
            raise RuntimeError(f"LangGraph did {ended['done']} of {steps} steps, so its time means nothing")
        return taken

    return asyncio.run(measured())


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    sides: dict[str, Callable[[], Taken]] = {"loop": partial(durable_loop, STEPS), "floor": partial(durable_floor, chain(STEPS))}
    if has_langgraph():
        sides["langgraph"] = partial(langgraph_loop, STEPS)
    found = in_turns(sides, 1 if quick else 15)
    loop = found["loop"]
    told = f"{loop.wall_s / STEPS * 1e3:.2f} ms, {loop.times(found['floor']):.1f} times the durable floor's chain"
    if "langgraph" in found:
        graph = found["langgraph"]
        told += f"; LangGraph, SQLite, sync: {graph.wall_s / STEPS * 1e3:.2f} ms, {graph.times(loop):.1f} times as long"
    return [f"| a step of a durable loop of {STEPS} that does nothing, journaled, observed and reflected on in two commits | {told} |"]
