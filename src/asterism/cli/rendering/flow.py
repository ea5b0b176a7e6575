"""The renderer of a conversation: its fields, its metadata, its children and its messages."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from rich.text import Text

from asterism.cli.output import time_of_day
from asterism.cli.rendering.renderer import HistoryLine, RunRenderer, last_lines
from asterism.machines.children import child_run_id
from asterism.machines.flow_agent.memory import FlowMemory
from asterism.views.words import count, plain, preview


class FlowRenderer(RunRenderer):
    """Renderer of a conversation; its parts are fields and children."""

    part_noun = "field or child"

    @property
    def memory(self) -> FlowMemory:
        """Return the memory of the conversation."""
        memory: FlowMemory = self.run.memory
        return memory

    # -- status ------------------------------------------------------------------------------------

    def render(self, now: float, limit: int, frame: int = 0) -> list[Text]:  # noqa: ARG002 - no animation
        """Return a line for each field, metadata value and child."""
        memory = self.memory
        lines = [
            Text("● ", "green").append(f"{plain(name)}  ", "bold").append(preview(value)) for name, value in memory.view.fields.items()
        ]
        lines += [Text("● ", "green").append(f"{plain(name)}  ", "bold").append("withheld", "dim") for name in memory.view.withheld_fields]
        lines += (
            [Text("○ ").append(f"{plain(memory.view.asked_field)}  asked for", "dim")]
            if memory.view.asked_field not in ("", *memory.view.fields)
            else []
        )
        lines += [Text(f"  {plain(name)} = {preview(value)}", "dim") for name, value in memory.view.metadata.items()]
        for key, child in memory.children.items():
            how = child.ended.outcome if child.ended else "waits for a person" if child.effect_id in memory.blocked_children else "running"
            lines.append(Text(f"  {plain(key)}  run {plain(child_run_id(child.effect_id))}  {how}"))
        return last_lines(lines, limit)

    def summary_line(self) -> str:
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
        view, history = memory.view, msgspec.to_builtins(memory.history)
        return {"fields": view.fields, "withheld": list(view.withheld_fields), "metadata": view.metadata, "history": history}

    def detail_lines(self, history: list[HistoryLine], now: float) -> list[Text]:
        """Return the lines of the conversation, and its metrics."""
        lines = [Text("conversation", "bold")]
        for it in history:
            if it.weight == "event":
                what = f"{plain(it.part)}  {it.text}" if it.part else it.text
                lines.append(Text(f"  {time_of_day(it.entry.at)}  ", "dim").append(what))
        return [*lines, *self._metrics(self.summary_line(), now)]
