"""Skills of the crash tests: each writes down that it was performed, and may wait for ever in the middle."""

from __future__ import annotations

import os
import signal
from typing import Any, TypedDict

from asterism import SkillContext, skill


class Measured(TypedDict):
    accuracy: float


def performed(name: str, context: SkillContext) -> None:
    with open(os.environ["CRASH_LOG"], "a", encoding="utf-8") as log:  # noqa: PTH123 - one write, appended whole
        log.write(f"{name} {context.task_id} {context.key}\n")
    if os.environ.get("CRASH_BLOCK") == name:
        with open(os.environ["CRASH_FIFO"], "w", encoding="utf-8") as fifo:  # noqa: PTH123
            fifo.write(f"{os.getpid()}\n")
        signal.pause()


@skill(idempotent=True)
def download_mnist(context: SkillContext) -> dict[str, Any]:
    """Download."""
    performed("download_mnist", context)
    return {"dataset": "d"}


@skill(idempotent=True)
def train_cnn(dataset: str, context: SkillContext) -> dict[str, Any]:
    """Train."""
    performed("train_cnn", context)
    return {"model": f"model of {dataset}"}


@skill(idempotent=True)
def evaluate(model: str, context: SkillContext) -> Measured:
    """Evaluate."""
    performed("evaluate", context)
    return {"accuracy": 0.97}


@skill
def deploy(context: SkillContext) -> dict[str, Any]:
    """Deploy: once is right, twice is not."""
    performed("deploy", context)
    return {"deployed": True}
