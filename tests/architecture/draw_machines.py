"""Draws docs/machines.md from the tables: ``python -m tests.architecture.draw_machines``. A test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from asterism.kernel.diagram import mermaid
from asterism.kernel.machine import Machine, kind_of
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.machines.task_lifecycle import TASK_LIFECYCLE

PAGE = Path(__file__).parents[2] / "docs" / "machines.md"

HEAD = """# Machines

Drawn from the tables by `python -m tests.architecture.draw_machines`; a test fails when this page and the tables differ.

A matrix says where a state can lead: a row is the state before, a column the state after. A cell with ● is an edge; everything
else raises. Events that are *noted* are journaled and change no state. `asterism diagram MACHINE` prints these diagrams too.

The first column of a table of events or effects has its name in journals and in the inbox, which `asterism log --json`, log
lines and spans say, too; `fields` are the names of its fields there. These names are public and stay; the name of the class in
Python may change.
"""

INTRODUCTIONS = {
    CONSTELLATION_AGENT.name: (
        "Plans a request as a constellation, runs it, and replans on what comes back. Its table is\n"
        "`asterism.machines.constellation_agent.table`; an edge from a state to itself is part of the matrix."
    ),
    ORCHESTRATION_LOOP.name: (
        "One agent working through a plan with workers and tools. Its table is `asterism.machines.orchestration_loop.table`. The first\n"
        "seven states are the contract. PARALLEL, CONFIRMING and CANCELLED, and the edges to and from them, only add to it."
    ),
    FLOW_AGENT.name: (
        "A conversation that collects fields, asks for approval, and then acts. Its table is `asterism.machines.flow_agent.table`;\n"
        "where it goes is the agent's to say (`running_entered`, `handler_ended`), and only along these edges."
    ),
    TASK_LIFECYCLE.name: (
        "One task of a constellation. Its table is `asterism.machines.task_lifecycle`; what the move of one task means for\n"
        "the others is another table, `COUPLING` in `asterism.machines.task_coupling`. Its events are in no journal."
    ),
}


def page() -> str:
    """The whole page."""
    machines: tuple[Machine[Any], ...] = (CONSTELLATION_AGENT, ORCHESTRATION_LOOP, FLOW_AGENT, TASK_LIFECYCLE)
    return "\n".join([HEAD, *("\n".join(_section(machine)) for machine in machines)])


def _section(machine: Machine[Any]) -> Iterator[str]:
    yield f"## {machine.name[0].upper()}{machine.name[1:]}\n"
    yield INTRODUCTIONS[machine.name] + "\n"
    yield f"```mermaid\n{mermaid(machine)}```\n"
    yield from _matrix(machine)
    yield "\n| event | class | what it says | fields | moves | noted in |\n|---|---|---|---|---|---|"
    yield from (_event(machine, event) for event in machine.events)
    if machine.effects:
        yield "\n| effect | class | what it asks for | fields |\n|---|---|---|---|"
        yield from (f"| {_named(effect)} |" for effect in machine.effects)
    yield ""


def _matrix(machine: Machine[Any]) -> Iterator[str]:
    states = list(machine.states)
    yield f"| | {' | '.join(states)} |\n|---|{':-:|' * len(states)}"
    edges = machine.matrix()
    for state in states:
        cells = " | ".join("●" if target in edges[state] else " " for target in states)
        yield f"| **{state}**{' (terminal)' if machine.is_terminal(state) else ''} | {cells} |"


def _event(machine: Machine[Any], event: type[Any]) -> str:
    rows = {state: rows[event] for state, rows in machine.table.items() if event in rows}
    moves = [f"{state} → {', '.join(target for target in machine.states if target in row.to)}" for state, row in rows.items() if row.to]
    noted = [str(state) for state, row in rows.items() if row.internal]
    return f"| {_named(event)} | {'<br>'.join(moves)} | {', '.join(noted)} |"


def _named(kind: type[Any]) -> str:
    """The cells that an event and an effect have in common."""
    said = " ".join((kind.__doc__ or "").split("\n\n", 1)[0].split()).replace("``", "`")
    fields = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(kind))
    return f"`{kind_of(kind)}` | `{kind.__name__}` | {said} | {fields}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
