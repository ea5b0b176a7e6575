"""A run with everything that the page of a constellation draws: edits, a failure, a question, and work under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asterism.constellation.machine.events import (
    AskPlanner,
    AttemptEnded,
    AttemptProgressed,
    ConstellationAgentStatus,
    ConstellationSubmitted,
    Dispatch,
    Planned,
    RunOptions,
)
from asterism.constellation.model.documents import parse_plan
from asterism.devices.model.attempt import TaskError
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.profile import AgentProfile
from tests.support.constellation_harness import Agent
from tests.support.machine_harness import MachineHarness

START = 1_767_225_600.0
REQUEST = "Download MNIST, train a CNN on the GPU server, evaluate it, and deploy it to production if the accuracy is above 95 %"
FLEET = tuple(
    AgentProfile(device_id=device, natural_language=True)
    for device in ("laptop", "linux_server", "gpu_server", "test_server", "prod_server")
)

Script = Mapping[str, tuple[float, Any, Any]]
"""For each task its seconds, its result, and its error."""


def task(task_id: str, device: str, **fields: Any) -> dict[str, Any]:
    return {"task_id": task_id, "name": task_id, "device": device, **fields}


def line(source: str, target: str, condition: str = "", kind: str = "SUCCESS_ONLY") -> dict[str, Any]:
    return {"from": source, "to": target, **({"type": "CONDITIONAL", "condition": condition} if condition else {"type": kind})}


PLAN = {
    "tasks": [
        task("fetch_mnist", "laptop"),
        task("verify_sha", "laptop"),
        task("split", "linux_server"),
        task("augment", "linux_server"),
        task("profile_gpu", "gpu_server"),
        task("tune_lr", "gpu_server"),
        task("train_cnn", "gpu_server", inputs={"epochs": 20, "rate": "${tune_lr.rate}"}),
        task("evaluate", "test_server"),
        task("package", "linux_server"),
        task("stage", "prod_server"),
        task("deploy", "prod_server", requires_approval=True),
        task("notify", "laptop"),
    ],
    "dependencies": [
        line("fetch_mnist", "verify_sha"),
        line("verify_sha", "split"),
        line("split", "augment"),
        line("split", "profile_gpu"),
        line("augment", "tune_lr"),
        line("profile_gpu", "tune_lr"),
        line("tune_lr", "train_cnn"),
        line("train_cnn", "evaluate"),
        line("evaluate", "package", "accuracy > 0.95"),
        line("package", "stage"),
        line("stage", "deploy"),
        line("deploy", "notify", kind="UNCONDITIONAL"),
    ],
}
THOUGHTS = (
    (
        "The laptop downloads and checks the data, the Linux server splits it, and the GPU server is profiled meanwhile. Packaging waits "
        "for the accuracy, and a person approves the deployment."
    ),
    (
        "Accuracy 0.92 is below the 0.95 threshold, so packaging must not proceed on this model. I add a retraining task with "
        "learning-rate decay, evaluate it again, and compare it with a cheap linear baseline that can run on the idle Linux server "
        "meanwhile. A person reviews the report before staging."
    ),
    "The scan found a critical CVE in the base image. I rebuild on the patched base, and stage the rebuilt image instead.",
)


def add_task(task_id: str, device: str, **fields: Any) -> dict[str, Any]:
    return {"tool": "add_task", "parameters": task(task_id, device, **fields)}


def add_line(*arguments: str) -> dict[str, Any]:
    return {"tool": "add_dependency", "parameters": line(*arguments)}


EDITS: tuple[tuple[dict[str, Any], ...], ...] = (
    (
        add_task("retrain_cnn", "gpu_server", inputs={"epochs": 40, "decay": 0.9}),
        add_task("baseline", "linux_server"),
        add_task("eval_base", "test_server"),
        add_task("re_evaluate", "test_server"),
        add_task("compare", "test_server"),
        add_task("report", "laptop"),
        add_task("review", "laptop", requires_approval=True),
        add_task("scan", "linux_server"),
        {"tool": "remove_task", "parameters": {"task_id": "package"}},
        add_task("package_image", "linux_server"),
        add_line("evaluate", "retrain_cnn"),
        add_line("split", "baseline"),
        add_line("baseline", "eval_base"),
        add_line("retrain_cnn", "re_evaluate"),
        add_line("re_evaluate", "compare"),
        add_line("eval_base", "compare"),
        add_line("compare", "report"),
        add_line("report", "review"),
        add_line("compare", "package_image", "accuracy > 0.95"),
        add_line("package_image", "scan"),
        add_line("scan", "stage"),
        add_line("review", "stage"),
        {"tool": "update_task", "parameters": {"task_id": "deploy", "description": "to one server first", "inputs": {"canary": True}}},
    ),
    (
        add_task("rebuild_image", "linux_server", inputs={"base": "debian:12.9"}),
        {"tool": "remove_dependency", "parameters": {"dependency_id": "scan->stage"}},
        add_line("scan", "rebuild_image", "", "COMPLETION_ONLY"),
        add_line("rebuild_image", "stage"),
    ),
)
SCRIPT: Script = {
    "fetch_mnist": (6, {"bytes": 11_594_722}, None),
    "verify_sha": (2, {"sha256": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"}, None),
    "split": (3, {"train": 60_000, "test": 10_000}, None),
    "augment": (8, {"images": 240_000}, None),
    "profile_gpu": (5, {"memory_gb": 24}, None),
    "tune_lr": (14, {"rate": 0.003}, None),
    "train_cnn": (30, {"model": "cnn-1"}, None),
    "evaluate": (7, {"accuracy": 0.92}, None),
    "baseline": (9, {"model": "linear"}, None),
    "eval_base": (4, {"accuracy": 0.914}, None),
    "retrain_cnn": (26, {"model": "cnn-2"}, None),
    "re_evaluate": (6, {"accuracy": 0.964}, None),
    "compare": (3, {"accuracy": 0.964, "better": True}, None),
    "report": (7, {"file": "model-card.md"}, None),
    "package_image": (6, {"image": "mnist:2"}, None),
    "scan": (8, None, "raised"),
    "package": (6, {"image": "mnist:1"}, None),
    "stage": (4, None, None),
    "deploy": (4, None, None),
    "notify": (1, None, None),
    "review": (1, None, None),
    "rebuild_image": (60, {"image": "mnist:2-1"}, None),
}
END_S = 153.0


class Story(Agent):
    """The run: nothing of it is drawn at random."""

    def __init__(self) -> None:
        options = RunOptions(replan="when_needed", hold="all")
        MachineHarness.__init__(self, self.machine, ConstellationSubmitted(request=REQUEST, fleet=FLEET, options=options), START)
        while (at := self._next()) is not None and at[0] <= START + END_S:
            self.now = at[0]
            self.batch(*at[1])
        self.now = START + END_S
        rebuild = next(effect_id for effect_id, effect in self.run.outstanding.items() if isinstance(effect, Dispatch))
        self.take(AttemptProgressed(effect_id=rebuild, fraction=0.4, message="layer 3 of 8"), actor="device:linux_server")

    def _next(self) -> tuple[float, list[Any]] | None:
        """Return the time and the events of what happens next."""
        due: list[tuple[float, Any]] = []
        began = {effect_id: entry.at for entry in self.entries for effect_id in entry.effect_ids()}
        for effect_id, effect in self.run.outstanding.items():
            if isinstance(effect, Dispatch):
                seconds, result, code = SCRIPT[effect.task_id]
                error = TaskError(code=code, message="CVE-2026-3094 in libxz 5.6.1 (critical)") if code else None
                due.append((began[effect_id] + seconds, AttemptEnded(effect_id=effect_id, result=result, error=error)))
            elif isinstance(effect, AskPlanner):
                due.append((began[effect_id] + 2.9, self._answer(effect_id)))
        if not due:
            return None
        first = min(at for at, _ in due)
        return first, [event for at, event in due if at == first]

    def _answer(self, effect_id: str) -> Planned:
        number = sum(isinstance(entry.event, Planned) for entry in self.entries)
        usage = Usage(
            model="openai:gpt-4o", requests=1, input_tokens=4810 + 900 * number, output_tokens=760, cost_usd=0.021 + 0.006 * number
        )
        if number == 0:
            return Planned(effect_id=effect_id, thought=THOUGHTS[0], plan=parse_plan(PLAN), usage=usage)
        edits = EDITS[number - 1] if number <= len(EDITS) else ()
        thought = THOUGHTS[number] if number < len(THOUGHTS) else "The plan stands."
        return Planned(effect_id=effect_id, thought=thought, actions=edits, status=ConstellationAgentStatus.CONTINUE, usage=usage)


def story() -> list[Entry]:
    """Return the entries of the run: two edits, a failure, a question, and a task under way at its end."""
    return Story().entries
