"""The story of a conversation: what was said, where it went, what it started; told as ``Story`` tells a constellation's."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from rich.text import Text

from asterism.cli.stories.story import HistoryLine, Story, last_lines
from asterism.cli.words import time_of_day
from asterism.machines.children import child_run_id
from asterism.machines.flow_agent.memory import FlowMemory
from asterism.views.words import count, plain, preview


class FlowStory(Story):
    """A conversation as far as it has been read; it has fields where a constellation has tasks."""

    parts = "field or child"

    @property
    def memory(self) -> FlowMemory:
        """What the conversation remembers."""
        memory: FlowMemory = self.run.memory
        return memory

    # -- how it stands -----------------------------------------------------------------------------

    def picture(self, now: float, limit: int, frame: int = 0) -> list[Text]:  # noqa: ARG002 - it does not move
        """Its fields, its metadata, its children, and what it said last."""
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
            how = (
                child.ended.outcome if child.ended else "waits for a person" if child.effect_id in memory.blocked_children else "under way"
            )
            lines.append(Text(f"  {plain(key)}  run {plain(child_run_id(child.effect_id))}  {how}"))
        return last_lines(lines, limit)

    def counted(self) -> str:
        """How much is collected."""
        return f"{count(len(self.memory.view.fields) + len(self.memory.view.withheld_fields), 'field')} collected"

    def standing(self) -> dict[str, str]:
        """What each field and child has come to, by its name."""
        found = dict.fromkeys(self.memory.view.withheld_fields, "withheld") | {
            name: json.dumps(value, ensure_ascii=False) for name, value in self.memory.view.fields.items()
        }
        return found | {key: child.ended.outcome if child.ended else "under way" for key, child in self.memory.children.items()}

    def outcome(self) -> dict[str, Any]:
        """What it has come to, for programs."""
        memory = self.memory
        view, history = memory.view, msgspec.to_builtins(memory.history)
        return {"fields": view.fields, "withheld": list(view.withheld_fields), "metadata": view.metadata, "history": history}

    def sections(self, happenings: list[HistoryLine], now: float) -> list[Text]:
        """What ``show`` tells of it: what was said and done, and how long it took."""
        lines = [Text("conversation", "bold")]
        for it in happenings:
            if it.weight == "event":
                what = f"{plain(it.task_id)}  {it.text}" if it.task_id else it.text
                lines.append(Text(f"  {time_of_day(it.entry.at)}  ", "dim").append(what))
        return [*lines, *self._metrics(self.counted(), now)]
