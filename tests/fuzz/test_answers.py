"""Input from models, devices and people, and conditions: accepted or rejected in bounded time, without another error."""

from __future__ import annotations

import contextlib
import json
import resource
import time
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asterism.app.bootstrap import FORMS
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.condition import MAX_LENGTH, Condition
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.planner.reply import InvalidReply, parse_reply
from asterism.engine.kernel.machine import kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.snapshot import Snapshot, restore_snapshot, take_snapshot
from asterism.errors import IllegalTransition, InvalidInput, Refused
from asterism.loop.machine.effects import AskModel, RunWorker
from asterism.loop.machine.model import ToolCall
from asterism.testing.device import Behaviour
from asterism.testing.world import World
from tests.simulation.demo_world import fleet_of, tasks
from tests.simulation.test_forks import FLEET, House, play
from tests.support.constellation_harness import Agent, memory_of
from tests.support.constellations import plan
from tests.support.loop_harness import Loop, steps

WORDS = [
    "thought",
    "status",
    "state",
    "actions",
    "action",
    "tool",
    "function",
    "parameters",
    "arguments",
    "constellation",
    "tasks",
    "task_id",
    "from",
    "to",
]
VALUES = ["CONTINUE", "FINISH", "START", "add_task", "remove_task", "build_constellation", "a", "d", "", "\ud800", "x > 1", "${a.x}"]
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(VALUES) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip
replies = st.fixed_dictionaries(
    {"thought": st.just("so") | json_values, "status": st.just("CONTINUE") | json_values},
    optional={
        "actions": st.lists(st.fixed_dictionaries({"tool": st.sampled_from(VALUES) | json_values, "parameters": json_values}), max_size=4)
        | json_values,
        "constellation": st.fixed_dictionaries({"tasks": json_values}, optional={"dependencies": json_values}) | json_values,
        "result": json_values,
        "observation": json_values,
    },
)


# -- models ----------------------------------------------------------------------------------------
@example("{" * 100_000)
@example('{"a":' * 100_000)
@example('{"thought": ' + "9" * 5000 + "}")
@example("```json\n" * 20_000)
@given(
    st.text(max_size=200) | replies.map(json.dumps) | st.tuples(replies.map(json.dumps), st.integers(0, 400)).map(lambda it: it[0][: it[1]])
)
def test_a_model_reply_is_accepted_or_rejected(text: str) -> None:
    begun = time.monotonic()
    with contextlib.suppress(InvalidReply):
        msgspec.json.encode(parse_reply(text))
    assert time.monotonic() - begun < 10


@given(replies)
def test_what_a_reply_asks_for_is_taken_refused_or_asked_again_and_is_replayed(reply: dict[str, Any]) -> None:
    agent = Agent(replan="always")
    agent.plans(plan=plan("a b", "a>b"))
    agent.ends("a")
    try:
        answer = parse_reply(json.dumps(reply))
    except InvalidReply:
        return
    with contextlib.suppress(Refused, IllegalTransition):
        agent.take(agent.reply(*answer.actions, status=answer.status))
    assert memory_of(agent.replayed()) == memory_of(agent.run)


# -- devices ---------------------------------------------------------------------------------------
finite = json_values.filter(lambda value: "NaN" not in (text := json.dumps(value)) and "Infinity" not in text and "\\ud" not in text)


@given(finite)
def test_any_json_result_settles_its_task_and_is_replayed(result: Any) -> None:
    agent = Agent(plan("a b c", "a>b:x>1 a>c"))
    agent.ends("a", result)
    assert agent.constellation.tasks["a"].status == "COMPLETED"
    assert memory_of(agent.replayed()) == memory_of(agent.run)


@pytest.mark.parametrize("odd", ["deep", float("nan"), {1: 2}, {"x": {1, 2}}, "\ud800"])
def test_an_unserializable_result_fails_its_task(odd: Any) -> None:
    result: Any = odd
    for _ in range(970 if odd == "deep" else 0):
        result = [result]
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(result=result)})
    ending = world.run({"tasks": tasks("a", "b")})
    assert ending.outcome == "failed"
    error = ending.task("a").error
    assert error is not None
    assert error.code == "bad_result"


# -- people, and other processes -------------------------------------------------------------------
@given(st.sampled_from(sorted(FORMS)), st.data())
def test_an_inbox_row_of_any_kind_and_body_is_an_event_or_a_value_error(name: str, data: st.DataObject) -> None:
    machine = FORMS[name].machine
    kind = data.draw(st.sampled_from(sorted(kind_of(event) for event in machine.events)) | st.text(max_size=5))
    body = data.draw(st.text(max_size=20) | json_values.map(json.dumps))
    with contextlib.suppress(ValueError):
        event = packer(machine).event(kind, body)
        assert type(event).from_outside


@settings(max_examples=15)
@given(st.sampled_from(["approve", "edit", "reject", "respond", "cancel"]), json_values, st.text(max_size=5))
def test_any_answer_of_a_person_is_taken_or_refused_and_the_run_goes_on_or_waits(verb: Any, value: Any, reason: str) -> None:
    async def scenario(house: House) -> None:
        document = parse_plan(plan("a b", "a>b", skill="once", requires_approval=True))
        submitted = ConstellationSubmitted(request="x", fleet=(FLEET,), plan=document)
        run = await house.runtime.submit(CONSTELLATION_AGENT, submitted, title="x", actor="ada", run_id="origin")
        await house.runtime.drive(run)
        (question,) = await house.runtime.store.inquiries(root=run)
        with contextlib.suppress(InvalidInput, Refused):
            await house.runtime.post_answer(question.inquiry_id, verb, actor="ada", value=value, reason=reason)
        assert (await house.runtime.drive(run)).status in ("waiting", "ended")

    play(scenario)


@given(st.sampled_from(["asks", "once", "model"]), st.sampled_from(["approve", "edit", "reject", "respond", "cancel"]), finite)
def test_any_answer_to_a_loop_is_taken_or_refused_and_is_replayed(worker: str, verb: Any, value: Any) -> None:
    loop = Loop(*steps(f"a:{worker}"))
    if loop.working():
        loop.batch(loop.run.outstanding[loop.effect(RunWorker)].interrupted(loop.effect(RunWorker), "died"))
    elif loop.outstanding(AskModel):
        loop.replies("", ToolCall(call_id="1", tool="remove", arguments={"path": "x"}, gate="destructive"))
    with contextlib.suppress(Refused, IllegalTransition):
        loop.answers(verb, value)
    loop.assert_replays()


# -- snapshots -------------------------------------------------------------------------------------
def half_way() -> Agent:
    agent = Agent(plan("a b c", "a>b a>c"))
    agent.ends("a", {"x": 1})
    return agent


@given(st.data())
def test_a_snapshot_that_was_changed_is_ignored_or_still_one(data: st.DataObject) -> None:
    run = half_way().run
    snapshot = take_snapshot(run, "these")
    assert snapshot is not None
    at = data.draw(st.integers(0, len(snapshot.body) - 1))
    piece = data.draw(st.sampled_from(["", "0", '"', "{", "}", "null", "[]", "x", ",", "\x00"]) | st.text(max_size=3))
    body = snapshot.body[:at] + piece + snapshot.body[at + data.draw(st.integers(0, 20)) :]
    restore_snapshot(run.machine, msgspec.structs.replace(snapshot, body=body), "these")  # raises nothing


@pytest.mark.parametrize("body", ["", "[]", "{" * 5000, '{"state": "START", "memory": ' + "[" * 5000, "\x00"])
def test_an_invalid_snapshot_is_ignored(body: str) -> None:
    run = half_way().run
    assert restore_snapshot(run.machine, Snapshot(run_id=run.id, seq=2, code_version="these", body=body), "these") is None


@pytest.mark.parametrize("body", ["[" * 5000, '{"type": "answered", "effect_id": "r:1.0", "verb": "edit", "value": ' + "[" * 5000])
def test_a_command_nested_too_deep_is_refused_by_name(body: str) -> None:
    with pytest.raises(ValueError, match="cannot read answered"):
        packer(CONSTELLATION_AGENT).event("answered", body)


# -- conditions ------------------------------------------------------------------------------------
CEL = [
    "x",
    "y",
    "result",
    "status",
    'tasks["a"]',
    "tasks.a.result",
    "1",
    "2.5",
    "'s'",
    "[1, 2]",
    "{'k': 1}",
    "true",
    "null",
    "size(x)",
    "x.all(i, i > 1)",
    "x.map(i, x.map(j, j))",
    "x.exists(i, i == y)",
    "has(x.y)",
    "x[0]",
    "timestamp('2020-01-01T00:00:00Z')",
    "duration('1s')",
    "x.matches('(a*)*b')",
    "int(x)",
    "string(x)",
    "dyn(x)",
    "type(x)",
    "b'\\xff'",
    "9223372036854775807",
    "-x",
    "!x",
    "x in y",
    "x ? y : x",
]
operators = st.sampled_from([" + ", " * ", " / ", " % ", " > ", " == ", " && ", " || ", " in ", " - ", " ? x : ", ".", ", "])
conditions = st.recursive(
    st.sampled_from(CEL),
    lambda inner: st.tuples(inner, operators, inner).map("".join) | inner.map("({})".format) | inner.map("[{0}, {0}]".format),
    max_leaves=12,
)
BOMB = "x"
for name in "abcdef":
    BOMB = f"x.map({name}, {BOMB})"


@settings(max_examples=150)
@example(f"size({BOMB}) > 0", list(range(40)))
@example("x.all(a, x.all(b, x.all(c, x.all(d, x.all(e, a + b + c + d + e >= 0)))))", list(range(60)))
@example("x.matches('(a*)*b')", "a" * 100_000)
@example("(" * 500 + "x" + ")" * 400, 1)
@example("!" * (MAX_LENGTH - 1) + "x", True)  # noqa: FBT003
@example("x" + "+x" * 400, "a" * 10_000)
@example("(x+x+x+x+x+x).size() > 3", "a" * 1_000_000)
@example("x.exists(i, (x+x).size() < 0)", list(range(9_000)))
@example("x.map(i, x.map(j, x)).size() > 3", list(range(2_000)))
@example("x.exists(i, x.exists(j, x != x || x != x || x != x))", [{"k": 1}] * 1_000)
@example("x.map(i, x.map(j, string(string(x[0])))).size() > 3", ["a" * 40_000] * 2)
@given(conditions | st.text(max_size=30), finite)
def test_a_condition_is_answered_or_refused_in_bounded_time_and_memory(text: str, value: Any) -> None:
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(InvalidInput):
        met, why = Condition(text).evaluate({"x": value, "y": value}, "COMPLETED", {"a": {"status": "COMPLETED", "result": value}})
        assert met is not bool(why)
        assert len(str(why)) < MAX_LENGTH + 500
    assert time.monotonic() - begun < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB
