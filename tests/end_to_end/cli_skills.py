"""Skills of the command line's tests: each writes down that it was performed; one waits until it is told to go on."""

from __future__ import annotations

import os
from typing import TypedDict

from asterism import SkillContext, skill


class Measured(TypedDict):
    accuracy: float


def performed(context: SkillContext) -> None:
    with open(os.environ["CLI_LOG"], "a", encoding="utf-8") as log:  # noqa: PTH123 - one write, appended whole
        log.write(f"{context.task_id} {context.key}\n")


@skill(idempotent=True)
def measure(context: SkillContext, accuracy: float = 0.8) -> Measured:
    """Measure the accuracy."""
    performed(context)
    return {"accuracy": accuracy}


@skill
def deploy(context: SkillContext, where: str = "here") -> dict[str, str]:
    """Deploy it."""
    performed(context)
    return {"deployed": where}


@skill(idempotent=True)
def wait(context: SkillContext) -> dict[str, str]:
    """Wait at the gate: say that it was reached, then until it opens."""
    performed(context)
    context.progress(0.5, "at the gate")
    gate = os.environ.get("CLI_GATE")
    if gate:
        with open(f"{gate}.reached", "w", encoding="utf-8") as reached:  # noqa: PTH123 - a FIFO: blocks until the test reads
            reached.write(f"{os.getpid()}\n")
        with open(f"{gate}.open", encoding="utf-8") as opened:  # noqa: PTH123 - a FIFO: blocks until the test writes
            opened.read()
    return {"waited": "yes"}


@skill
def rude() -> dict[str, str]:
    """Say what a terminal might obey."""
    return {"text": "\x1b[2J\x1b]0;owned\x07[bold red]red[/] \x9b31m\u202eevil\r\nsecond line"}


@skill
def fail() -> None:
    """Fail."""
    raise ValueError("[/red] no \x1b[31mluck")
