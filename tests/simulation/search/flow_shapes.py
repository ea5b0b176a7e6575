"""Random conversations: an agent with several fields and random actions, and a random person, drawn from a seed."""

from __future__ import annotations

import asyncio
import collections
import enum
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, OutputField, StandardAgent, flowagent
from asterism.conversation.python.children import ChildFailed
from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import Cancel, Pause, Unpause
from asterism.testing.people import Line
from tests.simulation.search.shapes import likely

AGENT_MODULE = "asterism.testing.search.flow_shapes"
"""Module name of the agents in journals: the former name of this module, so that a seed keeps its journal."""
SECRET = "correct-horse-battery"  # noqa: S105 - nobody's


class Size(enum.Enum):
    """One of two."""

    SMALL = "small"
    LARGE = "large"


KINDS: Mapping[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "count": (int, {"ge": 1, "le": 50}, ("4", "4", "twelve", "0", "four or five", "1e9", "make it 7")),
    "price": (float, {"gt": 0}, ("9.5", "12", "-1", "free")),
    "name": (str, {"min_length": 2}, ("Ada", "Bob", "x", "the name is Eve", "Żółć 🫖")),
    "size": (Size, {}, ("small", "LARGE", "medium", "the large one")),
    "express": (bool, {}, ("yes", "no", "perhaps")),
    "wish": (str | None, {}, ("none", "skip", "no onions")),
    "code": (str, {"pattern": r"\b(C-\d+)\b"}, ("C-17", "it is C-18, I think", "17")),
    "pin": (str, {"secret": True}, (SECRET,)),
}
"""Fields by name: type, constraints, and answers of people."""
WORDS = (
    *("yes", "yes", "no", "ok", "yes but not today", "no, it is too dear", "cancel", "skip", "help", "what?", "back", "again", "resume"),
    *("", "change the count to 9", "make it 3", "the name is Zoe", "actually large", "?" * 300, "💥", "continue"),
)
"""Other messages of people."""
DAY_S = 86_400.0
"""Default time limit of ``on_running``; longer than any world lasts."""
MAX_ROUNDS = 3
"""Maximum number of actions without an end."""

Start = Callable[[random.Random], StartChild]


class Simulated(StandardAgent):
    """What every random agent does: it draws how it acts from its seed, its key and how often that was used before."""

    seed = 0
    wild = 0.0
    hangs_s = 100_000.0
    children: tuple[Start, ...] = ()
    forbids: frozenset[tuple[AgentStatus, AgentStatus]] = frozenset()
    used: collections.Counter[str]

    def can_transition(self, from_state: AgentStatus, to_state: AgentStatus) -> bool:
        return (from_state, to_state) not in self.forbids and super().can_transition(from_state, to_state)

    async def act(self, msg: Message) -> AgentResult | None:
        """Act: the body of ``on_running``."""
        self.used[self.key] += 1
        rng = random.Random(f"{self.seed}:{self.key}:{self.used[self.key]}")
        await asyncio.sleep(rng.choice((0.0, 0.0, 1.0, 15.0)))
        told = str(self.collected_fields)  # it reveals all fields wherever it can
        self.metadata["round"], self.metadata["told"] = self.metadata.get("round", 0) + 1, told
        self.report(f"round {self.metadata['round']} with {told}")
        self.outputs["result"] = told
        habits = random.Random(f"habits:{self.seed}:{self.key}")
        indiscreet, patience_s = likely(habits, 0.1), habits.choice((None, None, 3.0))
        for number, start in enumerate(self.children):
            started = msgspec.structs.replace(start(rng), title=told) if indiscreet else start(rng)
            try:
                async with asyncio.timeout(patience_s):
                    self.outputs[f"child_{number}"] = await self.child(f"child-{number}", started)
            except (ChildFailed, TimeoutError) as failed:
                self.outputs[f"child_{number}"] = str(failed)
        if likely(rng, self.wild):
            raise rng.choice((ValueError(f"simulated: {told}"), OSError(), RuntimeError("simulated"), KeyError("x")))
        if likely(rng, self.wild):
            await asyncio.sleep(self.hangs_s)
        if likely(rng, 0.3) and self.metadata["round"] <= MAX_ROUNDS:
            status = rng.choice((AgentStatus.WAITING_FOR_INPUT, AgentStatus.RUNNING, AgentStatus.PAUSED, AgentStatus.ERROR))
            return self.make_result(status, f"and now? ({msg.get_text()[:9]})")
        return self.make_result(AgentStatus.COMPLETED, f"done with {told}", data={"value": rng.random(), "told": told})


async def _on_running(self: Simulated, msg: Message) -> AgentResult | None:
    return await self.act(msg)


def agent(rng: random.Random, seed: int, *, name: str = "Talker", children: tuple[Start, ...] = (), bounded: bool = True) -> type:
    """Return a random agent; a later agent of the same name replaces it.

    Args:
        rng: source of its structure.
        seed: seed of its behaviour.
        name: name of its class.
        children: child runs that it may start.
        bounded: True to limit the time of ``on_running``, which also ends a handler that is never notified; else a day.
    """
    names = rng.sample(list(KINDS), rng.randint(0, 4))
    fields: dict[str, Any] = {}
    for field in names:
        kind, bounds, _ = KINDS[field]
        more: dict[str, Any] = {"default": kind("5")} if kind in (int, float) and likely(rng, 0.1) else {}
        fields[field] = InputField(f"{field.capitalize()}?", **bounds, **more)
    found: Any = type(
        name,
        (Simulated,),
        {
            **fields,
            "__annotations__": {field: KINDS[field][0] for field in names},
            "__module__": AGENT_MODULE,
            "on_running": _on_running,
            "result": OutputField(""),
            "seed": seed,
            "wild": rng.choice((0.0, 0.05, 0.3)),
            "children": children,
            "used": collections.Counter(),
            "forbids": frozenset(tuple(rng.sample(list(AgentStatus), 2)) for _ in range(rng.choice((0, 0, 0, 2)))),
            "idempotent": likely(rng, 0.3),
            "resumable": likely(rng, 0.4),
            "approval_timeout_s": rng.choice((None, 30.0, 86_400.0)),
            "idle_timeout_s": rng.choice((None, None, 60.0)),
        },
    )
    requires_approval, timeout_s = likely(rng, 0.5), rng.choice((5.0, 60.0, 600.0))
    if not bounded:
        found.hangs_s, timeout_s = 1_000.0, DAY_S
    return flowagent(requires_approval=requires_approval, description="Simulate", timeout_s=timeout_s)(found)  # type: ignore[no-any-return]


def lines(rng: random.Random, talker: Any) -> list[Line]:
    """Return the lines of a person: an answer for each field and a yes, mixed with repetitions, corrections and nonsense."""
    wild = rng.choice((0.0, 0.2, 0.6))
    plain = [
        "hello",
        *(rng.choice(KINDS[field][2]) if likely(rng, 0.3) else KINDS[field][2][0] for field in talker.input_fields()),
        "yes",
        "yes",
    ]
    said: list[Line] = []
    for text in plain:
        said.append(Line(text=text, after_s=rng.choice((0.0, 1.0, 1.0, 10.0, 100.0))))
        if likely(rng, wild / 3):
            said.append(_twice(said[-1]))
        if likely(rng, wild):
            said.append(_anything(rng))
    return said if likely(rng, 0.8) else said[: rng.randint(1, len(said))]


def _twice(line: Line) -> Line:
    """Return the same line again, sent without waiting."""
    return Line(text=line.text, after_s=0.0, waits=False)


def _anything(rng: random.Random) -> Line:
    after_s, waits = rng.choice((0.0, 0.5, 5.0)), likely(rng, 0.6)
    if likely(rng, 0.2):
        return Line(command=rng.choices((Pause(), Unpause(), Cancel(reason="simulated")), (3, 3, 1))[0], after_s=after_s, waits=waits)
    if likely(rng, 0.2):
        return Line(
            values=rng.choice(({"count": 8}, {"count": "many"}, {"unknown": 1}, {"name": "Kim", "price": 3})), after_s=after_s, waits=waits
        )
    return Line(text=rng.choice(WORDS), after_s=after_s, waits=waits)
