"""Contract of apps: the embedded one and the client of a server have the same methods, which do the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import asterism
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.python.app import App
from asterism.devices.model.attempt import TaskError
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.guards import DeviceGuards, SkillGuard
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import AsterismError, InvalidInput, Refused, RunNotFound, StoreUnavailable
from asterism.service.remote_app import RemoteApp
from asterism.views.delta import Delta, fold, is_story
from tests.support.api_server import ASKS, Server, failing, plan, serving

AnyApp = App | RemoteApp
Scenario = Callable[[AnyApp, Server], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture(params=["embedded", "remote"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    def played(scenario: Scenario, **more: Any) -> None:
        async def whole() -> None:
            async with asyncio.timeout(60), serving(tmp_path, **more) as server:
                if request.param == "embedded":
                    await scenario(server.runtime, server)
                    return
                async with asterism.connect(server.url, token=await server.token("admin")) as app:
                    await scenario(app, server)

        asyncio.run(whole())

    return played


def document(given: dict[str, Any]) -> Any:
    return parse_plan(given)


def test_a_goal_is_run_to_its_result(play: Play) -> None:
    async def scenario(app: AnyApp, _: Server) -> None:
        done = await app.run(document(plan("a", "b", params={"n": {"type": "int"}})), asterism.RunOptions(max_asks=5), n=3)
        assert (done.outcome, done.results) == ("finished", {"a": {"done": "a"}, "b": {"done": "b"}})
        assert done.raise_for_outcome() is done
        row = await app.describe(done.run_id)
        assert (row.status, row.outcome, row.run_id, row.machine) == ("ended", "finished", done.run_id, "constellation agent")
        assert [it.run_id for it in await app.runs(limit=5, status="ended", roots_only=True)] == [done.run_id]
        assert await app.runs(status="waiting") == []

    play(scenario)


def test_a_failure_has_its_errors(play: Play) -> None:
    async def scenario(app: AnyApp, _: Server) -> None:
        done = await app.run(document(plan("a", "b")))
        assert (done.outcome, done.errors["a"].message, set(done.results)) == ("failed", "it broke", set())
        assert done.reason
        with pytest.raises(asterism.RunFailed):
            done.raise_for_outcome()

    play(scenario, work=failing)


def test_progress_folds_to_the_state_of_the_run(play: Play) -> None:
    async def scenario(app: AnyApp, server: Server) -> None:
        handle = await app.start(document(plan("a", "b", "c")))
        deltas: list[Delta] = [delta async for delta in handle.progress()]
        row = await app.describe(handle.run_id)
        assert ([it.seq for it in deltas], row.status) == (list(range(1, row.seq + 1)), "ended")
        rows = {name: row for name, row in fold(deltas).items() if not is_story(name)}
        async with asterism.connect(server.url, token=await server.token("viewer")) as remote:
            assert rows == await remote.run_of(handle.run_id).rows()

    play(scenario)


def test_a_run_waits_for_an_answer_and_goes_on(play: Play) -> None:
    async def scenario(app: AnyApp, _: Server) -> None:
        handle = await app.start(document(ASKS))
        waiting = await handle.result()
        assert (waiting.outcome, [it.prompt for it in waiting.inquiries]) == ("waiting", [(await handle.inquiries())[0].prompt])
        assert await app.inquiries() == await app.inquiries(root=handle.run_id) == list(waiting.inquiries)
        deltas = [delta async for delta in handle.progress()]
        assert deltas[-1].seq == (await app.describe(handle.run_id)).seq
        with pytest.raises(InvalidInput, match="accepts"):
            await handle.answer("respond", value=1)
        await handle.answer("approve", reason="fine")
        assert (await handle.result()).outcome == "finished"
        with pytest.raises((Refused, InvalidInput)):
            await handle.answer("approve", inquiry_id=waiting.inquiries[0].inquiry_id)
        with pytest.raises(InvalidInput, match="has 0 open questions"):
            await handle.answer("approve")

    play(scenario)


def test_an_edit_and_a_result_that_do_not_fit_are_refused_and_the_question_stays_open(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTERISM_SECRET_SHOP_TOKEN", "a-long-token")

    async def scenario(app: AnyApp, _: Server) -> None:
        task = {"task_id": "publish", "skill": "publish", "inputs": {"prices": [1], "token": "${secret.SHOP_TOKEN}"}}
        handle = await app.start(document(plan({**task, "requires_approval": True})))
        await handle.result()
        for value, told in (
            ({"prices": [1, "2"]}, r"publish\.inputs\.prices\[1\]: publish takes number, not str"),
            ({"token": "in clear"}, "argument token is a secret, and answers are journaled"),
        ):
            with pytest.raises(InvalidInput, match=told):
                await handle.answer("edit", value=value)
        (asked,) = await handle.inquiries()
        assert asked.answer == ""
        await handle.answer("edit", value={"prices": [2.5], "token": "${secret.SHOP_TOKEN}"})
        interrupted = await handle.result()
        assert "may have finished" in interrupted.inquiries[0].prompt
        with pytest.raises(InvalidInput, match=r"publish\.result: publish returns integer, not str"):
            await handle.answer("respond", value="six")
        await handle.answer("respond", value=6)
        assert (await handle.result()).results == {"publish": 6}

    async def interrupting(_: object) -> TaskError:
        return TaskError(code="interrupted", message="it was cut")

    numbers = {"type": "array", "items": {"type": "number"}}
    parameters = {"type": "object", "properties": {"prices": numbers, "token": {"type": "string"}}}
    publish = Skill(name="publish", parameters=parameters, output={"type": "integer"})
    guards = DeviceGuards(every=SkillGuard(secrets=("SHOP_TOKEN",)))  # else no client of a server may use it
    play(scenario, work=interrupting, fleet=[AgentProfile(device_id="d", skills=(publish,), guards=guards)])


def test_a_run_is_paused_resumed_cancelled_and_forked(play: Play) -> None:
    async def scenario(app: AnyApp, _: Server) -> None:
        handle = await app.start(document(ASKS))
        await handle.result()
        await handle.pause("lunch")
        assert (await handle.result()).outcome == "paused"
        await handle.resume()
        assert (await handle.result()).outcome == "waiting"
        other = await handle.fork(2)
        assert other.run_id != handle.run_id
        await handle.cancel("enough")
        assert (await handle.result()).outcome == "cancelled"
        with pytest.raises(Refused, match="has ended already"):
            await handle.pause()
        assert (await other.result()).outcome == "waiting"
        with pytest.raises(InvalidInput, match="no entry"):
            await handle.fork(10_000)

    play(scenario)


def test_failed_tasks_are_retried_in_a_new_run(play: Play) -> None:
    async def scenario(app: AnyApp, _: Server) -> None:
        handle = await app.start(document(plan("a")))
        await handle.result()
        again = await handle.retry("a")
        assert (again.run_id != handle.run_id, (await again.result()).outcome) == (True, "failed")
        with pytest.raises(AsterismError):
            await handle.retry("unknown")

    play(scenario, work=failing)


def test_a_run_that_does_not_exist_is_not_found(play: Play) -> None:
    async def scenario(app: AnyApp, _: Server) -> None:
        with pytest.raises(RunNotFound, match="there is no run"):
            await app.describe("unknown")
        with pytest.raises(RunNotFound):
            await app.run_of("unknown").result()
        with pytest.raises(AsterismError, match="no skill"):
            await app.start(document(plan({"task_id": "a", "skill": "unknown"})))
        with pytest.raises(InvalidInput, match="options are RunOptions"):
            await app.start("do it", {"max_asks": 1})  # type: ignore[arg-type]

    play(scenario)


def test_a_client_of_a_server_says_what_is_wrong_with_its_url_or_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.service.http_connection.RETRIES", Backoff(0.001, 5.0))

    async def scenario() -> None:
        async with serving(tmp_path) as server:
            url = server.url
            async with asterism.connect(url, token="ast_wrong") as app:  # noqa: S106 - it is wrong
                with pytest.raises(InvalidInput, match="needs a token"):
                    await app.runs()
            async with asterism.connect(url, token=await server.token("viewer")) as app:
                with pytest.raises(InvalidInput, match="takes the permission submit"):
                    await app.start(document(plan("a")))
        async with asterism.connect(url, token="ast_wrong") as app:  # noqa: S106 - nobody answers
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await app.runs()
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                async for _ in app.follow({"x": 0}):
                    pass
        with pytest.raises(InvalidInput, match="needs a token"):
            asterism.connect(url)
        with pytest.raises(InvalidInput, match="a token is for the URL"):
            asterism.connect("runs.db", token="x")  # noqa: S106 - refused

    asyncio.run(scenario())
