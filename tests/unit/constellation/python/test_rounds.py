"""Submitting a goal, and the next round of its session; nothing is driven here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import msgspec
import pytest

from asterism.constellation.form import FORM
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.python import Goal, Round, RunOptions, follow, submit
from asterism.constellation.python.goal import goal_of, rehearse
from asterism.constellation.python.resumption import devices_left, fleet_file_of, model_of
from asterism.engine.kernel.guards import Guards
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.form import by_name
from asterism.errors import InvalidInput
from asterism.stores.memory import MemoryDatabase, MemoryStore
from asterism.words.planner.planner import OfflinePlanner
from tests.support.constellation_harness import FLEET
from tests.support.constellations import plan
from tests.support.ferry_machine import FERRY, Depart, registration

MODEL = ModelChoice(model="replay:x")
FLEET_FILE = str(Path(__file__).with_name("fleet.toml"))


def within(scene: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        forms = by_name([FORM, registration()])
        fleet = {profile.device_id: profile for profile in FLEET}
        await scene(Client(MemoryStore(MemoryDatabase()), SystemClock(), forms, fleet=fleet, fleet_file=FLEET_FILE))

    asyncio.run(main())


def test_a_request_is_submitted_with_the_fleet_of_the_client_and_without_a_plan() -> None:
    async def scene(client: Client) -> None:
        run = await submit(client, "do a", options=RunOptions(hold="all"), model=MODEL, actor="ann")
        row, memory = await client.describe(run), (await client.load(run)).memory
        assert (row.title, row.actor, row.session, row.state) == ("do a", "ann", run, "START")
        assert (memory.request, memory.options.hold, set(memory.fleet)) == ("do a", "all", set(client.fleet))
        first = await client.first_event(row)
        assert first is not None
        assert (first.needs().fleet_file, fleet_file_of(first, row), model_of(first)) == (FLEET_FILE, Path(FLEET_FILE), MODEL)

    within(scene)


def test_a_plan_file_is_submitted_as_a_whole_or_rejected(tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan("a")), encoding="utf-8")
        assert set((await client.load(await submit(client, path))).memory.constellation.tasks) == {"a"}
        stranger = Client(client.store, client.clock, client.forms)
        with pytest.raises(EditRefused):
            await submit(stranger, path)
        with pytest.raises(InvalidInput, match="there is no such plan file"):
            await submit(client, "nothing.json")
        assert len(await client.runs()) == 1

    within(scene)


def test_a_round_inherits_options_model_and_fleet() -> None:
    async def scene(client: Client) -> None:
        before = Round(session="s", previous_rounds=({"request": "x"},), options=RunOptions(replan="always"), model=MODEL)
        run = await submit(client, Goal(title="t", request="do b"), after=before)
        memory = (await client.load(run)).memory
        assert ((await client.describe(run)).session, memory.options.replan) == ("s", "always")
        assert [it["request"] for it in memory.previous_rounds] == ["x"]

    within(scene)


def test_only_an_ended_constellation_run_can_be_followed() -> None:
    async def scene(client: Client) -> None:
        run = await submit(client, "do a")
        with pytest.raises(InvalidInput, match="has not ended"):
            await follow(client, run, "do b")
        ferry = await client.submit(FERRY, Depart(), title="over", actor="ann")
        with pytest.raises(InvalidInput, match="this works only for constellations"):
            await follow(client, ferry, "do b")

    within(scene)


def test_a_goal_is_rehearsed_on_a_fleet_without_writing(tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan("a")), encoding="utf-8")
        goal = goal_of(path)
        document, constellation = await rehearse(goal, client.fleet, OfflinePlanner())
        assert (document, set(constellation.tasks)) == (goal.plan, {"a"})
        with pytest.raises(InvalidInput, match="the plan cannot be run on this fleet"):
            await rehearse(goal, {}, OfflinePlanner())
        with pytest.raises(InvalidInput, match="the fleet has no devices; add one first"):
            await rehearse(msgspec.structs.replace(goal, plan=None), {}, OfflinePlanner())
        assert await client.runs() == []

    within(scene)


def test_a_follow_up_keeps_the_guards_of_the_plan_before_it() -> None:
    """A1: what a plan has guarded, and the approval of plans, hold in the next round, too."""

    async def scene(client: Client) -> None:
        before = Round(guards=Guards(plan_skills=("once",), concerning=("once",)), options=RunOptions(approve_plan=True))
        goal = goal_of(parse_plan({"tasks": [{"task_id": "a", "device": "s", "skill": "once", "inputs": {"x": 1}}]}))
        memory = (await client.load(await submit(client, goal, after=before, options=RunOptions(hold="all")))).memory
        assert memory.options.approve_plan
        assert memory.guards.plan_skills == ("once",)

    within(scene)


def test_a_follow_up_accepts_failures_only_if_it_says_so() -> None:
    """I1: that failures are accepted belongs to one submission."""

    async def scene(client: Client) -> None:
        before = Round(options=RunOptions(accept_failed=True, hold="all"))
        for given, accepted in ((None, False), (RunOptions(accept_failed=True), True)):
            memory = (await client.load(await submit(client, "do b", after=before, options=given))).memory
            assert (memory.options.accept_failed, memory.options.hold == "all") == (accepted, given is None)

    within(scene)


def test_a_run_needs_the_devices_of_its_remaining_tasks_when_it_is_resumed() -> None:
    """G5: `resume` and `answer` waited for every device of the fleet."""

    async def scene(client: Client) -> None:
        async def left(goal: Goal | str, model: ModelChoice | None = None) -> Collection[str] | None:
            return await devices_left(client, await client.describe(await submit(client, goal, model=model)))

        local = Goal(title="t", request="t", plan=parse_plan({"tasks": [{"task_id": "a", "device": "s", "skill": "once"}]}))
        assert await left(local) == {"s"}
        assert await left(local, MODEL) is None
        assert await left("do a") is None
        nested = {"task_id": "n", "constellation": {"tasks": [{"task_id": "a", "device": "s", "skill": "once"}]}}
        assert await left(Goal(title="t", request="t", plan=parse_plan({"tasks": [nested]}))) is None

    within(scene)
