"""The history of a conversation: its fields, its metadata, its children and its messages."""

from __future__ import annotations

import json
from typing import Any

from asterism.conversation.machine.events import HandlerEnded, RunningEntered
from asterism.conversation.machine.memory import FlowMemory
from asterism.engine.control.children import child_run_id
from asterism.views.text.history import HistoryLine, RunHistory, last_lines
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import count, plain, preview


class FlowHistory(RunHistory):
    """The history of a conversation; its parts are fields and children."""

    part_noun = "field or child"
    heading = "conversation"
    has_commands = True

    @property
    def memory(self) -> FlowMemory:
        """Return the memory of the conversation."""
        memory: FlowMemory = self.run.memory
        return memory

    def reasons(self, it: HistoryLine) -> tuple[str, ...] | None:
        """Return no reasons also for what sets fields."""
        return () if isinstance(it.entry.event, RunningEntered | HandlerEnded) else super().reasons(it)

    # -- status ------------------------------------------------------------------------------------

    def status_lines(self, now: float, limit: int, frame: int = 0) -> list[StyledLine]:  # noqa: ARG002 - no animation
        """Return a line for each field, metadata value and child."""
        memory = self.memory
        lines = [
            StyledLine("● ", "green").append(f"{plain(name)}  ", "bold").append(preview(value))
            for name, value in memory.view.fields.items()
        ]
        lines += [
            StyledLine("● ", "green").append(f"{plain(name)}  ", "bold").append("withheld", "dim") for name in memory.view.withheld_fields
        ]
        lines += (
            [StyledLine("○ ").append(f"{plain(memory.view.asked_field)}  asked for", "dim")]
            if memory.view.asked_field not in ("", *memory.view.fields)
            else []
        )
        lines += [StyledLine(f"  {plain(name)} = {preview(value)}", "dim") for name, value in memory.view.metadata.items()]
        for key, child in memory.children.items():
            how = child.ended.outcome if child.ended else "waits for a person" if child.effect_id in memory.blocked_children else "running"
            lines.append(StyledLine(f"  {plain(key)}  run {plain(child_run_id(child.effect_id))}  {how}"))
        return last_lines(lines, limit)

    def summary(self) -> str:
        """Return the number of collected fields."""
        return f"{count(len(self.memory.view.fields) + len(self.memory.view.withheld_fields), 'field')} collected"

    def part_status(self) -> dict[str, str]:
        """Return the value of each field and the status of each child, by name."""
        found = dict.fromkeys(self.memory.view.withheld_fields, "withheld") | {
            name: json.dumps(value, ensure_ascii=False) for name, value in self.memory.view.fields.items()
        }
        return found | {key: child.ended.outcome if child.ended else "running" for key, child in self.memory.children.items()}

    def result_fields(self) -> dict[str, Any]:
        """Return fields, metadata and history as JSON data."""
        memory = self.memory
        view, history = memory.view, [{"by": it.by, "text": str(it.text)} for it in memory.history]
        return {"fields": view.fields, "withheld": list(view.withheld_fields), "metadata": view.metadata, "history": history}
