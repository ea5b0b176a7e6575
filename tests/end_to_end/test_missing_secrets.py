"""A run that needs a secret which is missing where it would be driven: it waits, and its work is not lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.desk import Desk
from tests.end_to_end.test_serve import Place, place

__all__ = ["place"]
VARIABLE = "ASTERISM_SECRET_MOON"
PAY: dict[str, Any] = {"task_id": "pay", "device": "server", "skill": "deploy", "env": {"KEY": "${secret.MOON}"}}


def asked_for_approval(desk: Desk, monkeypatch: pytest.MonkeyPatch, *tasks: dict[str, Any]) -> dict[str, Any]:
    """The question of a run that was started with its secret, which is then missing."""
    with monkeypatch.context() as there:
        there.setenv(VARIABLE, "hunter2-and-more")
        desk.do("run", desk.plan(*tasks), "--fleet", desk.fleet, code=3)
    (asked,) = json.loads(desk.do("inbox", "--json").stdout)
    return dict(asked)


def test_a_run_whose_secret_is_missing_is_not_driven_and_not_changed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_for_approval(desk, monkeypatch, {**PAY, "requires_approval": True})
    answered = desk.do("answer", asked["inquiry"], "approve", code=1)
    assert "recorded" in answered.stdout
    assert f"run {asked['run']}: secret MOON is not set; set {VARIABLE} where the task is performed" in answered.stderr
    (before,) = desk.runs()
    refused = desk.do("resume", asked["run"], code=2)
    assert f"; then: asterism resume {asked['run']}\n" in refused.stderr
    assert desk.runs() == [before]
    monkeypatch.setenv(VARIABLE, "hunter2-and-more")
    desk.do("resume", asked["run"])
    assert (desk.runs()[0]["outcome"], desk.performed()) == ("finished", ["pay"])


def test_a_run_that_is_to_be_cancelled_needs_neither_its_secrets_nor_its_folder(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (there := tmp_path / "there").mkdir()
    with monkeypatch.context() as submitted:
        submitted.chdir(there)
        asked = asked_for_approval(
            desk,
            monkeypatch,
            {"task_id": "ask", "device": "server", "skill": "deploy", "requires_approval": True},
            PAY | {"role": "finally"},
        )
    there.rmdir()
    refused = desk.do("resume", asked["run"], code=2)
    assert f"there is no folder {there}" in refused.stderr
    desk.do("cancel", asked["run"], code=None)
    assert (desk.runs()[0]["outcome"], desk.performed()) == ("cancelled", [])


def test_a_server_without_the_secret_releases_the_run_as_stuck_until_it_has_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.folder / "uses.py").write_text(
        "from asterism import Constellation, skill\n\n\n@skill\ndef use(token: str) -> int:\n    return len(token)\n\n\n"
        "uses = Constellation('uses')\nuses.task(use, token='${secret.KEY}')\n"
    )
    (secrets := tmp_path / "secrets.env").touch(mode=0o600)
    monkeypatch.setenv("ASTERISM_SECRETS", str(secrets))
    with place.server():
        assert place.command("run", "uses.py").returncode == 3
        (row,) = place.until(lambda rows: rows[0].tries > 0)
        assert (row.status, row.outcome) != ("ended", "failed")
        assert f"run {row.run_id}: secret KEY is not set" in row.problem
        secrets.write_text("KEY=long enough")
        (row,) = place.until(lambda rows: rows[0].status == "ended")
    assert row.outcome == "finished"
