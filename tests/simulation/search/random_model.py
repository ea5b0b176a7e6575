"""A random model: its replies are drawn from a seed and may be valid, invalid, late, truncated, errors or missing.

It reads the prompt, as any model does. Not here: the transport to the client (``scripted_model``, ``pipeline``).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import msgspec

from asterism.engine.kernel.profile import AgentProfile
from asterism.testing.model_wire import ModelRequest, Say
from asterism.testing.scripted_model import DROP, HANG, KEY, Fault
from tests.simulation.search import shapes
from tests.simulation.search.shapes import likely

_FAULTS: tuple[Fault | Say, ...] = (
    Fault(status=429, message="slow down"),
    *(Fault(status=429, headers={"retry-after": wanted}) for wanted in ("0", "2", "20", "4000", "-3", "soon", "1e9")),
    Fault(status=429, headers={"retry-after-ms": "1500"}, after_s=3.0),
    Fault(status=500, message=f"the key {KEY} made it fail"),
    *(Fault(status=status) for status in (400, 402, 403, 404, 408, 413, 422, 502, 503, 504, 529)),
    Fault(status=401, message=f"{KEY} is no key"),
    Fault(status=400, message="maximum context length exceeded"),
    *(Fault(status=200, body=body) for body in (b"", b"{", b"<html>busy</html>", b"null", b'{"choices": []}', b'{"content": 7}', b"\xff")),
    Fault(status=500, body=b"\x00", after_s=9.0),
    HANG,
    DROP,
    Say(text="{" * 400, drop_at=0.5),
)
_FORMS = ("text", "text", "text", "fence", "prose", "spelled")


class RandomModel:
    """Script of a planning model.

    Args:
        seed: seed of its replies.
        devices: devices of its plans; some others are invented.
        trouble: chance of an error in place of a reply.
        odd: chance of an invalid or barely valid reply.
        wild: chance that an edit concerns a started task.
    """

    def __init__(self, seed: int, devices: list[AgentProfile], *, trouble: float = 0.1, odd: float = 0.2, wild: float = 0.25) -> None:
        self._seed = seed
        self._devices = devices
        self._trouble = trouble
        self._odd = odd
        self._wild = wild

    def __call__(self, request: ModelRequest) -> Say | Fault:
        """Return the reply to a request."""
        rng = random.Random(f"{self._seed}:{request.number}")
        if likely(rng, self._trouble):
            return rng.choice(_FAULTS)
        if likely(rng, 0.5 if "read_tasks" in request.tools else 0.02):
            return Say(calls=_reads(rng))
        document = self._document(rng, request)
        text = json.dumps(document, ensure_ascii=likely(rng, 0.5))
        text = rng.choice(_ODD)(rng, document) if likely(rng, self._odd) else _formed(rng.choice(_FORMS), document, text)
        cut_off = likely(rng, 0.03)
        used = rng.choice(((100, 20), (100, 20), (0, 0), (2_000, 500), (300_000, 9)))
        after_s = rng.choice((0.0, 0.0, 1.0, 8.0, 40.0))
        if cut_off:
            text = text[: rng.randrange(len(text) + 1)]
        return Say(text=text, input_tokens=used[0], output_tokens=used[1], after_s=after_s, cut_off=cut_off)

    def _document(self, rng: random.Random, request: ModelRequest) -> dict[str, Any]:
        said: dict[str, Any] = {"thought": rng.choice(("simulated", f"with {KEY}", "gründlich ✓")), "observation": ""}
        if "\n# Constellation\n" not in request.text:
            plan = _plan(rng, self._devices, most=8)
            said["status"] = rng.choice(("CONTINUE", "CONTINUE", "CONTINUE", "FINISH", "FAIL"))
            as_edit = {"actions": [{"tool": "build_constellation", "parameters": plan}]}
            return said | (as_edit if likely(rng, 0.2) else {"constellation": plan})
        there = _shown(request.text)
        actions = [
            shapes.edit(rng, self._devices, there, wild=self._wild) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)) if there["tasks"] else 0)
        ]
        status = rng.choices(shapes.STATUSES, (1, 13, 7, 3))[0]
        if likely(rng, 0.1):
            said["constellation"] = _plan(rng, self._devices, most=3)
        return said | {"status": status, "actions": actions, "result": {"summary": "simulated"}}


def _plan(rng: random.Random, devices: list[AgentProfile], *, most: int) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(shapes.plan(rng, devices, most=most)), type=dict[str, Any])


def _shown(text: str) -> dict[str, Any]:
    """Return the constellation as far as the prompt shows it."""
    tasks: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        if line.startswith('{"task_id": '):
            found = json.loads(line)
            tasks[found["task_id"]] = {**tasks.get(found["task_id"], {}), **found}
    lines = [{"id": line["dependency"]} for task in tasks.values() for line in task.get("waits_for", ())]
    return {"tasks": list(tasks.values()), "dependencies": lines}


def _reads(rng: random.Random) -> tuple[tuple[str, dict[str, Any] | str], ...]:
    offset = rng.choice((0, 3, 20, 10**6, -4, "x", None, 2.5))
    asked: tuple[dict[str, Any] | str, ...] = ({"offset": offset}, {"offset": offset}, {}, "{", "[1]", "null", "", f'{{"key": "{KEY}"}}')
    return tuple(
        (rng.choice(("read_tasks", "read_tasks", "read_tasks", "explode")), rng.choice(asked)) for _ in range(rng.choice((1, 1, 2)))
    )


def _formed(form: str, document: dict[str, Any], text: str) -> str:
    """Return a reply in one of the forms that models use."""
    if form == "fence":
        return f"```json\n{text}\n```"
    if form == "prose":
        return f"Let me think about it.\n\n{text}\n\nThat should do."
    if form == "spelled":
        other = {"status": "State", "actions": "action", "constellation": "Task Constellation"}
        actions = [{"function": it["tool"], "arguments": it["parameters"]} for it in document.get("actions", ())]
        spelled = {**document, "actions": actions} if actions else document
        return json.dumps({other.get(name, name): value for name, value in spelled.items()})
    return text


# -- replies that are odd --------------------------------------------------------------------------

Odd = Callable[[random.Random, dict[str, Any]], str]


def _cut(rng: random.Random, document: dict[str, Any]) -> str:
    text = json.dumps(document)
    return text[: rng.randrange(len(text))]


def _named_twice(_: random.Random, document: dict[str, Any]) -> str:
    return json.dumps(document).replace('{"thought"', '{"status": "FAIL", "thought"', 1)


def _with(name: str, *values: Any) -> Odd:
    """Return a function that replaces a field, of the reply or of an edit or task, by another value."""

    def odd(rng: random.Random, document: dict[str, Any]) -> str:
        value = rng.choice(values)
        within = document.get("actions") or document.get("constellation", {}).get("tasks")
        if within and likely(rng, 0.5):
            found = rng.choice(within)
            (found.get("parameters") or found)[name if name != "status" else "inputs"] = value
            return json.dumps(document)
        return json.dumps({**document, name: value})

    return odd


def _nested(deep: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(deep):
        found = [found]
    return found


_ODD: tuple[Odd, ...] = (
    _cut,
    _cut,
    _named_twice,
    lambda *_: "",
    lambda *_: "I am sorry, but I cannot help with that.",
    lambda *_: "[1, 2]",
    lambda *_: "null",
    lambda *_: "{" * 3_000,
    lambda *_: "\ud800 {",
    lambda *_: "x" * 1_000_001,
    lambda _, document: f"{json.dumps(document)}\n{json.dumps(document)}",
    lambda _, document: json.dumps({name: value for name, value in document.items() if name != "thought"}),
    _with("status", "DONE", "finish ", 7, None, ["FAIL"], {}),
    _with("thought", "", 7, "\ud83d", "x\u0000y", ["a"], "half \udc00 a pair"),
    _with("result", math.nan, math.inf, "in words", ["a"], {"value": math.nan}, {"value": 10**400}, _nested(300), {"\ud800": 1}),
    _with("inputs", math.nan, {"x": "${nothing.here}"}, {"x": _nested(90)}, {"x": 1e308 * 10}, {"\udfff": 1}, {"unknown": 1}, 7),
    _with("priority", "high", 10**30, -(2**63), 0.5),
    _with("deadline_s", -1, 0, 1e300, "soon"),
    _with("timeout_s", -1, 0, 1e300, "soon"),
    _with("task_id", "", "a b", "t0", "x" * 5_000, None, "\ud800"),
    _with("device", "nowhere", "", None),
    _with("actions", {}, "none", [[]], [{"tool": 7}], [{"tool": "add_task"}] * 2_001, {"tool": "remove_task", "parameters": "t0"}),
    _with("constellation", {}, [], {"tasks": [{}]}, {"tasks": "all"}, {"tasks": [], "dependencies": [{"from": "t0", "to": "t0"}]}),
    _with("condition", "value >", "1/0 == value", "x" * 9_000, "tasks['t0'].value > 0"),
    _with("constellation_id", "another", 7),
)
