"""The demo's shape as a scene: four tasks on four devices, the last one if the model is good enough."""

from __future__ import annotations

from typing import Any

from asterism.engine.kernel.machine import kind_of
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.testing.clock import EPOCH
from asterism.testing.device import Behaviour
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Answerer
from asterism.testing.world import World
from tests.support.constellations import seed

SKILLS = {"laptop": "download_mnist", "gpu_server": "train_cnn", "test_server": "evaluate", "prod_server": "deploy"}
DEMO: dict[str, Any] = seed("creation")["constellation"]
ANYTHING = {"type": "object", "properties": {"x": {}, "y": {}}}


def demo_fleet(*, idempotent: bool = True) -> list[AgentProfile]:
    return [AgentProfile(device_id=device, skills=(Skill(name=name, idempotent=idempotent),)) for device, name in SKILLS.items()]


def demo_script(accuracy: float = 0.97) -> dict[str, Behaviour]:
    return {
        "download_mnist": Behaviour(duration_s=5, result={"dataset": "mnist"}),
        "train_cnn": Behaviour(duration_s=60, result={"model": "m1"}, marks=((20, 0.3, "epoch 1"), (40, 0.6, "epoch 2"))),
        "evaluate": Behaviour(duration_s=3, result={"accuracy": accuracy}),
        "deploy": Behaviour(duration_s=2, result={"deployed_to": "prod"}),
    }


def demo(*, idempotent: bool = True, accuracy: float = 0.97, seed: int = 1, **more: Any) -> World:
    return World(seed, fleet=demo_fleet(idempotent=idempotent), script=demo_script(accuracy), **more)


def fleet_of(*devices: str, concurrency: int = 4, idempotent: bool = True) -> list[AgentProfile]:
    """Devices that all have one skill, ``do``."""
    skill = Skill(name="do", idempotent=idempotent, parameters=ANYTHING)
    return [AgentProfile(device_id=device, skills=(skill,), concurrency=concurrency) for device in devices]


def tasks(*ids: str, device: str = "d", **more: Any) -> list[dict[str, Any]]:
    return [{"task_id": task_id, "device": device, "skill": "do", **more} for task_id in ids]


def lines(*pairs: str, kind: str = "SUCCESS_ONLY") -> list[dict[str, Any]]:
    """Dependencies from ``a>b`` each."""
    return [{"from": pair.split(">")[0], "to": pair.split(">")[1], "type": kind} for pair in pairs]


def says(*answers: Answer) -> Answerer:
    return lambda _: answers


def kinds(ending: Ending, kind: str) -> list[str]:
    """Ids of the tasks for which effects of a kind were asked, in order."""
    found = [effect for entry in ending.entries for effect in entry.effects if kind_of(effect) == kind]
    return [effect.task_id if kind == "dispatch" else effect.subject["task_id"] for effect in found]  # type: ignore[attr-defined]


def started(world: World) -> list[tuple[str, float]]:
    """What devices began, and when, in virtual seconds."""
    return [(performance.task_id, round(performance.started_at - EPOCH, 3)) for performance in world.performance_log.performances]


def statuses(ending: Ending) -> dict[str, str]:
    return {task_id: str(task.status) for task_id, task in ending.memory.constellation.tasks.items()}
