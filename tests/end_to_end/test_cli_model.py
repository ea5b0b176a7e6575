"""The command line with a model that cannot be had: one line, exit code 2, and nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.end_to_end.desk import Desk

WITHOUT_THE_EXTRA = """
import sys
for name in ("pydantic_ai", "mcp"):
    sys.modules[name] = None
from asterism.cli import main
sys.exit(main(sys.argv[1:]))
"""
HEAVY = ("pydantic_ai", "mcp", "openai", "anthropic", "google.genai", "fastapi")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ASTERISM_") or name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_missing_key_is_said_by_its_variable(desk: Desk, command: str) -> None:
    done = desk.do(command, "measure the text", "--fleet", desk.fleet, "--model", "openai:gpt-4o", code=2)
    assert complaint(done) == "asterism: model openai:gpt-4o needs a key: set OPENAI_API_KEY in the environment\n"
    assert not desk.database.exists()


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_missing_extra_is_said_by_its_name(desk: Desk, command: str) -> None:
    argv = [command, "measure the text", "--fleet", str(desk.fleet), "--model", "openai:gpt-4o"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, *argv], env=desk.environment(), capture_output=True, text=True, check=False
    )
    assert complaint(done) == "asterism: model openai:gpt-4o needs an extra: pip install 'asterism-engine[llm]'\n"
    assert not desk.database.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "gpt-4o"], "write provider:name"),
        (["--model", "nobody:gpt-4o"], "openai, anthropic, google, ollama"),
        (["--backup-model", "openai:gpt-4o"], "name that model, too, with --model"),
        (["--replan", "always"], "needs a model"),
    ],
)
def test_a_model_that_cannot_be_meant_is_refused(desk: Desk, options: list[str], told: str) -> None:
    assert told in complaint(desk.do("run", "measure the text", "--fleet", desk.fleet, *options, code=2))
    assert not desk.database.exists()


def test_a_plan_file_that_is_not_to_be_changed_needs_no_model(desk: Desk) -> None:
    plan = desk.plan({"task_id": "a", "name": "measure", "device": "desk", "inputs": {"accuracy": 0.5}})
    for arguments in (("plan", plan), ("run", plan, "--replan", "never")):
        desk.do(*arguments, "--fleet", desk.fleet, "--model", "openai:gpt-4o")
    assert "OPENAI_API_KEY" in complaint(desk.do("run", plan, "--fleet", desk.fleet, "--model", "openai:gpt-4o", code=2))


def test_a_model_in_the_environment_is_used_and_what_is_wrong_with_it_is_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTERISM_MODEL", "openai:gpt-4o")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush-hush-hush")
    monkeypatch.setenv("ASTERISM_MODEL_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ASTERISM_MODEL_ATTEMPTS", "1")
    done = desk.do("run", "measure the text", "--fleet", desk.fleet, code=1)
    assert "openai:gpt-4o: the provider is unreachable, or the connection broke (at http://" in done.stdout
    (row,) = desk.runs()
    assert row["outcome"] == "failed"
    log = desk.do("log", row["run"], "--json").stdout + desk.do("show", row["run"], "--json").stdout
    assert "127.0.0.1:9" in log
    assert "hush" not in log + done.stdout + done.stderr
    assert b"hush" not in b"".join(path.read_bytes() for path in desk.database.parent.rglob("*") if path.is_file())


def test_a_run_without_a_model_loads_no_models_library(desk: Desk) -> None:
    script = "from asterism.cli import main\nmain(sys.argv[1:])\nprint(*sorted(sys.modules), file=sys.stderr)"
    argv = ["run", "measure the text abc on my desk", "--fleet", str(desk.fleet)]
    done = subprocess.run(
        [sys.executable, "-c", "import sys\n" + script, *argv], env=desk.environment(), capture_output=True, text=True, check=True
    )
    assert "asterism.app.bootstrap" in done.stderr
    assert [name for name in HEAVY if name in done.stderr.split()] == []
