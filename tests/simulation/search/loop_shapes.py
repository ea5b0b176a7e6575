"""Random loops: plans, workers, supervisors and their replies, valid or not, drawn from a seed.

Every draw depends on the seed, the idempotency key and its number of earlier uses, never on the order of events.
"""

from __future__ import annotations

import asyncio
import collections
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from asterism.loop.machine.model import Gate
from asterism.loop.python import (
    ChildWorker,
    Finding,
    Handoff,
    Later,
    LoopOptions,
    LoopView,
    ModelWorker,
    OrchestrationLoop,
    Strategy,
    Worker,
    tool,
)
from asterism.loop.python.outcome import Metered
from asterism.loop.python.worker import AnyWorker
from asterism.testing.world import FOLDER
from tests.simulation.search.shapes import likely

WORDS: tuple[Any, ...] = (
    *(
        "continue",
        "continue",
        "continue",
        "Continue.",
        "done",
        " DONE! ",
        "not done",
        "done, I think",
        "replan",
        "RE-PLAN",
        "Replan",
        "fail",
    ),
    *("", "perhaps", "continue" * 200, "\N{FULLWIDTH LATIN SMALL LETTER D}one", 7, None, *Strategy),
)
"""Replies of reflections."""
OUTPUTS: tuple[Any, ...] = ("same", {"value": 0.7}, "", None, [], {"deep": [1, {"er": None}]}, {1, 2}, object(), float("nan"), "x" * 3000)
"""Outputs of workers, JSON or not."""
INVALID_PLANS: tuple[Any, ...] = (
    "no plan",
    [],
    None,
    [{"worker": "nobody", "intent": "x"}],
    [{"intent": "x"}],
    [{"worker": "good", "intent": "x", "uses": ["later"]}],
)
"""Invalid plans."""

Asked = Callable[[Any], Awaitable[Any]]
"""A supervising function or a worker."""
NOT_THIS = 2
"""Argument over which tools fail."""


class RandomLoop:
    """A random loop.

    Args:
        rng: source of its structure.
        seed: seed of its behaviour.
        models: True to add workers that are models with tools.
        children: workers that are child runs.
        plans: function from each drawn plan to the plan to use.
    """

    def __init__(
        self,
        rng: random.Random,
        seed: int,
        *,
        models: bool = False,
        children: Mapping[str, AnyWorker] | None = None,
        plans: Callable[[Any], Any] = lambda drawn: drawn,
    ) -> None:
        self._seed = seed
        self._plans = plans
        self._seen: collections.Counter[str] = collections.Counter()
        self._wild = rng.choice((0.0, 0.05, 0.2))
        self._parallel = rng.choice((0.0, 0.3, 0.8))
        aside = random.Random(f"bounds:{seed}")  # a separate source, so that earlier draws stay the same
        self._max_tokens = aside.choice((None, None, None, 60, 600))
        self.workers: dict[str, AnyWorker] = {
            "good": Worker(self._metered(self._work), idempotent=True),
            "once": Worker(self._metered(self._work)),
            "asks": Worker(self._work, requires_approval=True, idempotent=likely(rng, 0.5)),
            "timed": Worker(self._hang, idempotent=likely(rng, 0.5), timeout_s=rng.choice((1.0, 20.0))),
            "later": Worker(self._later, idempotent=True),
            **(children or {}),
        }
        if models:
            timeout_s = rng.choice((None, 30.0))
            for name in ("model", "other"):  # their tools have the same names
                self.workers[name] = ModelWorker(self._model(), "You do anything.", tools=self._tools(), timeout_s=timeout_s)
        self.options = LoopOptions(
            max_steps=rng.choice((4, 30, 60)),
            max_parallel=rng.choice((1, 2, 16)),
            max_attempts=rng.choice((1, 3)),
            max_replans=rng.choice((0, 2, 5)),
            max_reflections=rng.choice((5, 40)),
            max_revisions=rng.choice((0, 1, 2)),
            max_calls=aside.choice((2, 2, 1, 4)),
            max_tokens=self._max_tokens,
            max_rounds=rng.choice((2, 6)),
            wall_limit_s=rng.choice((60.0, 300.0, 900.0)),
            inquiry_timeout_s=rng.choice((None, 20.0, 200.0)),
            recovery=tuple(rng.choice(tuple(Strategy)) for _ in range(rng.choice((0, 0, 1, 3)))),
            stall_after=rng.choice((1, 3)),
            when_stalled=rng.choice((None, None, *Strategy)),
        )
        self.loop = OrchestrationLoop(
            plan=self._metered(self._plan) if likely(rng, 0.8) else plans(self._steps(rng, most=4)),
            workers=self.workers,
            reflect=self._metered(self._reflect) if likely(rng, 0.8) else None,
            synthesize=self._metered(self._synthesize) if likely(rng, 0.7) else None,
            critique=self._metered(self._critique) if likely(rng, 0.3) else None,
            options=self.options,
            definition=f"simulated:{rng.random()}",
        )

    def child(self) -> ChildWorker:
        """Return the loop as a worker of another loop."""
        return ChildWorker(self.loop.child(Path(FOLDER), self.loop.definition))

    # -- chance ------------------------------------------------------------------------------------

    def _chance(self, key: str) -> random.Random:
        self._seen[key] += 1
        return random.Random(f"{self._seed}:{key}:{self._seen[key]}")

    async def _think(self, key: str) -> random.Random:
        """Return a random source after some time, or raise an error."""
        rng = self._chance(key)
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.5, 4.0)))
        if likely(rng, self._wild):
            raise rng.choice((ValueError("simulated"), OSError(), TimeoutError("simulated"), RuntimeError("two\nlines")))
        return rng

    def _metered(self, function: Asked) -> Asked:
        """Return the function, with token usage in its results if tokens are limited."""

        async def metered(given: Any) -> Any:
            return Metered(await function(given), tokens=self._chance(f"tokens:{given.key}").choice((0, 5, 50)))

        return function if self._max_tokens is None else metered

    # -- the supervisor ----------------------------------------------------------------------------

    def _steps(self, rng: random.Random, *, most: int) -> list[Any]:
        found: list[Any] = []
        ids: list[str] = []
        for number in range(rng.randint(1, most)):
            width = rng.choice((2, 3)) if likely(rng, self._parallel) else 1
            group = [self._step(rng, f"s{number}_{at}" if likely(rng, 0.9) else "", ids) for at in range(width)]
            ids += [step["step_id"] for step in group if step["step_id"]]
            found.append(group if width > 1 else group[0])
        return found

    def _step(self, rng: random.Random, step_id: str, earlier: list[str]) -> dict[str, Any]:
        names = list(self.workers)
        return {
            "step_id": step_id,
            "worker": rng.choice(names),
            "intent": f"do {step_id}",
            "context": {"x": 1} if likely(rng, 0.3) else {},
            "uses": rng.sample(earlier, 1) if earlier and likely(rng, 0.4) else [],
            "requires_approval": likely(rng, 0.1),
            "alternatives": rng.sample(names, 2) if likely(rng, 0.4) else [],
        }

    async def _plan(self, view: LoopView) -> Any:
        rng = await self._think(view.key)
        return self._plans(rng.choice(INVALID_PLANS) if likely(rng, self._wild) else self._steps(rng, most=5))

    async def _reflect(self, view: LoopView) -> Any:
        rng = await self._think(view.key)
        return rng.choice(WORDS) if likely(rng, 0.3 + self._wild) else "continue"

    async def _synthesize(self, view: LoopView) -> Any:
        rng = await self._think(view.key)
        return (
            rng.choice(OUTPUTS)
            if likely(rng, self._wild)
            else {"of": [finding.step_id for finding in view.findings], "after": view.critique}
        )

    async def _critique(self, view: LoopView) -> Any:
        rng = await self._think(view.key)
        return rng.choice(("ok", "OK.", "ok", "better, please", "", None))

    # -- the workers -------------------------------------------------------------------------------

    async def _work(self, handoff: Handoff) -> Any:
        rng = await self._think(handoff.key)
        await asyncio.sleep(rng.choice((0.0, 1.0, 1.0, 20.0)))
        if likely(rng, 0.1):
            return Finding(status=rng.choice(("failed", "timeout", "denied", "ok")), reason="simulated", output=rng.choice(OUTPUTS[:4]))
        return rng.choice(OUTPUTS) if likely(rng, 0.2 + self._wild) else {"did": handoff.intent, "value": round(rng.random(), 3)}

    async def _hang(self, handoff: Handoff) -> Any:
        rng = self._chance(handoff.key)
        await asyncio.sleep(rng.choice((0.5, 10_000.0)))
        return "in time"

    async def _later(self, handoff: Handoff) -> Any:
        rng = await self._think(handoff.key)
        return Later(key=f"job-{handoff.intent}", prompt=rng.choice(("", "a print job"))) if likely(rng, 0.7) else "at once"

    # -- models ------------------------------------------------------------------------------------

    def _model(self) -> Any:
        from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart  # noqa: PLC0415 - a second, and an extra
        from pydantic_ai.models.function import AgentInfo, FunctionModel  # noqa: PLC0415 - as above

        async def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            rng = await self._think(f"model:{len(messages)}")
            if likely(rng, 0.3):
                return ModelResponse(parts=[TextPart(content=rng.choice(("all done", "", "x" * 500)))])
            names = [rng.choice(("look", "write", "reach", "first", "unknown")) for _ in range(rng.choice((1, 1, 2, 3)))]
            arguments = [rng.choice(({"x": 1}, {"x": 2}, {"x": "rubbish"}, {}, '{"x": 3}', "[]")) for _ in names]
            return ModelResponse(parts=[ToolCallPart(name, given) for name, given in zip(names, arguments, strict=True)])

        return FunctionModel(reply)

    def _tools(self) -> list[Any]:
        gates: Mapping[str, Gate] = {"look": "", "write": "destructive", "reach": "external", "first": "first_time"}

        def named(name: str) -> Callable[..., Awaitable[str]]:
            async def call(x: int = 0) -> str:
                await asyncio.sleep(1.0)
                if x == NOT_THIS:
                    raise ValueError("simulated: not this one")
                return f"{name} {x}"

            call.__name__ = call.__qualname__ = name
            return call

        return [tool(named(name), gate=gate, idempotent=name == "look") for name, gate in gates.items()]
