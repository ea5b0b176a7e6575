"""The API of a real server process: by an HTTP client as curl is one, and by the Python client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import socket
import stat
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

import asterism
from asterism.constellation.model.documents import parse_plan
from asterism.engine.kernel.permissions import ALL_BUT_LOCAL
from asterism.service.listener import IDLE_S
from tests.end_to_end.test_serve import Place

FLEET = """
name = "shop"

[[devices]]
id = "desk"
skills = ["agents.py:prepare"]
"""
PLAN: dict[str, Any] = {
    "tasks": [{"task_id": "a", "name": "a", "device": "desk", "skill": "prepare", "requires_approval": True}],
    "dependencies": [],
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    return found


def url_of(line: str) -> str:
    """The URL in what the server prints second."""
    return line.split()[2].rstrip(",")


def test_a_run_is_submitted_and_answered_over_http_and_survives_a_restart(place: Place) -> None:
    token_file = Path(f"{place.database}.token")
    with place.server("--fleet", "fleet.toml", "--port", "0") as process:
        assert process.stdout
        url = url_of(process.stdout.readline())
        link = process.stdout.readline().rpartition("#login=")[2].strip()
        assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
        token = token_file.read_text(encoding="ascii").strip()
        with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as http:
            made = http.post("/api/runs", json={"plan": PLAN}, headers={"Idempotency-Key": "one"}).json()
            while not (asked := http.get("/api/inquiries", params={"run": made["run_id"]}).json()["inquiries"]):
                pass
            assert http.get("/api/session").json() == {
                "name": "local",
                "roles": ["admin"],
                "permissions": list(ALL_BUT_LOCAL),
                "tenant": "",
                "expires_at": 0.0,
            }
            assert http.get("/api/devices").json()["fleet"] == "shop"
            assert "asterism_runs_started_total" in http.get("/metrics").text
        assert httpx2.post(f"{url}/api/login", json={"link": link}).json()["name"] == "local"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    with place.server("--fleet", "fleet.toml", "--port", "0") as process:
        assert process.stdout
        url = url_of(process.stdout.readline())
        assert token_file.read_text(encoding="ascii").strip() == token

        async def answered() -> str:
            async with asterism.connect(url, token=token) as app:
                await app.run_of(made["run_id"]).answer("approve", inquiry_id=asked[0]["inquiry_id"], digest=asked[0]["digest"])
                assert (await app.run_of(made["run_id"]).result()).results == {"a": 1}
                second = await app.start(parse_plan(PLAN))
                await second.result()
                await second.answer("reject", reason="once is enough")
                return (await second.result()).outcome

        assert asyncio.run(answered()) in ("failed", "finished")


def test_commands_use_a_server_by_its_url(place: Place) -> None:
    (place.folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    with place.server("--fleet", "fleet.toml", "--port", "0") as process:
        assert process.stdout
        there = ("--server", url_of(process.stdout.readline()))
        waits = place.command("run", "plan.json", *there)
        assert (waits.returncode, "waits for a person" in waits.stdout) == (3, True), waits.stdout + waits.stderr
        run_id = waits.stdout.split()[1]
        listed = json.loads(place.command("runs", "--json", *there).stdout)
        assert [(it["run"], it["actor"], it["status"]) for it in listed] == [(run_id, "local@admin", "waiting")]
        assert f"asterism answer {run_id}" in place.command("show", run_id, *there).stdout
        answered = place.command("answer", run_id[:9], "approve", *there)
        assert (answered.returncode, "delivered to the server" in answered.stdout) == (0, True), answered.stderr
        place.until(lambda rows: [row.outcome for row in rows] == ["finished"])
        again = place.command("run", "plan.json", "--json", *there)
        assert again.returncode == 3
        cancelled = place.command("cancel", json.loads(place.command("runs", "--json", *there).stdout)[0]["run"], *there)
        assert cancelled.returncode == 0, cancelled.stderr
        place.until(lambda rows: [row.outcome for row in rows] == ["cancelled", "finished"])
        forked = place.command("fork", run_id, "--at", "2", *there)
        assert (forked.returncode, "waits for a person" in forked.stdout) == (3, True), forked.stdout + forked.stderr
        copy = forked.stdout.split()[1]
        assert place.command("answer", copy, "reject", *there).returncode == 0
        place.until(lambda rows: rows[0].outcome == "failed")
        retried = place.command("retry", copy, *there)
        assert (retried.returncode, f"retries {copy}" in retried.stdout) == (3, True), retried.stdout + retried.stderr
        for refused in (
            ("run", "plan.json", "--fleet", "fleet.toml", *there),
            ("runs", "--database", "runs.db", *there),
            ("runs", "--server", "localhost:1"),
            ("show", "unknown", *there),
        ):
            done = place.command(*refused)
            assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_a_run_of_a_schedule_of_a_server_is_followed_until_it_waits(place: Place) -> None:
    (place.folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    with place.server("--fleet", "fleet.toml", "--port", "0") as process:
        assert process.stdout
        there = ("--server", url_of(process.stdout.readline()))
        added = place.command("schedule", "add", "0 2 29 2 *", "plan.json", "--name", "leap", *there)
        assert added.returncode == 0, added.stderr
        waits = place.command("schedule", "run", "leap", "--follow", *there)
        assert (waits.returncode, "waits for a person" in waits.stdout) == (3, True), waits.stdout + waits.stderr
        run_id = waits.stdout.split()[1]
        assert f"run {run_id}: waiting" in place.command("schedule", "history", "leap", *there).stdout


def test_a_client_talks_to_the_agents_of_a_server(place: Place) -> None:
    with place.server("--agents", "agents.py", "--port", "0") as process:
        assert process.stdout
        url = url_of(process.stdout.readline())
        token = Path(f"{place.database}.token").read_text(encoding="ascii").strip()

        async def talked() -> tuple[str, str]:
            async with asterism.connect(url, token=token) as app:
                talk = app.conversation("Settle")
                first = await talk.say("")
                return first.raw_message, (await talk.say("12")).raw_message

        assert asyncio.run(talked()) == ("How much?", "Settled 12.")
    refused = place.command("serve", "--agents", "missing.py")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1), refused.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--host", "0.0.0.0"], "tokens would be sent in the clear"),  # noqa: S104 - refused
        (["--host", "0.0.0.0", "--behind-tls"], "--host-name"),  # noqa: S104 - refused
        (["--cert", "missing.pem"], "the certificate missing.pem cannot be used"),
        (["--key", "missing.pem"], "name that, too, with --cert"),
        (["--port", "99999"], "cannot listen on 127.0.0.1 port 99999"),
    ],
)
def test_options_that_cannot_be_used_are_refused(place: Place, options: list[str], problem: str) -> None:
    done = place.command("serve", *options)
    assert (done.returncode, problem in done.stderr) == (2, True), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_more_connections_than_the_server_has_files_keep_nobody_out(place: Place) -> None:
    with place.server("--port", "0") as process, contextlib.ExitStack() as opened:
        assert process.stdout
        url = url_of(process.stdout.readline())
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (200, 200))
        host, port = url.removeprefix("http://").split(":")
        for number in range(300):
            connection = opened.enter_context(socket.create_connection((host, int(port)), timeout=30))
            if number % 2:
                connection.send(b"POST /api/runs HTTP/1.1\r\nHost: loc")  # and never the rest
        token = Path(f"{place.database}.token").read_text(encoding="ascii").strip()
        for _ in range(5):
            answer = httpx2.get(f"{url}/api/runs", headers={"Authorization": f"Bearer {token}"}, timeout=IDLE_S - 5)
            assert answer.status_code == 200


def test_idle_connections_leave_files_for_workers_and_fill_no_log(place: Place) -> None:
    """H6: with 64 open files and 60 idle connections, 16 of 24 tasks failed as crashed, and the log had 1 MB."""
    (place.folder / "fleet.toml").write_text(f"{FLEET}concurrency = 24\n", encoding="utf-8")
    plan = {"tasks": [{"task_id": f"t{number}", "device": "desk", "skill": "prepare"} for number in range(24)]}
    log = place.folder / "log"
    with (
        log.open("w", encoding="utf-8") as errors,
        place.server("--fleet", "fleet.toml", "--port", "0", errors=errors) as process,
        contextlib.ExitStack() as opened,
    ):
        assert process.stdout
        url = url_of(process.stdout.readline())
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (64, 64))
        host, port = url.removeprefix("http://").split(":")
        for _ in range(60):
            opened.enter_context(socket.create_connection((host, int(port)), timeout=30))
        token = Path(f"{place.database}.token").read_text(encoding="ascii").strip()
        with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
            run = http.post("/api/runs", json={"plan": plan}).json()["run_id"]
            while (row := http.get(f"/api/runs/{run}").json()["run"])["status"] != "ended":
                time.sleep(0.1)
        assert row["outcome"] == "finished"
    assert log.stat().st_size < 20_000


def test_a_server_without_an_api_listens_nowhere(place: Place) -> None:
    with place.server("--no-api") as process:
        assert process.stdout
        assert process.stdout.readline() == "no API\n"
        assert not Path(f"{place.database}.token").exists()


def test_the_login_link_opens_the_page_of_a_conversation_that_exists(place: Place) -> None:
    (run,) = place.submit(0, 0, 1)
    with place.server("--port", "0", "--open", run[:12]) as process:
        assert process.stdout
        url = url_of(process.stdout.readline())
        assert process.stdout.readline().startswith(f"login link, for 5 minutes and one login: {url}/conversations/{run}#login=")
    unknown = place.command("serve", "--port", "0", "--open", "260101-00000000")
    assert (unknown.returncode, unknown.stderr) == (2, "asterism: there is no run '260101-00000000'; `asterism runs` lists them\n")
    pageless = place.command("serve", "--no-api", "--open", run)
    assert (pageless.returncode, pageless.stderr) == (2, "asterism: --open: a server without an API has no pages; leave out --no-api\n")
