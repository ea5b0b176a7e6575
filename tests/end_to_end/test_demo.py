"""The main job as ``make demo`` does it: real data, a real model, a real measurement, asked again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
