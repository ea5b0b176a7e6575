"""The main job as ``make demo`` does it: real data, a real model, a real measurement, asked again."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

ROOT = Path(__file__).parents[2]


def demo(folder: Path, *arguments: str) -> tuple[str, dict[str, str]]:
    """What the example prints, and the status of each of its tasks."""
    environment = {**os.environ, "ASTERISM_DIGITS_DIR": str(folder), "ASTERISM_DATABASE": str(folder / "runs.db")}
    done = subprocess.run(
        [sys.executable, "-m", "examples.digits", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    tasks = json.loads((folder / "result.json").read_text(encoding="utf-8"))["tasks"]
    return done.stdout, {task["name"]: task["status"] for task in tasks.values()}


@pytest.mark.slow
def test_the_demo_measures_deploys_and_asks_the_model(tmp_path: Path) -> None:
    said, statuses = demo(tmp_path)
    assert set(statuses.values()) == {"COMPLETED"}
    assert len(statuses) == 4
    for words in ("┆  if accuracy > 0.95", "FINISH: finished", "measured accuracy: 0.9", "deployed model:", "it says"):
        assert words in said


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_last_line_of_the_demo_is_a_command_whose_login_link_opens_the_run_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    said, _ = demo(tmp_path)
    command = said.splitlines()[-1].strip()
    environment = {**os.environ, "ASTERISM_DATABASE": str(tmp_path / "runs.db"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(shlex.split(command), cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            (link,) = itertools.islice((it[0] for it in map(re.compile(r"http\S+#login=\S+").search, server.stdout) if it), 1)
            page = browser.new_page()
            reported: list[str] = []
            page.on("console", lambda message: reported.append(message.text))
            page.on("pageerror", lambda error: reported.append(str(error)))
            page.goto(link)
            expect(page.locator("plan-view .task")).to_have_count(4)
            expect(page.locator(".run-bar h1")).to_contain_text("Download MNIST dataset on laptop")
            assert page.url == link.partition("#")[0]
            assert reported == []
            page.close()
        finally:
            server.kill()


@pytest.mark.slow
def test_with_harder_data_the_skipped_task_and_the_measured_value_are_named(tmp_path: Path) -> None:
    said, statuses = demo(tmp_path, "--noise", "6")
    assert statuses["deploy"] == "SKIPPED"
    assert "FINISH: finished" in said
    assert "accuracy > 0.95 is false: accuracy is 0.8" in said


@pytest.mark.slow
def test_the_replanning_example_tells_the_seeds_story(tmp_path: Path) -> None:
    environment = {**os.environ, "ASTERISM_DIGITS_DIR": str(tmp_path), "ASTERISM_DATABASE": str(tmp_path / "runs.db")}
    done = subprocess.run(
        [sys.executable, "-m", "examples.replan"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    ran, shown = done.stdout.split("the model was asked 5 times")
    for words in ("planned 4 tasks", "completed: accuracy=0.92", "planner answered CONTINUE with 3 edits", "FINISH: finished after"):
        assert words in ran
    assert "task_005 retrain_with_tuning  completed" in shown
    for words in (
        "thought: The accuracy did not meet the deployment threshold (95%).",
        "asked about task_003, answered after",
        "- task task_004",
        "+ task task_005",
        "+ dependency task_003->task_005",
        "total: 5 questions, ",
        "5 requests, openai:gpt-4o",
    ):
        assert words in shown
    assert re.search(r"total: .* tokens, \$0\.0\d+", shown)
    result = json.loads((tmp_path / "replan.json").read_text(encoding="utf-8"))
    assert {task: it["status"] for task, it in result["tasks"].items()} == dict.fromkeys(
        ("task_001", "task_002", "task_003", "task_005"), "COMPLETED"
    )
    assert not (tmp_path / "production").exists()
