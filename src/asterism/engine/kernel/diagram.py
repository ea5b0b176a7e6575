"""Draw a machine's table as a Mermaid state diagram; the diagrams in the docs are drawn here."""

from __future__ import annotations

from typing import Any

from asterism.engine.kernel.machine import Machine, kind_of


def mermaid(machine: Machine[Any]) -> str:
    """Return the machine as ``stateDiagram-v2`` text, without internal rows, which are no edges."""
    lines = ["stateDiagram-v2", f"    [*] --> {machine.initial}"]
    for state, rows in machine.table.items():
        labels: dict[str, list[str]] = {}
        for event, entry in rows.items():
            for target in sorted(entry.to):
                labels.setdefault(target, []).append(kind_of(event))
        lines += [f"    {state} --> {target}: {', '.join(labels[target])}" for target in machine.states if target in labels]
        if machine.is_terminal(state):
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines) + "\n"
