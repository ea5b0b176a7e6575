"""A server that is killed starts each run of a schedule once, and reports each failure at least once."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import pytest

from asterism.service.notifications.message import SENDING_S
from tests.end_to_end.test_serve import Place
from tests.support.post_server import PostServer, post_server

pytest.importorskip("standardwebhooks")
pytest.importorskip("cronsim")

FAILING = """
from asterism import Constellation, skill

@skill(idempotent=True)
def fails() -> None:
    "Fail."
    raise ValueError("no luck")

failing = Constellation("failing")
failing.task(fails)
"""
FLEET = """
[[devices]]
id = "laptop"

[[notify]]
name = "hook"
url = "http://127.0.0.1:{port}/hook"
signing_key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
on = ["failed"]
"""
FIRINGS = 6


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_firing_starts_one_run_and_each_failure_is_reported_whatever_is_killed(tmp_path: Path) -> None:
    with post_server() as hook:
        check_firings(Place(tmp_path), hook)


def check_firings(place: Place, hook: PostServer) -> None:
    (place.folder / "failing.py").write_text(FAILING, encoding="utf-8")
    (place.folder / "fleet.toml").write_text(FLEET.format(port=hook.port), encoding="utf-8")
    assert place.command("schedule", "add", "0 0 1 1 *", "failing.py").returncode == 0
    started = []
    for number in range(FIRINGS):
        started.append(place.command("schedule", "run", "failing").stdout.split()[1])
        with place.server("--fleet", "fleet.toml"):  # each server is killed at another moment
            if number % 2:
                place.until(lambda rows: len(rows) > number - 1)  # noqa: B023 - it is called at once
    with place.server("--fleet", "fleet.toml"):
        rows = place.until(lambda rows: len(rows) == FIRINGS and all(row.status == "ended" for row in rows))
        # One that was being sent when its server was killed is sent again after a minute.
        place.until(lambda _: {it["run"] for it in messages_of(hook)} == set(started), 4 * SENDING_S)
    assert sorted(row.run_id for row in rows) == sorted(started)
    assert {row.outcome for row in rows} == {"failed"}
    history = place.command("schedule", "history", "failing").stdout
    assert all(f"run {run}: failed" in history for run in started)
    first_copies = collections.Counter(it["run"] for it in messages_of(hook) if not it.get("repeated"))
    assert set(first_copies.values()) == {1}


def messages_of(hook: PostServer) -> list[dict[str, Any]]:
    return [json.loads(body) for _, _, body in hook.received]


SENDING = """
from asterism import Constellation, skill

@skill(idempotent=True)
def send(key: str) -> None:
    "Fail."
    raise ValueError(f"refused for {key}")

approved = Constellation("approved")
approved.task(send, key="${secret.PASSWORD}", requires_approval=True)
"""
REACHED = """
[[devices]]
id = "tools"
kind = "mcp"
url = "http://127.0.0.1:1/mcp"
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_tells_of_a_lost_device_a_question_and_a_failure_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp")
    monkeypatch.setenv("ASTERISM_SECRET_PASSWORD", "hidden-word")
    with post_server() as hook:
        place = Place(tmp_path)
        (place.folder / "approved.py").write_text(SENDING, encoding="utf-8")
        fleet = FLEET.format(port=hook.port).replace('on = ["failed"]', "") + REACHED
        (place.folder / "fleet.toml").write_text(fleet, encoding="utf-8")
        with place.server("--fleet", "fleet.toml", "--port", "0"):
            place.until(lambda _: kinds_of(hook) == ["device_lost"])
            assert place.command("run", "approved.py").returncode == 3
            place.until(lambda _: kinds_of(hook) == ["device_lost", "question"])
            question = messages_of(hook)[1]
            answer = question["text"].splitlines()[1].removeprefix("asterism ").replace("approve|edit|reject", "approve")
            assert place.command(*answer.split()).returncode == 1
            place.until(lambda _: kinds_of(hook) == ["device_lost", "question", "failed"])
        lost, _, failed = messages_of(hook)
        assert lost["title"] == "A device is lost: tools"
        assert "All connection attempts failed" in lost["text"]
        assert "ValueError: refused for [secret]" in failed["text"]
        assert "hidden-word" not in str(messages_of(hook))
        assert question["api"].endswith(f"/api/inquiries/{answer.split()[1]}")
        assert failed["link"].endswith(f":{question['api'].split('/')[2].rpartition(':')[2]}/runs/{failed['run']}")


def kinds_of(hook: PostServer) -> list[str]:
    return [it["kind"] for it in messages_of(hook)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_and_a_schedule_choose_their_channels(tmp_path: Path) -> None:
    with post_server() as all_runs, post_server() as chosen:
        place = Place(tmp_path)
        (place.folder / "failing.py").write_text(FAILING, encoding="utf-8")
        night = FLEET.format(port=chosen.port).partition("[[notify]]")[2].replace('"hook"', '"night"').replace('["failed"]', "[]")
        (place.folder / "fleet.toml").write_text(f"{FLEET.format(port=all_runs.port)}\n[[notify]]{night}", encoding="utf-8")
        refused = place.command("run", "failing.py", "--fleet", "fleet.toml", "--notify", "nihgt")
        assert (refused.returncode, "did you mean night?" in refused.stderr) == (2, True), refused.stderr
        assert place.command("schedule", "add", "0 0 1 1 *", "failing.py", "--fleet", "fleet.toml", "--notify", "night").returncode == 0
        with place.server("--fleet", "fleet.toml", "--no-api"):
            plain = place.command("run", "failing.py", "--json")
            assert plain.returncode == 1
            named = place.command("run", "failing.py", "--notify", "night")
            assert named.returncode == 1
            fired = place.command("schedule", "run", "failing").stdout.split()[1]
            place.until(lambda _: len(messages_of(chosen)) == 2 and len(messages_of(all_runs)) == 1)
        assert messages_of(chosen)[0]["run"] in named.stdout
        assert messages_of(chosen)[1]["run"] == fired
        assert messages_of(all_runs)[0]["run"] in plain.stdout
