"""What runs in processes of Asterism: a local skill, a loop and a flow agent. Also the file in which all six devices count their work."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from asterism import File, SkillContext, skill
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, OutputField, StandardAgent, flowagent
from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker

PACE_S = float(os.environ.get("ASTERISM_REMOTE_PACE", "0.2"))
"""Seconds that each device works."""

MAX_LINE = 100
"""Characters of a line that is not too long."""


def note(device: str, event: str, result: Any = None) -> None:
    """Append a line to the file of the devices: work that starts, with its result; a file that was received; work that is cancelled."""
    with Path(os.environ["ASTERISM_REMOTE_DIR"], "work").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"device": device, "event": event, "result": result}) + "\n")


def digest(content: bytes) -> str:
    """Return the digest of a file, as the value that names it has it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@skill
def draft(topic: str, context: SkillContext) -> File:
    """Draft a text about a topic, as a file."""
    path = context.folder / "draft.txt"
    path.write_text(f"A few words about {topic}, and no more.", encoding="utf-8")
    note("desk", "start", path.read_text(encoding="utf-8"))
    time.sleep(PACE_S)
    return File(path)


async def plan(view: LoopView) -> list[dict[str, Any]]:
    """Plan one step: read the text once."""
    context = {name: view.context[name] for name in ("text", "file")}
    return [{"step_id": "read", "worker": "reader", "intent": "read it", "context": context}]


async def read(handoff: Handoff) -> dict[str, Any]:
    """Return the lines of the text that are too long."""
    found = {"too_long": [line for line in handoff.context["text"].splitlines() if len(line) > MAX_LINE]}
    note("reviewer", "file", handoff.context["file"]["$file"])
    note("reviewer", "start", found)
    await asyncio.sleep(PACE_S)
    return found


async def synthesize(view: LoopView) -> Any:
    """Return the output of the step."""
    return view.output_of("read")


reviewer = OrchestrationLoop(plan=plan, workers={"reader": Worker(read)}, synthesize=synthesize)


@flowagent(description="Publish a text")
class Publisher(StandardAgent):
    """Writes a text, its catalogue entry and the digest of its file to a file."""

    idempotent = True

    text: str = InputField("Which text?")
    author: str = InputField("By whom?")
    number: int = InputField("Under which number?")
    words: int = InputField("How many words does it have?")
    file: dict[str, Any] = InputField("Which file has it?", default={})
    published = OutputField("path of the file")

    def on_running(self, msg: Message) -> AgentResult:  # type: ignore[override]  # noqa: ARG002 - the fields say it all
        """Write the file, whose name is the idempotency key: it is published once, also if this is called again after a crash."""
        path = Path(os.environ["ASTERISM_REMOTE_DIR"], f"{self.key.replace(':', '-')}.txt")
        time.sleep(PACE_S)
        try:
            with path.open("x", encoding="utf-8") as file:
                entry = f"{self.author}, number {self.number}, {self.words} words"
                file.write(f"{self.text}\n\n{entry}\n{self.file['name']}, {self.file['$file']}\n")
            note("publisher", "file", self.file["$file"])
            note("publisher", "start")
        except FileExistsError:
            pass
        self.published = str(path)
        return self.make_result(AgentStatus.COMPLETED, f"Published as {path.name}.")
