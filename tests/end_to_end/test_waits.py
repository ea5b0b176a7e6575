"""Waits across kills: what is killed loses no event, and takes none twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.end_to_end.desk import Desk

PLAN = {
    "params": {"number": "int"},
    "tasks": [
        {"task_id": "pause", "wait": {"for_s": 0.2}},
        {"task_id": "paid", "wait": {"event": "paid", "match": "event.number == number"}, "inputs": {"number": "${params.number}"}},
    ],
    "dependencies": [{"from": "pause", "to": "paid"}],
}
RUNS = 5


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (tmp_path / "invoice.json").write_text(json.dumps(PLAN), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def test_runs_that_are_killed_while_they_wait_get_their_events_once(desk: Desk) -> None:
    processes = []
    for number in range(RUNS):
        processes.append(desk.start("run", "invoice.json", "--set", f"number={number}"))
        while not desk.database.exists() or len(desk.runs()) <= number:
            assert processes[-1].poll() is None
    for number, process in enumerate(processes):
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        for _ in range(2):  # a sender that is not sure sends it again
            desk.do("event", "send", "paid", "--data", json.dumps({"number": number}), "--id", f"p{number}")
    for run in [it["run"] for it in desk.runs()]:
        desk.do("resume", run)
        log = desk.do("log", run).stdout
        assert log.count("came: ") == 1
    events = json.loads(desk.do("event", "list", "--json").stdout)
    assert sorted((it["id"], it["taken"]) for it in events) == [(f"p{number}", 1) for number in range(RUNS)]
