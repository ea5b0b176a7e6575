"""The prompts of a model, by mode: a base class, a class for each mode, templates in files.

Every part of a prompt is bounded. A note says what was left out, which a tool can read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, ClassVar

import msgspec

from asterism.constellation.machine.events import WeavingMode
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.planner.edit_tools import EditTool
from asterism.constellation.planner.excerpt import batch_lines, cut, excerpt, fitting, fleet_lines, line, marked, signature
from asterism.constellation.planner.port import PlannerRequest
from asterism.constellation.planner.reply import InvalidReply, parse_reply
from asterism.engine.kernel.profile import Fleet
from asterism.errors import InvalidInput

MAX_REQUEST = 20_000
MAX_FEEDBACK = 4_000
MAX_EARLIER = 10_000
MAX_EXAMPLES = 20_000
MAX_DEVICES = 2_000
"""Maximum characters of these parts of a prompt."""


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A demonstration: a situation in JSON, and a good reply."""

    situation: dict[str, Any]
    reply: dict[str, Any]


class BaseConstellationPrompter:
    """The parts of a prompt that all modes share.

    Args:
        examples: folder with demonstrations; a mode without a file there uses the built-in ones.

    Raises:
        InvalidInput: a demonstration file is invalid. Names the file.
    """

    mode: ClassVar[str]
    tools_needed: ClassVar[Sequence[str] | None] = None
    """Names of the editor's tools that this mode uses; None for all."""

    def __init__(self, examples: Path | None = None) -> None:
        self.examples = self._examples(examples)

    # -- the system's part -------------------------------------------------------------------------

    def system_prompt_construction(self, tools: Sequence[EditTool]) -> str:
        """Return the system prompt of this mode."""
        return Template(self.template("system.md")).safe_substitute(
            mode=self.template(f"{self.mode.lower()}.md").strip(),
            tools="\n".join(self.format_tool(tool) for tool in tools if self.tools_needed is None or tool.name in self.tools_needed),
            reply_format=self.template(f"{self.mode.lower()}_reply.md").strip(),
            examples=self.examples_prompt_helper(),
        )

    def examples_prompt_helper(self) -> str:
        """Return the demonstrations."""
        shown = [f"Situation: {line(it.situation)}\nReply: {line(it.reply)}" for it in self.examples]
        return "\n\n".join(fitting(shown, MAX_EXAMPLES, "examples"))

    def example_reply(self) -> str:
        """Return a good reply, to show after a refused one."""
        return line(self.examples[0].reply) if self.examples else self.template(f"{self.mode.lower()}_reply.md").strip()

    def format_tool(self, tool: EditTool) -> str:
        """Return a tool on one line."""
        return f"- {tool.name} {line(signature(tool.schema))}: {tool.description}"

    # -- the user's part ---------------------------------------------------------------------------

    def user_prompt_construction(self, question: PlannerRequest, constellation: TaskConstellation) -> list[str]:  # noqa: ARG002 - CREATION has nothing to add
        """Return the sections that only this mode's user prompt has, in order."""
        return []

    def user_content_construction(self, question: PlannerRequest, constellation: TaskConstellation) -> str:
        """Return the user prompt."""
        parts = [
            f"# Request\n\n{cut(question.request, MAX_REQUEST)}",
            f"# Devices\n\n{self.format_agent_profile(question.fleet)}{self.format_availability(question)}",
            *self.user_prompt_construction(question, constellation),
            *self._history(question),
        ]
        return "\n\n".join(parts)

    def format_agent_profile(self, fleet: Fleet) -> str:
        """Return the fleet, one device per line, marked as data: devices describe themselves."""
        return marked(fleet_lines(fleet)) if fleet else "There is no device."

    def format_availability(self, question: PlannerRequest) -> str:
        """Return which devices are lost or busy; empty if none is."""
        found = ""
        if question.lost:
            waits = "A task waits for its device, or goes to another one with the same skill."
            found += f"\nLost now: {cut(', '.join(question.lost), MAX_DEVICES)}. {waits}"
        busy = [
            f"{device} ({count} of {question.fleet[device].concurrency} places)"
            for device, count in question.busy.items()
            if device in question.fleet
        ]
        return found + (f"\nBusy now: {cut(', '.join(busy), MAX_DEVICES)}." if busy else "")

    def format_constellation(self, constellation: TaskConstellation, batch: Sequence[str] = ()) -> str:
        """Return the constellation, or as much of it as fits, with counts of all tasks."""
        shown = excerpt(constellation, batch)
        counts = ", ".join(f"{count} {status}" for status, count in sorted(shown.counts.items()))
        head = f"Version {constellation.version}, {sum(shown.counts.values())} tasks: {counts or 'none'}."
        if not shown.whole:
            head += f" Here are the {len(shown.lines)} nearest to what has ended; read_tasks gives the others."
        return f"{head}\n{marked(shown.lines)}"

    def _history(self, question: PlannerRequest) -> list[str]:
        parts = []
        if question.previous_rounds:
            shown = fitting([line(it) for it in question.previous_rounds[::-1]], MAX_EARLIER, "earlier constellations")
            parts.append(f"# What came before, newest first\n\n{marked(shown)}")
        if question.reason:
            parts.append(f"# Why a new constellation is made\n\n{cut(question.reason, MAX_FEEDBACK)}")
        if question.rejections:
            rejections = fitting([f"- {cut(it, MAX_FEEDBACK)}" for it in question.rejections[::-1]], MAX_FEEDBACK * 2, "refusals")
            parts.append("# Why people said no to earlier answers, newest first\n\n" + "\n".join(rejections))
        if question.feedback:
            parts.append(f"# Why your last answer could not be taken\n\n{cut(question.feedback, MAX_FEEDBACK)}")
        return parts

    # -- files -------------------------------------------------------------------------------------

    def template(self, name: str) -> str:
        """Return a template of the package."""
        return resources.files("asterism.constellation.planner").joinpath("templates", name).read_text(encoding="utf-8")

    def _examples(self, folder: Path | None) -> tuple[Example, ...]:
        name = f"{self.mode.lower()}.json"
        own = folder / name if folder is not None else None
        shipped = resources.files("asterism.constellation.planner").joinpath("examples", name)
        try:
            text = own.read_text(encoding="utf-8") if own is not None and own.is_file() else shipped.read_text(encoding="utf-8")
            found = msgspec.json.decode(text, type=tuple[Example, ...])
            for it in found:
                parse_reply(json.dumps(it.reply))
        except (OSError, ValueError, InvalidReply) as error:
            raise InvalidInput(f"{own or name}: the demonstrations are invalid: {error}") from None
        return found


class ConstellationCreationPrompter(BaseConstellationPrompter):
    """Prompts for a constellation."""

    mode = "CREATION"
    tools_needed = ("build_constellation", "add_task", "add_dependency")


class ConstellationEditingPrompter(BaseConstellationPrompter):
    """Prompts for edits."""

    mode = "EDITING"

    def user_prompt_construction(self, question: PlannerRequest, constellation: TaskConstellation) -> list[str]:
        """Return the constellation and the tasks that have ended."""
        ended = batch_lines(constellation, question.batch)
        return [
            f"# Constellation\n\n{self.format_constellation(constellation, question.batch)}",
            f"# What has ended\n\n{marked(ended) if ended else 'Nothing; you are asked for another reason.'}",
        ]


class ConstellationPrompterFactory:
    """Creates the prompter of a mode."""

    @staticmethod
    def create_prompter(mode: str, examples: Path | None = None) -> BaseConstellationPrompter:
        """Return the prompter of a mode.

        Raises:
            ValueError: the mode is unknown.
        """
        return (ConstellationCreationPrompter if WeavingMode(mode) == "CREATION" else ConstellationEditingPrompter)(examples)
