"""A run planned over real HTTP: the real client and planner before a model by a script, with devices in the hand, in real time."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from asterism.app.bootstrap import open_planner, open_runtime
from asterism.constellation.machine.events import (
    AskPlanner,
    AttemptEnded,
    ConstellationSubmitted,
    Dispatch,
    Planned,
    PlanningFailed,
    RunOptions,
)
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.task import TaskStar
from asterism.constellation.planner.model_choice import ModelChoice, choose_model
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.journal import Entry, Record
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow
from asterism.stores.memory import MemoryStore
from asterism.testing.model_wire import ModelRequest
from asterism.testing.scripted_model import Answering, ModelAnswer, ScriptedModel

LIMIT_S = 100.0
"""No run here may take longer."""

Work = Callable[[Attempt], Awaitable[Any]]
"""What a device does: a JSON result, or a ``TaskError``."""

SKILLS = {
    "laptop": ("download_mnist",),
    "gpu_server": ("train_cnn", "retrain_with_tuning"),
    "test_server": ("evaluate",),
    "prod_server": ("deploy",),
}
SEED_FLEET = [
    AgentProfile(device_id=device, skills=tuple(Skill(name=name, idempotent=True) for name in names)) for device, names in SKILLS.items()
]
ANYTHING = [AgentProfile(device_id="d", natural_language=True, concurrency=100)]
"""One device that does whatever it is told."""


async def at_once(attempt: Attempt) -> Any:
    """Whatever it is, it is done."""
    return {"done": attempt.task_id}


class HandDevice(Device):
    """A device that does what a test's function does."""

    def __init__(self, profile: AgentProfile, work: Work) -> None:
        self.profile = profile
        self._work = work

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.begun()
        came = await self._work(attempt)
        return AttemptResult(error=came) if isinstance(came, TaskError) else AttemptResult(result=came)


class Watch:
    """Everything that was appended, and somebody to wait for it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.troubles: list[str] = []
        self._news = asyncio.Event()

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        self.entries += entries
        self._news.set()

    def trouble(self, run_id: str, message: str) -> None:
        self.troubles.append(message)

    async def ended(self, *tasks: str) -> None:
        """Wait until these tasks have ended."""
        await self._until(lambda: set(tasks) <= set(self.tasks_ended()))

    async def started(self, *tasks: str) -> None:
        """Wait until an attempt at each of these tasks has begun."""
        await self._until(lambda: set(tasks) <= set(self._dispatched().values()))

    async def answered(self, times: int) -> None:
        """Wait until so many questions have been answered, one way or the other."""
        await self._until(lambda: sum(isinstance(entry.event, Planned | PlanningFailed) for entry in self.entries) >= times)

    async def _until(self, there: Callable[[], bool]) -> None:
        while not there():
            self._news.clear()
            await self._news.wait()

    def tasks_ended(self) -> list[str]:
        dispatched = self._dispatched()
        return [dispatched[entry.event.effect_id] for entry in self.entries if isinstance(entry.event, AttemptEnded) and not entry.note]

    def _dispatched(self) -> dict[str, str]:
        return {
            entry.effect_ids()[at]: effect.task_id
            for entry in self.entries
            for at, effect in enumerate(entry.effects)
            if isinstance(effect, Dispatch)
        }


class Lived(msgspec.Struct, kw_only=True):
    """How a run came out, what its journal holds, and what the model was asked."""

    row: RunRow
    records: list[Record]
    memory: ConstellationMemory
    troubles: list[str]
    lasted_s: float
    requests: list[ModelRequest] = []
    backup_requests: list[ModelRequest] = []

    @property
    def outcome(self) -> str:
        return self.row.outcome

    @property
    def reason(self) -> str:
        return self.memory.reason

    @property
    def entries(self) -> list[Entry]:
        return [packer(CONSTELLATION_AGENT).unpack(record) for record in self.records]

    @property
    def journal(self) -> str:
        return "\n".join(record.body for record in self.records)

    def events(self, *kinds: type[Event]) -> list[Any]:
        return [entry.event for entry in self.entries if isinstance(entry.event, kinds)]

    @property
    def answers(self) -> list[Planned | PlanningFailed]:
        return self.events(Planned, PlanningFailed)

    @property
    def questions(self) -> list[AskPlanner]:
        return [effect for entry in self.entries for effect in entry.effects if isinstance(effect, AskPlanner)]

    def task(self, task_id: str) -> TaskStar:
        return self.memory.constellation.tasks[task_id]

    def statuses(self) -> dict[str, str]:
        return {task_id: str(task.status) for task_id, task in self.memory.constellation.tasks.items()}

    def performed(self) -> Counter[str]:
        return Counter(effect.task_id for entry in self.entries for effect in entry.effects if isinstance(effect, Dispatch))


Script = Iterable[ModelAnswer] | Answering


def live(
    script: Script | None = None,
    *,
    scripted: Callable[[Watch], Script] | None = None,
    work: Work = at_once,
    fleet: Iterable[AgentProfile] = ANYTHING,
    options: RunOptions | None = None,
    backup: Iterable[ModelAnswer] | None = None,
    limit_s: float = LIMIT_S,
    **choice: Any,
) -> Lived:
    """One run from its request to its end; the environment must hold a key.

    Args:
        script: of the model.
        scripted: what makes the script of the run that is being watched.
        work: what the devices do.
        fleet: their profiles.
        options: of the run; by default the model is asked after every batch.
        backup: the script of another model, asked where the first gives no answer.
        limit_s: past it the test fails.
        choice: fields of the ``ModelChoice`` that are to differ from those that these tests use.
    """
    watch = Watch()
    submitted = ConstellationSubmitted(request="Weave it", fleet=tuple(fleet), options=options or RunOptions(replan="always"))

    async def story() -> Lived:
        answers = scripted(watch) if scripted else script or ()
        async with asyncio.timeout(limit_s), ScriptedModel(answers) as model, ScriptedModel(backup or ()) as other:
            quick: dict[str, Any] = {
                "model": "openai:gpt-4o",
                "base_url": model.anthropic_url if str(choice.get("model")).startswith("anthropic:") else model.openai_url,
                "timeout_s": 30,
                "attempts": 3,
                "backoff_s": 0.01,
            }
            if backup is not None:
                quick |= {"backup": "openai:gpt-4o-mini", "backup_base_url": other.openai_url}
            lived = await _driven(submitted, choose_model(**{**quick, **choice}), work, watch)
        lived.requests, lived.backup_requests = model.requests, other.requests
        return lived

    return asyncio.run(story())


async def _driven(submitted: ConstellationSubmitted, choice: ModelChoice, work: Work, watch: Watch) -> Lived:
    started, store = time.monotonic(), MemoryStore()
    devices = {profile.device_id: HandDevice(profile, work) for profile in submitted.fleet}
    async with (
        open_planner(choice) as planner,
        open_runtime(store, devices, Path("unused.db"), planner=planner, observers=[watch]) as runtime,
    ):
        run = await runtime.submit(CONSTELLATION_AGENT, submitted, title="weave", actor="user")
        row = await runtime.drive(run)
    records = await store.records(run)
    replayed: Run[ConstellationMemory] = Run(CONSTELLATION_AGENT, run)
    replayed.replay(packer(CONSTELLATION_AGENT).unpack(record) for record in records)
    lasted_s = time.monotonic() - started
    return Lived(row=row, records=records, memory=replayed.memory, troubles=watch.troubles, lasted_s=lasted_s)


# -- what models say -------------------------------------------------------------------------------


def plan(*tasks: str | dict[str, Any], lines: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    """A reply with a constellation; a task is given by its id, a line as ``a>b``."""
    listed = [{"task_id": it, "name": it, "device": "d"} if isinstance(it, str) else it for it in tasks]
    pairs = [line.split(">") for line in lines]
    constellation = {"tasks": listed, "dependencies": [{"from": source, "to": target} for source, target in pairs]}
    return {"thought": "so it is split", "status": "CONTINUE", "constellation": constellation, **more}


def edit(*actions: tuple[str, dict[str, Any]], status: str = "CONTINUE", **more: Any) -> dict[str, Any]:
    """A reply with edits, each as (tool, parameters)."""
    listed = [{"tool": tool, "parameters": parameters} for tool, parameters in actions]
    return {"thought": "as it has to be", "status": status, "actions": listed, **more}


def creating(request: ModelRequest) -> bool:
    """Whether a constellation is asked for, rather than edits."""
    return "Now: CREATION." in request.text


def ended(request: ModelRequest) -> list[str]:
    """Ids of the tasks that an editing question says have ended."""
    told = request.text.rsplit("# What has ended", 1)[-1].split("</device_output>")[0]
    return [json.loads(line)["task_id"] for line in told.splitlines() if line.startswith("{")]


def one_by_one(**replies: ModelAnswer) -> Answering:
    """A script that answers CONTINUE without edits, but for the first question about what is named."""
    left = dict(replies)

    def answer(request: ModelRequest) -> ModelAnswer:
        about = ["creation"] if creating(request) else ended(request)
        return next((left.pop(name) for name in about if name in left), edit(thought="The plan still stands."))

    return answer
