"""The history of a loop run: its steps, their status and their results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from asterism.loop.machine.memory import LoopMemory
from asterism.loop.machine.model import Finding, worded
from asterism.views.text.history import HistoryLine, PartLines, RunHistory, history_line, last_lines
from asterism.views.text.styled_line import StyledLine, TimeFormat
from asterism.views.words import count, plain, preview

_LOOKS = {"ok": ("●", "green"), "failed": ("✗", "bold red"), "timeout": ("✗", "bold red"), "denied": ("■", "yellow")}


class LoopHistory(RunHistory):
    """The history of a loop run; its parts are steps."""

    part_noun = "step"
    has_commands = True

    @property
    def memory(self) -> LoopMemory:
        """Return the memory of the loop."""
        memory: LoopMemory = self.run.memory
        return memory

    # -- status ------------------------------------------------------------------------------------

    def status_lines(self, now: float, limit: int, frame: int = 0) -> list[StyledLine]:  # noqa: ARG002 - no animation
        """Return a line for each step with its worker, status and result."""
        memory = self.memory
        settled = [activity.finding for activity in memory.active.values() if activity.finding is not None]
        lines = [_found_line(finding) for finding in (*memory.findings, *settled)]
        for activity in memory.active.values():
            if activity.settled:
                continue
            asks = any(activity.questions())
            line = StyledLine("? " if asks else "◐ ", "magenta" if asks else "cyan").append(f"{plain(activity.step.step_id)}  ", "dim")
            line.append(f"{plain(activity.worker)}  ", "bold").append(plain(activity.question or activity.step.intent, 80))
            lines.append(line.append("  waits for a person" if asks else "", "magenta"))
        left = memory.plan[memory.position :] if not memory.code else []
        lines += [StyledLine(f"○ {plain(step.step_id)}  {plain(step.worker)}  {plain(step.intent, 80)}", "dim") for step in left]
        return last_lines(lines, limit)

    def summary(self) -> str:
        """Return the number of steps by status, including those of a group that is under way."""
        active = self.memory.active.values()
        found = [*self.memory.findings, *(it.finding for it in active if it.finding is not None)]
        numbers = {status: sum(1 for it in found if it.status == status) for status in ("ok", "failed", "timeout", "denied")}
        open_now = [any(it.questions()) for it in active if not it.settled]
        numbers |= {"running": open_now.count(False), "waiting for a person": open_now.count(True)}
        words = ", ".join(f"{number} {status}" for status, number in numbers.items() if number)
        return f"{count(len(found) + len(open_now), 'step')}: {words or 'none yet'}"

    def part_status(self) -> dict[str, str]:
        """Return the status of each step in words, by id."""
        memory = self.memory
        words = {step.step_id: "not started" for step in memory.plan}
        for step_id, activity in memory.active.items():
            words[step_id] = "waits for a person" if any(activity.questions()) else "running"
        settled = [activity.finding for activity in memory.active.values() if activity.finding is not None]
        for it in (*memory.findings, *settled):
            because = ": ".join(filter(None, (plain(it.reason), plain(it.feedback)))) or preview(it.output)
            words[it.step_id] = f"{it.status} ({because})"
        return words

    def result_fields(self) -> dict[str, Any]:
        """Return answer, plan, findings and counters as JSON data."""
        memory = self.memory
        return {
            "answer": memory.answer,
            "plan": msgspec.to_builtins(memory.plan),
            "findings": msgspec.to_builtins(worded(memory.findings)),
            "steps": memory.steps,
            "replans": memory.replans,
            "reflections": memory.reflections,
            "tokens": memory.tokens,
        }

    def detail_lines(self, lines: Iterable[HistoryLine], now: float, local_time: TimeFormat, _below: PartLines) -> list[StyledLine]:
        """Return the history of each step, and the metrics."""
        by_step: dict[str, list[HistoryLine]] = {}
        for it in lines:
            if it.weight == "event":
                by_step.setdefault(it.part, []).append(it)
        memory = self.memory
        found = [StyledLine("steps", "bold")]
        for step_id, step_lines in by_step.items():
            found.append(StyledLine(f"  {plain(step_id) or 'the loop'}", "bold" if step_id else "dim"))
            found += [history_line(it, local_time) for it in step_lines]
        numbers = [count(memory.steps, "step"), count(memory.replans, "replan"), count(memory.reflections, "reflection")]
        numbers += [f"{memory.tokens} tokens"] if memory.tokens else []
        return found + self._metric_lines(", ".join(numbers), now)


def _found_line(finding: Finding) -> StyledLine:
    mark, style = _LOOKS[finding.status]
    line = StyledLine(f"{mark} ", style).append(f"{plain(finding.step_id)}  ", "dim").append(f"{plain(finding.worker)}  ", "bold")
    why = ": ".join(filter(None, (finding.status, plain(finding.reason), plain(finding.feedback))))
    return line.append(preview(finding.output) if finding.status == "ok" else why)
