"""A mixed load for a server: runs of all three machines, which one program submits, answers and cancels over HTTP."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import random
from dataclasses import dataclass, field
from typing import Any

from asterism.app.bootstrap import run_files
from asterism.engine.kernel.machine import run_id_of
from asterism.errors import Refused
from asterism.service.http_connection import HttpConnection
from asterism.stores.sqlite import SqliteStore
from examples.remote.skills import digest
from tests.end_to_end.remote_crashes import INTERRUPTED, PLAN
from tests.end_to_end.served_site import ServedSite, until_answered
from tests.support.attempt_files import parts

LOOK_S = 0.3
LATE_S = 1.0
"""Seconds until a request that was on its way when its sender was killed has reached its device."""
ONCE = {"deploy": {"deployed": 2}, "post": ["posted"]}
"""Result of each effect of ``mixed_agents`` that must not be repeated, where a person can give it."""


def local_plan() -> dict[str, Any]:
    """A plan with a file that goes from task to task, and an approval of what must not be repeated."""
    tasks = [
        {"task_id": "prepare", "device": "crew", "skill": "prepare"},
        {"task_id": "attach", "device": "crew", "skill": "attach"},
        {"task_id": "measure", "device": "crew", "skill": "measure", "inputs": {"file": "${attach}"}},
        {"task_id": "deploy", "device": "crew", "skill": "deploy", "requires_approval": True},
    ]
    lines = [("prepare", "attach"), ("attach", "measure"), ("prepare", "deploy")]
    return {"tasks": tasks, "dependencies": [{"from": one, "to": other} for one, other in lines]}


def remote_plan(topic: str) -> dict[str, Any]:
    """The plan of ``examples.remote`` about a topic."""
    plan: dict[str, Any] = json.loads(json.dumps(PLAN).replace('"tides"', json.dumps(topic)))
    return plan


def cancelled_plan(topic: str) -> dict[str, Any]:
    """A plan that does not end by itself: a local task holds, and an agent waits for an answer that nobody gives."""
    draft, edit = remote_plan(topic)["tasks"][:2]
    hold = {"task_id": "hold", "device": "crew", "skill": "hold"}
    return {"tasks": [draft, edit, hold], "dependencies": [{"from": "draft", "to": "edit"}]}


FAILING = {"tasks": [{"task_id": "fail", "device": "crew", "skill": "fail"}], "dependencies": []}
OUTCOMES = {"cancelled": "cancelled", "failing": "failed"}
"""The outcome of each kind of run that does not finish."""


@dataclass(frozen=True)
class Mix:
    """How many runs of each kind are submitted."""

    local: int = 16
    remote: int = 8
    cancelled: int = 6
    failing: int = 4
    loops: int = 8
    settlements: int = 4
    payments: int = 4


@dataclass
class Load:
    """One round of the load.

    Attributes:
        patience_s: seconds until a person answers, one of them for each question.
        runs: kind of each run that was submitted.
        topics: topic of each run that has one.
        interrupted: what people were asked about interrupted work, and what they answered.
        paid: conversations that fail because what was interrupted had happened, and is not run again.
        faults: what must not be.
    """

    site: ServedSite
    chance: random.Random
    number: int
    mix: Mix = Mix()
    patience_s: tuple[float, ...] = (0, 0, 0, 7)
    runs: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    interrupted: list[str] = field(default_factory=list)
    paid: set[str] = field(default_factory=set)
    answers: int = 0
    faults: list[str] = field(default_factory=list)
    _roots: dict[str, str] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)

    # -- submitting --------------------------------------------------------------------------------

    async def submit(self, http: HttpConnection) -> None:
        """Submit the runs, each once, though the server may end at any time."""
        mix = self.mix
        kinds = ["local"] * mix.local + ["remote"] * mix.remote + ["cancelled"] * mix.cancelled + ["failing"] * mix.failing
        self.chance.shuffle(kinds)
        below = asyncio.create_task(asyncio.to_thread(self.site.submitted, mix.loops, mix.settlements, mix.payments))
        for number, kind in enumerate(kinds):
            topic, key = f"tides {self.number}.{number}", f"submission-{self.number}-{number}"
            plan = {"local": local_plan(), "failing": FAILING, "remote": remote_plan(topic), "cancelled": cancelled_plan(topic)}[kind]
            made = await until_answered(lambda: http.post("/api/runs", {"plan": plan, "title": kind}, key=key))  # noqa: B023 - it is called at once
            self.runs[made["run_id"]] = kind
            if kind in ("remote", "cancelled"):
                self.topics[made["run_id"]] = topic
        self.runs |= {run_id: kind for kind, run_id in await below}

    # -- cancelling --------------------------------------------------------------------------------

    async def cancel(self, http: HttpConnection) -> None:
        """Cancel the runs that do not end by themselves, each at another time."""
        for run_id in [run_id for run_id, kind in self.runs.items() if kind == "cancelled"]:
            await asyncio.sleep(self.chance.uniform(0, 4))
            body, path = {"command": "cancel", "reason": "enough"}, f"/api/runs/{run_id}/commands"
            try:
                await until_answered(lambda: http.post(path, body, key="cancel"))  # noqa: B023 - it is called at once
            except Refused as refused:
                self.faults.append(f"the cancel of {run_id} was refused: {refused}")

    # -- answering ---------------------------------------------------------------------------------

    async def answer(self, http: HttpConnection) -> None:
        """Answer the questions of the runs until this is cancelled: most at once, some later."""
        async with asyncio.TaskGroup() as group:
            while True:
                found = await until_answered(lambda: http.get("/api/inquiries", {"limit": 1000}))
                for asked in found["inquiries"]:
                    if asked["inquiry_id"] not in self._answered:
                        self._answered.add(asked["inquiry_id"])
                        group.create_task(self._answer_one(http, asked))
                await asyncio.sleep(LOOK_S)

    async def _answer_one(self, http: HttpConnection, asked: dict[str, Any]) -> None:
        root = await self._root_of(http, asked["run_id"])
        if self.runs.get(root, "cancelled") == "cancelled":
            if root not in self.runs:  # it is of the round before, or not submitted for this program yet
                self._answered.discard(asked["inquiry_id"])
            return
        await asyncio.sleep(LATE_S if "interrupted" in asked["prompt"] else self.chance.choice(self.patience_s))
        body = {**await self._reply(asked, root), "digest": asked["digest"]}
        with contextlib.suppress(Refused):  # the answer was accepted, and its response was lost
            question = asked["inquiry_id"]  # a key of its own for each: a key answers one question of a run
            await until_answered(lambda: http.post(f"/api/inquiries/{question}/answer", body, key=question))
        self.answers += 1

    async def _root_of(self, http: HttpConnection, run_id: str) -> str:
        if run_id not in self._roots:
            found = await until_answered(lambda: http.get(f"/api/runs/{run_id}"))
            self._roots[run_id] = found["run"]["root"]
        return self._roots[run_id]

    async def _reply(self, asked: dict[str, Any], root: str) -> dict[str, Any]:
        prompt = asked["prompt"]
        if prompt == "What is the title?":
            return {"verb": "respond", "value": "Tides"}
        if prompt.startswith("Who is the author"):
            return {"verb": "respond", "value": {"author": "Ada"}}
        if "interrupted" not in prompt:
            return {"verb": "approve"}
        return await (self._about_a_device(prompt, root) if root in self.topics else self._about_an_effect(root))

    async def _about_an_effect(self, root: str) -> dict[str, Any]:
        """Answer whether what was interrupted may run again: not if it has happened."""
        done = {name for name, key in self.site.done() if run_id_of(key) == root} & {"deploy", "post", "pay"}
        self.interrupted.append(f"{self.runs[root]} {'done' if done else 'again'}")
        if not done:
            return {"verb": "approve"}
        (name,) = done
        if name == "pay":
            self.paid.add(root)
            return {"verb": "reject"}
        return {"verb": "respond", "value": ONCE[name]}

    async def _about_a_device(self, prompt: str, root: str) -> dict[str, Any]:
        """Answer whether the work of a device may run again, by what it has noted."""
        device = next((device for word, device in INTERRUPTED.items() if word in prompt), "")
        text, title = text_of(self.topics[root]), f"Tides\n\n{text_of(self.topics[root])}"
        received, drafts = (
            self.site.received(),
            {it["result"] for it in self.site.work() if (it["device"], it["event"]) == ("desk", "start")},
        )
        done = {
            "desk": text in drafts,
            "catalogue": bool(received["catalogue", digest(text.encode())]),
            "reviewer": bool(received["reviewer", digest(title.encode())]),
        }.get(device)
        if done is None:
            self.faults.append(f"run {root} asks {prompt!r}")
        self.interrupted.append(f"{device} {'done' if done else 'again'}")
        match device if done else "":
            case "desk":
                return {"verb": "respond", "value": await self._stored(root, text)}
            case "catalogue":
                return {"verb": "respond", "value": {"author": "Ada", "number": len(text)}}
            case "reviewer":
                return {"verb": "respond", "value": {"too_long": []}}
            case _:
                return {"verb": "approve"}

    async def _stored(self, root: str, text: str) -> Any:
        store = SqliteStore.open(self.site.database, create=False)
        try:
            return await run_files(store, self.site.database).put(root, "draft.txt", parts(text.encode()))
        finally:
            await store.close()

    # -- what came out -----------------------------------------------------------------------------

    def unended(self) -> list[str]:
        """Return the runs that have not ended."""
        ended = {run_id for (run_id,) in self.site.ask("SELECT run FROM runs WHERE status = 'ended'")}
        return [run_id for run_id in self.runs if run_id not in ended]

    def outcome_faults(self) -> list[str]:
        """Return the runs that have not ended as they must."""
        rows = {run_id: (outcome, problem) for run_id, outcome, problem in self.site.ask("SELECT run, outcome, problem FROM runs")}
        faults = []
        for run_id, kind in self.runs.items():
            wanted = "failed" if run_id in self.paid else OUTCOMES.get(kind, "finished")
            if rows[run_id][0] != wanted:
                faults.append(f"{kind} run {run_id}: {rows[run_id]} instead of {wanted}")
        return faults

    def effect_faults(self) -> list[str]:
        """Return the effects outside that happened too often, or not at all."""
        faults = []
        by_run = collections.Counter((name, run_id_of(key)) for (name, key) in self.site.done())
        for (name, key), count in self.site.done().items():
            if name in ("deploy", "post", "pay") and count > 1:
                faults.append(f"{name} {key} was done {count} times")
        expected = {"local": ("prepare", "deploy", "attach", "measure"), "failing": ("fail",), "loop": ("look", "post")}
        for run_id, kind in self.runs.items():
            names = expected.get(kind, (kind,) * (kind in ("settle", "pay")))
            faults += [f"{kind} run {run_id}: {name} under {by_run[name, run_id]} keys" for name in names if by_run[name, run_id] != 1]
        return faults + self._device_faults()

    def _device_faults(self) -> list[str]:
        received, faults = self.site.received(), []
        messages = collections.Counter(
            it["result"] for it in self.site.work() if it["device"] == "editor" and it["event"] in ("start", "answer")
        )
        drafts = collections.Counter(it["result"] for it in self.site.work() if (it["device"], it["event"]) == ("desk", "start"))
        faults += [f"the editor has received message {message} {count} times" for message, count in messages.items() if count > 1]
        for run_id, topic in self.topics.items():
            is_whole = self.runs[run_id] == "remote"
            text = text_of(topic)
            counts = {"desk": drafts[text], "editor": received["editor", digest(text.encode())]}
            if is_whole:
                edited = digest(f"Tides\n\n{text}".encode())
                counts |= {device: received[device, digest(text.encode())] for device in ("catalogue", "host")}
                counts |= {device: received[device, edited] for device in ("reviewer", "publisher")}
            for device, count in counts.items():
                if count > 1 or (is_whole and count != 1):
                    faults.append(f"{self.runs[run_id]} run {run_id}: {device} has worked {count} times")
        return faults

    async def file_faults(self, http: HttpConnection) -> list[str]:
        """Return what is wrong with the files that the API lists for the runs."""
        faults = []
        for run_id, kind in self.runs.items():
            if kind in ("local", "remote"):
                found = (await until_answered(lambda: http.get(f"/api/runs/{run_id}/files")))["files"]  # noqa: B023 - it is called at once
                if len({it["digest"] for it in found}) != (1 if kind == "local" else 2):
                    faults.append(f"{kind} run {run_id} has the files {found}")
        return faults


def text_of(topic: str) -> str:
    """Return the text that the desk drafts about a topic."""
    return f"A few words about {topic}, and no more."
