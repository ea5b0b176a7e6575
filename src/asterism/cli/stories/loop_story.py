"""The story of a loop: its steps and what came of them, told as ``Story`` tells a constellation's."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.text import Text

from asterism.cli.stories.story import HistoryLine, Story, last_lines
from asterism.cli.words import time_of_day
from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.model import Finding
from asterism.views.words import count, plain, preview

_LOOKS = {"ok": ("●", "green"), "failed": ("✗", "bold red"), "timeout": ("✗", "bold red"), "denied": ("■", "yellow")}


class LoopStory(Story):
    """A run of a loop as far as it has been read; it has steps where a constellation has tasks."""

    parts = "step"

    @property
    def memory(self) -> LoopMemory:
        """What the loop remembers."""
        memory: LoopMemory = self.run.memory
        return memory

    # -- how it stands -----------------------------------------------------------------------------

    def picture(self, now: float, limit: int, frame: int = 0) -> list[Text]:  # noqa: ARG002 - it does not move
        """Each step with its worker, how it stands, and what came of it."""
        memory = self.memory
        settled = [activity.finding for activity in memory.active.values() if activity.finding is not None]
        lines = [_found_line(finding) for finding in (*memory.findings, *settled)]
        for activity in memory.active.values():
            if activity.settled:
                continue
            asks = any(activity.questions())
            line = Text("? " if asks else "◐ ", "magenta" if asks else "cyan").append(f"{plain(activity.step.step_id)}  ", "dim")
            line.append(f"{plain(activity.worker)}  ", "bold").append(plain(activity.step.intent, 80))
            lines.append(line.append("  waits for a person" if asks else "", "magenta"))
        left = memory.plan[memory.position :] if not memory.code else []
        lines += [Text(f"○ {plain(step.step_id)}  {plain(step.worker)}  {plain(step.intent, 80)}", "dim") for step in left]
        return last_lines(lines, limit)

    def counted(self) -> str:
        """How many steps have come to what."""
        found = self.memory.findings
        kinds = {status: sum(1 for it in found if it.status == status) for status in ("ok", "failed", "timeout", "denied")}
        told = ", ".join(f"{number} {status}" for status, number in kinds.items() if number)
        return f"{count(len(found), 'step')}: {told or 'none yet'}"

    def standing(self) -> dict[str, str]:
        """What each step has come to, in words, by its id."""
        memory = self.memory
        standing = {step.step_id: "not begun" for step in memory.plan}
        for step_id, activity in memory.active.items():
            standing[step_id] = "waits for a person" if any(activity.questions()) else "under way"
        settled = [activity.finding for activity in memory.active.values() if activity.finding is not None]
        for it in (*memory.findings, *settled):
            because = ": ".join(filter(None, (plain(it.reason), plain(it.feedback)))) or preview(it.output)
            standing[it.step_id] = f"{it.status} ({because})"
        return standing

    def outcome(self) -> dict[str, Any]:
        """What it has come to, for programs."""
        memory = self.memory
        return {
            "answer": memory.answer,
            "plan": msgspec.to_builtins(memory.plan),
            "findings": msgspec.to_builtins(memory.findings),
            "steps": memory.steps,
            "replans": memory.replans,
            "reflections": memory.reflections,
            "tokens": memory.tokens,
        }

    def sections(self, happenings: list[HistoryLine], now: float) -> list[Text]:
        """What ``show`` tells of it: who did what and why, and what it took."""
        told: dict[str, list[HistoryLine]] = {}
        for happening in happenings:
            if happening.weight == "event":
                told.setdefault(happening.task_id, []).append(happening)
        memory = self.memory
        lines = [Text("steps", "bold")]
        for step_id, its in told.items():
            lines.append(Text(f"  {plain(step_id) or 'the loop'}", "bold" if step_id else "dim"))
            lines += [_told_line(it) for it in its]
        numbers = [count(memory.steps, "step"), count(memory.replans, "replan"), count(memory.reflections, "reflection")]
        numbers += [f"{memory.tokens} tokens"] if memory.tokens else []
        lines += self._metrics(", ".join(numbers), now)
        return lines


def _told_line(told: HistoryLine) -> Text:
    line = Text(f"      {time_of_day(told.entry.at)}  ", "dim").append(told.text)
    return line.append(f"  ({plain(told.entry.actor)})", "dim")


def _found_line(finding: Finding) -> Text:
    mark, style = _LOOKS[finding.status]
    line = Text(f"{mark} ", style).append(f"{plain(finding.step_id)}  ", "dim").append(f"{plain(finding.worker)}  ", "bold")
    why = ": ".join(filter(None, (finding.status, plain(finding.reason), plain(finding.feedback))))
    return line.append(preview(finding.output) if finding.status == "ok" else why)
