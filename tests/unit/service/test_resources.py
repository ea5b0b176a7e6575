"""The resources of the API over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import asterism
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.machine import kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL, ALL_BUT_LOCAL, LOWEST
from asterism.engine.ports.store import Commit
from asterism.service.api.commands import verdict_within
from asterism.service.api.runs import origin_of
from asterism.service.remote_app import open_remote
from asterism.views.delta import Delta, fold, is_story
from tests.support.api_server import ASKS, DRIVE_S, Server, approval_of, failing, plan, serving

Scenario = Callable[[Server], Awaitable[None]]


def play(folder: Path, scenario: Scenario, **more: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), serving(folder, **more) as server:
            await scenario(server)

    asyncio.run(whole())


def test_a_run_is_submitted_found_and_read_to_its_end(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator", name="ada")
        made = await http.post("/api/runs", json={"plan": plan("a", "b"), "title": "Two tasks"})
        assert made.status_code == 201, made.text
        run_id = made.json()["run_id"]
        assert await server.ended(run_id) == "finished"
        details = (await http.get(f"/api/runs/{run_id}")).json()
        assert (details["run"]["outcome"], details["run"]["actor"], details["run"]["title"]) == ("finished", "ada@operator", "Two tasks")
        assert [it["run_id"] for it in details["tree"]] == [run_id]
        view = (await http.get(f"/api/runs/{run_id}/view")).json()
        of_kind = (await http.get(f"/api/runs/{run_id}/view", params={"kind": "run"})).json()
        assert of_kind == {**view, "rows": {"run": view["rows"]["run"]}}
        assert (view["seq"], view["rows"]["task:b"]["status"]) == (details["run"]["seq"], "COMPLETED")
        entry = (await http.get(f"/api/runs/{run_id}/entries/1")).json()
        assert (entry["kind"], entry["body"]["event"]["working_directory"]) == ("constellation_submitted", str(Path.cwd()))
        assert (await http.get(f"/api/runs/{run_id}/entries/999")).status_code == 404
        devices = (await http.get("/api/devices")).json()["devices"]
        assert [(it["device_id"], it["skills"][0]["name"]) for it in devices] == [("d", "work")]
        machines = (await http.get("/api/machines")).json()["machines"]
        assert {it["name"] for it in machines} == {"constellation agent", "orchestration loop", "flow agent"}
        (agent,) = [it for it in machines if it["submits"]]
        assert (agent["initial"], agent["ends"], ["START", "CONTINUE"] in agent["moves"]) == ("START", ["FINISH", "FAIL"], True)
        assert {"event": "batch_ended", "states": ["CONTINUE"], "to": ["CONTINUE", "FAIL", "FINISH"], "stays": False} in agent["rows"]

    play(tmp_path, scenario)


def test_the_journal_has_the_permissions_of_the_token_that_submits_and_answers(tmp_path: Path) -> None:
    """A6: a move sees who sends a command, over HTTP those of the token."""

    async def scenario(server: Server) -> None:
        ada, bob = await server.client("operator", name="ada"), await server.client("admin", name="bob")
        run_id = (await ada.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        asked = await server.waiting(run_id)
        await ada.post(f"/api/runs/{run_id}/commands", json={"command": "pause"})
        await ada.post(f"/api/runs/{run_id}/commands", json={"command": "unpause"})
        await bob.post(f"/api/inquiries/{asked}/answer", json=await approval_of(bob, asked))
        await server.ended(run_id)
        entries = [packer(CONSTELLATION_AGENT).unpack(it) for it in await server.store.records(run_id)]
        sent = {(it.actor, kind_of(it.event)): it.permissions for it in entries if it.permissions != LOWEST}
        operator = ALL[:4]
        assert sent == {
            ("ada@operator", "constellation_submitted"): operator,
            ("ada@operator", "pause"): operator,
            ("ada@operator", "unpause"): operator,
            ("bob@admin", "answered"): ALL_BUT_LOCAL,
        }

    play(tmp_path, scenario)


def test_runs_are_searched_page_by_page(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client()
        ids = [(await http.post("/api/runs", json={"plan": ASKS, "title": f"Run {number % 2}"})).json()["run_id"] for number in range(5)]
        page: dict[str, Any] = {"next": ""}
        found = []
        while page["next"] is not None:
            page = (await http.get("/api/runs", params={"q": "run 1", "limit": 1, "after": page["next"]})).json()
            found += [it["run_id"] for it in page["runs"]]
        assert found == [ids[3], ids[1]]
        assert (await http.get("/api/runs", params={"status": "ended"})).json() == {"runs": [], "next": None}
        assert (await http.get("/api/runs", params={"after": "x"})).status_code == 422

    play(tmp_path, scenario)


def test_the_same_idempotency_key_is_the_same_run(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http, other = await server.client(), await server.client()
        body = {"plan": plan("a", params={"n": {"type": "int", "default": 3}}), "params": {"n": 4}}
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(http.post("/api/runs", json=body, headers={"Idempotency-Key": "one"})) for _ in range(5)]
        answers = [task.result() for task in sent]
        assert sorted(it.status_code for it in answers) == [200, 200, 200, 200, 201]
        assert len({it.json()["run_id"] for it in answers}) == 1
        for changed in ({**body, "params": {"n": 5}}, {**body, "title": "x"}, {**body, "options": {"max_asks": 3}}, {"plan": plan("b")}):
            refused = await http.post("/api/runs", json=changed, headers={"Idempotency-Key": "one"})
            assert (refused.status_code, "another body" in refused.json()["detail"]) == (422, True)
        theirs = await other.post("/api/runs", json=body, headers={"Idempotency-Key": "one"})
        assert theirs.status_code == 201
        assert len((await http.get("/api/runs")).json()["runs"]) == 2

    play(tmp_path, scenario)


def test_nothing_that_is_submitted_names_a_file_or_a_function_of_the_server(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(plan("a")))

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        asking_a_file = plan("a", params={"f": {"type": "file"}})
        nested = plan(
            {"task_id": "a", "device": "", "skill": "", "constellation": plan({"task_id": "b", "device": "here", "skill": "os:system"})}
        )
        refused: list[dict[str, Any]] = [
            {"plan": asking_a_file, "params": {"f": str(secret)}},
            {"plan": plan({"task_id": "a", "device": "here", "skill": "os:system"})},
            {"plan": nested},
            {"request": str(secret), "plan": plan("a")},
            {},
            {"request": "a", "params": {"n": 1}},
            {"plan": plan("a"), "options": {"max_asks": 0}},
            {"plan": plan("a"), "fleet_file": "x"},
            {"plan": plan({"task_id": "a", "skill": "unknown"})},
        ]
        for body in refused:
            answer = await http.post("/api/runs", json=body)
            assert answer.status_code in (409, 422), (body, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
        request = await http.post("/api/runs", json={"request": str(secret)})
        assert request.status_code == 201  # words, whatever they look like
        assert (await server.store.records(request.json()["run_id"]))[0].body.count("task_id") == 0

    play(tmp_path, scenario)


def test_commands_return_their_verdict_and_a_repeated_key_the_same_one(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator", name="ada")
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        await server.waiting(run_id)
        path, key = f"/api/runs/{run_id}/commands", {"Idempotency-Key": "k1"}
        paused = await http.post(path, json={"command": "pause", "reason": "lunch"}, headers=key)
        assert (paused.status_code, paused.json()["verdict"]) == (200, "accepted")
        seq = (await server.store.run(run_id)).seq
        again = await http.post(path, json={"command": "pause", "reason": "lunch"}, headers=key)
        assert (again.status_code, (await server.store.run(run_id)).seq) == (200, seq)
        assert (await http.post(path, json={"command": "cancel"}, headers=key)).status_code == 422
        refused = await http.post(path, json={"command": "edit", "actions": [{"tool": "remove_task", "parameters": {"task_id": "x"}}]})
        assert (refused.status_code, refused.json()["title"]) == (409, "Conflict")
        assert "index" not in refused.json()
        added = {"tool": "add_task", "parameters": {"task_id": "b", "name": "b", "device": "d", "skill": "work"}}
        wrong = {"tool": "remove_task", "parameters": {"task_id": "x"}}
        refused = await http.post(path, json={"command": "edit", "actions": [added, wrong]})
        assert (refused.status_code, refused.json()["index"]) == (409, 1)
        assert refused.json()["detail"].startswith("actions[1] x: ")
        assert (await http.post(path, json={"command": "unknown"})).status_code == 422
        assert (await http.post(path, json={"command": "cancel", "reason": "enough"})).status_code == 200
        assert await server.ended(run_id) == "cancelled"
        ended = await http.post(path, json={"command": "pause"})
        assert (ended.status_code, "has ended already (cancelled)" in ended.json()["detail"]) == (409, True)
        assert (await http.post(path, json={"command": "pause", "reason": "lunch"}, headers=key)).status_code == 200
        actors = {it.actor for it in await server.store.records(run_id)}
        assert "ada@operator" in actors

    play(tmp_path, scenario)


def test_a_server_that_stops_waits_for_no_verdict(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("asterism.service.api.commands.VERDICT_S", 1e9)

    async def scenario(server: Server) -> None:
        server.context.is_ready = lambda: False
        assert await verdict_within(server.context, "r", "k") == ""

    play(tmp_path, scenario, drives=False)


def test_a_command_that_nobody_takes_is_pending(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("asterism.service.api.commands.VERDICT_S", 0.1)

    async def scenario(server: Server) -> None:
        http = await server.client()
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        sent = await http.post(f"/api/runs/{run_id}/commands", json={"command": "cancel"}, headers={"Idempotency-Key": "k"})
        assert (sent.status_code, sent.json()) == (202, {"verdict": "pending", "run_id": run_id, "key": "k"})

    play(tmp_path, scenario, drives=False)


def test_a_run_is_forked_and_its_failed_tasks_are_retried_once_for_a_key(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": plan("a")})).json()["run_id"]
        assert await server.ended(run_id) == "failed"
        path = f"/api/runs/{run_id}/commands"
        for body in ({"command": "retry_failed"}, {"command": "fork", "at": 1}):
            made = [(await http.post(path, json=body, headers={"Idempotency-Key": "k"})).json() for _ in range(2)]
            assert made[0] == made[1]
            assert made[0]["run_id"] != run_id
            assert await server.ended(made[0]["run_id"]) == "failed"
        assert (await http.post(path, json={"command": "fork", "at": 10**6})).status_code == 422
        for at in (True, "1"):
            assert (await http.post(path, json={"command": "fork", "at": at})).status_code == 422
        assert len((await http.get("/api/runs")).json()["runs"]) == 3

    play(tmp_path, scenario, work=failing)


def test_requests_of_one_key_at_the_same_instant_make_one_copy_and_have_one_verdict(tmp_path: Path) -> None:
    """H10: the others were refused, because the copy "already exists"."""

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": plan("a")})).json()["run_id"]
        await server.ended(run_id)
        for body in ({"command": "retry_failed"}, {"command": "fork", "at": 1}):
            send = [http.post(f"/api/runs/{run_id}/commands", json=body, headers={"Idempotency-Key": "k"}) for _ in range(8)]
            answers = await asyncio.gather(*send)
            assert {(it.status_code, it.text) for it in answers} == {(200, answers[0].text)}

    play(tmp_path, scenario, work=failing)


def test_a_copy_names_the_run_and_the_entry_that_it_was_made_from_and_whether_it_is_a_retry(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": plan("a")})).json()["run_id"]
        await server.ended(run_id)

        async def copy(of: str, body: dict[str, Any]) -> str:
            made = str((await http.post(f"/api/runs/{of}/commands", json=body)).json()["run_id"])
            await server.ended(made)
            return made

        async def origin(of: str) -> Any:
            found = (await http.get(f"/api/runs/{of}")).json()["origin"]
            return found and [found[name] for name in ("run_id", "seq", "is_retry", "created_at")]

        created_at = (await http.get(f"/api/runs/{run_id}")).json()["run"]["created_at"]
        retry = await copy(run_id, {"command": "retry_failed"})
        fork = await copy(retry, {"command": "fork", "at": 2})
        assert await origin(run_id) is None
        [of, seq, *others] = await origin(retry)
        assert (of, seq > 1, others) == (run_id, True, [True, created_at])
        assert (await origin(fork))[:3] == [retry, 2, False]
        whole = await copy(retry, {"command": "fork", "at": seq + 2})  # the copy has the entries of another copy
        assert (await origin(whole))[:3] == [retry, seq + 2, False]
        assert await server.store.prune(limit=1) == 1  # the oldest is the first origin
        assert await origin(retry) == [run_id, seq, True, 0]
        row = await server.store.run(retry)
        assert await server.store.prune() == 3
        with pytest.raises(asterism.RunNotFound):  # D7: deleted after its row was read
            await origin_of(server.store, row)

    play(tmp_path, scenario, work=failing)


def test_the_retry_of_a_cancelled_run_is_a_retry_also_if_none_of_its_tasks_had_failed(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        await server.waiting(run_id)
        await http.post(f"/api/runs/{run_id}/commands", json={"command": "cancel"})
        assert await server.ended(run_id) == "cancelled"
        retry = (await http.post(f"/api/runs/{run_id}/commands", json={"command": "retry_failed"})).json()["run_id"]
        entries = (await http.get(f"/api/runs/{retry}/entries?limit=1000")).json()["entries"]
        assert "retry" not in {it["kind"] for it in entries}
        assert (await http.get(f"/api/runs/{retry}")).json()["origin"]["is_retry"]

    play(tmp_path, scenario)


def test_a_question_is_answered_once_and_the_second_answer_learns_who_won(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada, bob = await server.client("operator,approver", name="ada"), await server.client("operator,approver", name="bob")
        run_id = (await ada.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        asked = await server.waiting(run_id)
        (listed,) = (await ada.get("/api/inquiries", params={"run": run_id})).json()["inquiries"]
        assert (listed["inquiry_id"], listed["subject"]["task_id"]) == (asked, "deploy")
        path = f"/api/inquiries/{asked}"
        assert (await ada.post(f"{path}/answer", json={"verb": "respond", "value": 1})).status_code == 422
        unread = await ada.post(f"{path}/answer", json={"verb": "approve"})
        assert (unread.status_code, "digest" in unread.text) == (422, True)
        other = {"verb": "approve", "digest": "0" * 64}
        assert (await ada.post(f"{path}/answer", json=other)).status_code == 409
        assert listed["digest"] == (await ada.get(path)).json()["digest"]
        won = await ada.post(f"{path}/answer", json=await approval_of(ada, asked))
        assert (won.status_code, won.json()["verdict"]) == (200, "accepted")
        late = await bob.post(f"{path}/answer", json={"verb": "reject"})
        assert (late.status_code, late.json()["answer"]) == (409, "approve by ada@approver")
        assert (await bob.get(path)).json()["answer"] == "approve by ada@approver"
        assert await server.ended(run_id) == "finished"
        for unknown in ("x", "x:1.0", f"{run_id}:99.0", "%00", "a:b:c"):
            assert (await ada.get(f"/api/inquiries/{unknown}")).status_code == 404
        assert (await ada.get("/api/inquiries")).json() == {"inquiries": [], "next": None}

    play(tmp_path, scenario)


def test_h7_the_same_answer_under_the_same_key_is_one_answer_also_after_it_has_won(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http, other = await server.client("admin"), await server.client("admin")
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        asked = await server.waiting(run_id)
        path, headers, yes = f"/api/inquiries/{asked}/answer", {"Idempotency-Key": "one"}, await approval_of(http, asked)
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(http.post(path, json=yes, headers=headers)) for _ in range(5)]
        await server.ended(run_id)
        again = await http.post(path, json=yes, headers=headers)
        assert {(it.status_code, it.text) for it in (*(each.result() for each in sent), again)} == {(200, again.text)}
        assert again.json() == {"verdict": "accepted", "run_id": run_id, "key": "one"}
        assert (await http.post(path, json={"verb": "reject"}, headers=headers)).status_code == 422
        theirs = await other.post(path, json=yes, headers=headers)  # the key of another token
        assert theirs.status_code == 409
        records = await server.store.records(run_id)
        assert [it.kind for it in records].count("answered") == 1

    play(tmp_path, scenario)


def test_h7_every_answer_that_loses_a_race_learns_which_one_won(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        clients = [await server.client("admin", name=f"p{number}") for number in range(8)]
        for keyed in (False, True):
            run_id = (await clients[0].post("/api/runs", json={"plan": ASKS})).json()["run_id"]
            asked = await server.waiting(run_id)
            path, yes = f"/api/inquiries/{asked}/answer", await approval_of(clients[0], asked)
            async with asyncio.TaskGroup() as group:
                sent = [group.create_task(it.post(path, json=yes, headers={"Idempotency-Key": "k"} if keyed else {})) for it in clients]
            answers = [it.result() for it in sent]
            won = next(number for number, it in enumerate(answers) if it.status_code == 200)
            assert {it.json()["answer"] for it in answers if it.status_code == 409} == {f"approve by p{won}@admin"}
            assert sorted(it.status_code for it in answers) == [200] + [409] * 7

    play(tmp_path, scenario)


def test_an_answer_to_a_withdrawn_question_is_gone(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator,approver")
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        asked = await server.waiting(run_id)
        await http.post(f"/api/runs/{run_id}/commands", json={"command": "cancel"})
        await server.ended(run_id)
        late = await http.post(f"/api/inquiries/{asked}/answer", json=await approval_of(http, asked))
        assert (late.status_code, late.json()["open"]) == (410, [])

    play(tmp_path, scenario)


def test_an_answer_that_a_cancel_overtakes_is_gone_before_the_question_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: it was 409 without ``open`` until the run had withdrawn the question."""

    async def scenario(server: Server) -> None:
        http = await server.client("operator,approver")
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        await server.runtime.driver.drive(run_id)
        asked, answered, append = await server.waiting(run_id), asyncio.Event(), server.store.append

        async def held(commit: Commit) -> None:
            if commit.closed:
                await answered.wait()
            await append(commit)

        monkeypatch.setattr(server.store, "append", held)
        async with asyncio.TaskGroup() as group:
            group.create_task(http.post(f"/api/runs/{run_id}/commands", json={"command": "cancel"}))
            while not await server.store.inbox([run_id]):  # noqa: ASYNC110 - written by the server
                await asyncio.sleep(DRIVE_S)
            late = group.create_task(http.post(f"/api/inquiries/{asked}/answer", json=await approval_of(http, asked)))
            while len(await server.store.inbox([run_id])) == 1:  # noqa: ASYNC110 - as above
                await asyncio.sleep(DRIVE_S)
            _ = server.runtime.driver.start(run_id)
            await late
            answered.set()
        assert (late.result().status_code, late.result().json().get("open")) == (410, []), late.result().text

    play(tmp_path, scenario, drives=False)


def test_the_deltas_fold_to_the_view_at_every_seq(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client()
        run_id = (await http.post("/api/runs", json={"plan": plan("a", "b", "c")})).json()["run_id"]
        await server.ended(run_id)
        answer = await http.get(f"/api/runs/{run_id}/deltas")
        deltas = [Delta(**json.loads(line)) for line in answer.text.splitlines()]
        rows: dict[str, dict[str, Any]] = {}
        for delta in deltas:
            fold([delta], rows)
            view = (await http.get(f"/api/runs/{run_id}/view", params={"at": delta.seq})).json()
            assert view["seq"] == delta.seq
            assert {name: row for name, row in rows.items() if not is_story(name)} == view["rows"]
        later = await http.get(f"/api/runs/{run_id}/deltas", params={"after": deltas[3].seq})
        assert later.text == "".join(f"{line}\n" for line in answer.text.splitlines()[4:])

    play(tmp_path, scenario)


def test_a_plan_is_checked_without_a_run(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        checked = await http.post("/api/plans/check", json={"plan": plan("a", "b")})
        assert (checked.status_code, len(checked.json()["plan"]["tasks"])) == (200, 2)
        wrong = await http.post("/api/plans/check", json={"plan": plan({"task_id": "a", "skill": "wurk"})})
        assert (wrong.status_code, "work" in wrong.json()["detail"]) == (422, True)
        assert (await http.get("/api/runs")).json()["runs"] == []

    play(tmp_path, scenario)


def test_health_needs_no_token_and_metrics_one_without_a_tenant(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody = await server.client(None)
        assert [(await nobody.get(path)).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 401]
        assert (await (await server.client("viewer", "north")).get("/metrics")).status_code == 403
        metrics = await (await server.client("viewer")).get("/metrics")
        assert (metrics.status_code, metrics.headers["content-type"].startswith("text/plain")) == (200, True)
        server.context.is_ready = lambda: False
        assert (await nobody.get("/readyz")).json()["status"] == 503

    play(tmp_path, scenario)


def test_the_status_has_servers_and_work_and_needs_a_token_without_a_tenant(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        assert (await (await server.client("viewer", "north")).get("/api/status")).status_code == 403
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": ASKS, "title": "Asks"})).json()["run_id"]
        await server.waiting(run_id)
        await server.store.announce_server("home", server.url)
        async with asterism.connect(server.url, token=await server.token("viewer")) as app:
            while (found := await app.status()).work.counts != {"waiting": 1}:  # noqa: ASYNC110 - the driver releases it
                await asyncio.sleep(0.02)
        (process,) = found.processes
        assert (process.serves, process.fleet, process.url, process.version != "") == (True, "home", server.url, True)
        assert 0 < process.since <= found.at
        assert [row.run_id for row in found.runs["waiting"]] == [run_id]
        assert found.schedules == []

    play(tmp_path, scenario)


def test_h3_the_status_names_what_belongs_to_tenants_only_to_an_administrator_without_one(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        north, viewer, admin = await server.client("admin", "north"), await server.client("viewer"), await server.client("admin")
        theirs = (await north.post("/api/runs", json={"plan": ASKS, "title": "merger"})).json()["run_id"]
        await server.waiting(theirs)
        await north.post("/api/schedules", json={"name": "layoffs", "cron": "@daily", "plan": ASKS})
        while not (seen := (await admin.get("/api/status")).json())["runs"].get("waiting"):  # noqa: ASYNC110 - the driver may be of another process
            await asyncio.sleep(0.02)
        assert ([it["name"] for it in seen["schedules"]], seen["work"]["oldest"]["waiting"]) == (["layoffs"], [theirs])
        text = (await viewer.get("/api/status")).text
        assert not [word for word in ("merger", "layoffs", theirs, "north") if word in text]
        assert (await north.get("/api/status")).status_code == 403

    play(tmp_path, scenario)


def test_a_login_link_becomes_a_cookie_once(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada, browser = await server.client("operator,approver", name="ada"), await server.client(None)
        link = (await ada.post("/api/login-links")).json()["link"]
        logged_in = await browser.post("/api/login", json={"link": link})
        assert (logged_in.status_code, logged_in.json()["name"]) == (200, "ada")
        cookie = logged_in.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "max-age=43200", "path=/"))
        assert (await browser.get("/api/session")).json()["roles"] == ["operator", "approver"]
        assert (await browser.get("/api/runs")).status_code == 200
        origin = {"Origin": server.url}
        assert (await browser.post("/api/login", json={"link": link}, headers=origin)).status_code == 401
        assert (await browser.post("/api/runs", json={"plan": ASKS})).status_code == 403  # no Origin
        assert (await browser.post("/api/runs", json={"plan": ASKS}, headers=origin)).status_code == 201
        assert (await browser.delete("/api/session", headers=origin)).status_code == 204
        assert (await browser.get("/api/session", headers={"Cookie": logged_in.headers["set-cookie"].partition(";")[0]})).status_code == 401
        assert (await ada.get("/api/session")).status_code == 200

    play(tmp_path, scenario)


def test_a_method_that_a_path_lacks_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client()
        for path, methods in (("/api/runs", "GET, POST"), ("/api/session", "DELETE, GET"), ("/api/runs/x", "GET")):
            refused = await http.put(path)
            assert (refused.status_code, refused.headers["allow"], refused.json()["title"]) == (405, methods, "Method Not Allowed")

    play(tmp_path, scenario, drives=False)


def test_questions_are_listed_page_by_page_and_entries_alike(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client()
        runs = [(await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"] for _ in range(5)]
        asked = [await server.waiting(run_id) for run_id in runs]
        page: dict[str, Any] = {"next": ""}
        found = []
        while page["next"] is not None:
            page = (await http.get("/api/inquiries", params={"limit": 2, "after": page["next"]})).json()
            found += [it["inquiry_id"] for it in page["inquiries"]]
        assert sorted(found) == sorted(asked)
        assert (await http.get("/api/inquiries", params={"after": "x"})).status_code == 422
        entries = (await http.get(f"/api/runs/{runs[0]}/entries")).json()["entries"]
        assert (await http.get(f"/api/runs/{runs[0]}/entries/1")).json() == entries[0]
        async with open_remote(server.url, await server.token()) as app:
            assert {it.inquiry_id for it in await app.inquiries()} == set(asked)
            records = await app.store.records(runs[0])
            stored = await server.store.records(runs[0])
            assert [msgspec.json.decode(it.body) for it in records] == [msgspec.json.decode(it.body) for it in stored]
            assert [msgspec.structs.replace(it, body="") for it in records] == [msgspec.structs.replace(it, body="") for it in stored]

    play(tmp_path, scenario)
