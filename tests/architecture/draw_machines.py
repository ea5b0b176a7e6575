"""Generate docs/machines.md from the tables: ``python -m tests.architecture.draw_machines``. A test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.machine.task_lifecycle import TASK_LIFECYCLE
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.kernel.machine import Machine, kind_of, mermaid
from asterism.loop.machine.table import ORCHESTRATION_LOOP

PAGE = Path(__file__).parents[2] / "docs" / "machines.md"

HEAD = """# Machines

*Reference.* Generated from the state tables by `python -m tests.architecture.draw_machines`. A test
fails if this page and the tables differ.

A matrix shows which state can follow which: the row is the state before, the column the state
after. ● marks an allowed transition; any other one raises an error. *Moves* lists the transitions
that the table declares for an event; the state after can be the state before. *Stays in* lists the
states that the event may also leave as they are, without a declared transition. An event that
changes nothing need not have an entry in the journal. `asterism diagram MACHINE` prints the
diagrams of this page.

The first column of a table of events or effects is the tag: the name in journals and in the inbox.
`asterism log --json`, log lines and spans use it, too. `fields` are the names of its fields there.
These names are public and do not change. The name of the class in Python may change.
"""

COMMON_HEAD = """## Common events and effects

The constellation agent, the orchestration loop and the flow agent have these events and effects in
common; the rows are in `asterism.engine.control.common_rows`. The section of a machine repeats a
common event only if it can change the state there. *Live* states are those that are not terminal.
"""

INTRODUCTIONS = {
    CONSTELLATION_AGENT.name: (
        "Plans a request as a constellation, runs the tasks and plans again when their results require it.\n"
        "Its table is `asterism.constellation.machine.table`. The matrix includes transitions from\n"
        "a state to itself. Those of FINISH and FAIL never happen: `batch_ended` changes nothing there."
    ),
    ORCHESTRATION_LOOP.name: (
        "A loop works through a plan with workers and tools, and reflects on the results. Its table is\n"
        "`asterism.loop.machine.table`. The first seven states are those of a sequential loop.\n"
        "PARALLEL, CONFIRMING and CANCELLED extend it to parallel steps, approvals of tool calls and\n"
        "cancels. A step that waits for its approval is WAITING."
    ),
    FLOW_AGENT.name: (
        "A conversation that collects fields, asks for approval and then acts. Its table is\n"
        "`asterism.conversation.machine.table`. The agent's own code chooses the next state\n"
        "(`running_entered`, `handler_ended`), but only along these transitions."
    ),
    TASK_LIFECYCLE.name: (
        "One task of a constellation. Its table is `asterism.constellation.machine.task_lifecycle`. How a\n"
        "task affects the other tasks is another table: `COUPLING` in\n"
        "`asterism.constellation.machine.task_coupling`. The events of a task are not journaled."
    ),
}

DRIVEN: tuple[Machine[Any], ...] = (CONSTELLATION_AGENT, ORCHESTRATION_LOOP, FLOW_AGENT)
COMMON_EVENTS = tuple(event for event in DRIVEN[0].events if all(event in machine.events for machine in DRIVEN))
COMMON_EFFECTS = tuple(effect for effect in DRIVEN[0].effects if all(effect in machine.effects for machine in DRIVEN))


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *_common(), *("\n".join(_section(machine)) for machine in (*DRIVEN, TASK_LIFECYCLE))])


def _common() -> Iterator[str]:
    yield COMMON_HEAD
    yield "| event | class | meaning | fields | accepted in |\n|---|---|---|---|---|"
    yield from (f"| {_named(event)} | {_accepted_in(event)} |" for event in COMMON_EVENTS)
    yield "\n| effect | class | meaning | fields |\n|---|---|---|---|"
    yield from (f"| {_named(effect)} |" for effect in COMMON_EFFECTS)
    yield ""


def _section(machine: Machine[Any]) -> Iterator[str]:
    yield f"## {machine.name[0].upper()}{machine.name[1:]}\n"
    yield INTRODUCTIONS[machine.name] + "\n"
    yield f"```mermaid\n{mermaid(machine)}```\n"
    yield from _matrix(machine)
    yield "\n| event | class | meaning | fields | moves | stays in |\n|---|---|---|---|---|---|"
    yield from (f"| {_named(event)} | {_moves(machine, event)} |" for event in machine.events if event not in COMMON_EVENTS)
    if moving := [event for event in COMMON_EVENTS if any(rows[event].to for rows in machine.table.values() if event in rows)]:
        yield "\n| common event | moves | stays in |\n|---|---|---|"
        yield from (f"| `{kind_of(event)}` | {_moves(machine, event)} |" for event in moving)
    if own := [effect for effect in machine.effects if effect not in COMMON_EFFECTS]:
        yield "\n| effect | class | meaning | fields |\n|---|---|---|---|"
        yield from (f"| {_named(effect)} |" for effect in own)
    yield ""


def _matrix(machine: Machine[Any]) -> Iterator[str]:
    states = list(machine.states)
    yield f"| | {' | '.join(states)} |\n|---|{':-:|' * len(states)}"
    edges = machine.matrix()
    for state in states:
        cells = " | ".join("●" if target in edges[state] else " " for target in states)
        yield f"| **{state}**{' (terminal)' if machine.is_terminal(state) else ''} | {cells} |"


def _moves(machine: Machine[Any], event: type[Any]) -> str:
    """Return two cells: from where to where the event leads, and the states in which it changes no state."""
    rows = {state: rows[event] for state, rows in machine.table.items() if event in rows}
    moves = [f"{state} → {', '.join(target for target in machine.states if target in row.to)}" for state, row in rows.items() if row.to]
    return f"{'<br>'.join(moves)} | {_states(machine, [state for state, row in rows.items() if row.internal])}"


def _accepted_in(event: type[Any]) -> str:
    """Return the states in which the machines accept a common event: once, if they agree."""
    found = {machine.name: _states(machine, [state for state, rows in machine.table.items() if event in rows]) for machine in DRIVEN}
    return found.popitem()[1] if len(set(found.values())) == 1 else "<br>".join(f"{name}: {states}" for name, states in found.items())


def _states(machine: Machine[Any], states: list[Any]) -> str:
    if len(states) == len(list(machine.states)):
        return "all states"
    if len(states) > 1 and set(states) == {state for state in machine.states if not machine.is_terminal(state)}:
        return "live states"
    return ", ".join(states)


def _named(kind: type[Any]) -> str:
    """Return the cells that an event and an effect have in common."""
    meaning = " ".join((kind.__doc__ or "").split("\n\n", 1)[0].split()).replace("``", "`")
    fields = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(kind))
    return f"`{kind_of(kind)}` | `{kind.__name__}` | {meaning} | {fields}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
