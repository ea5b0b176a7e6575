"""Seeds of every profile; the same seed is the same story, to the byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from pydantic_ai.messages import ToolCallPart

from tests.simulation.__main__ import main
from tests.simulation.search import campaign as campaigns
from tests.simulation.search.campaign import campaign
from tests.simulation.search.profiles import PIPELINE, PIPELINE_EVERY, PROFILES, profile_of, setting_of
from tests.simulation.search.shrinking import shrink

ROOT = Path(__file__).parents[2]
PORT = tuple(name for name in PROFILES if name not in PIPELINE)
DIGEST = """
import hashlib, sys
from tests.simulation.search.profiles import setting_of
for profile in sys.argv[1:]:
    for seed in range(2):
        print(hashlib.sha256(setting_of(profile, seed).execute()[1].journal).hexdigest())
"""


def test_a_hundred_and_fifty_seeds_break_nothing() -> None:
    tally = campaign(450, PORT, runs=150)
    assert tally.failure is None, tally.failure
    assert tally.runs == 150
    for injected in (
        "crashed",
        "store faults",
        "lose",
        "pause",
        "cancel",
        "run owned",
        "fenced",
        "edit",
        "entry planning_failed",
        "noted",
        "inbox_row",
        "entry forked",
        "commands that met a defect",
        "sent again",
        "entry transition_failed",
    ):
        assert tally.counts[injected] > 0, injected


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_thousand_seeds_break_nothing() -> None:
    tally = campaign(1_000, runs=5_000)
    assert tally.failure is None, tally.failure


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_seed_leaves_the_same_journal(profile: str) -> None:
    for seed in range(2 if profile in PIPELINE else 5):
        assert setting_of(profile, seed).execute()[1].journal == setting_of(profile, seed).execute()[1].journal


def test_two_hash_seeds_give_the_same_journals(tmp_path: Path) -> None:
    here = _digests({"PYTHONHASHSEED": "1"}, *PORT)
    assert here == _digests({"PYTHONHASHSEED": "271828", "TZ": "Asia/Kathmandu", "LC_ALL": "C"}, *PORT, folder=tmp_path)
    assert here == _ours(PORT)


@pytest.mark.slow
def test_the_pipeline_leaves_the_same_journals_without_assertions_and_docstrings() -> None:
    assert _digests({"PYTHONHASHSEED": "1"}, *PIPELINE, python=("-OO",)) == _ours(PIPELINE)


def test_a_call_whose_arguments_are_no_object_is_read_alike_without_assertions(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 4_000_120  # asks for tasks with the arguments null, which pydantic-ai tells from an object by an assertion
    journal = setting_of("model", seed).execute()[1].journal
    asserted = ToolCallPart.args_as_dict
    optimized: list[bool] = []

    def as_json(call: ToolCallPart) -> object:
        optimized.append("INVALID_JSON" in (arguments := asserted(call)))
        return msgspec.json.decode(str(call.args)) if optimized[-1] else arguments

    monkeypatch.setattr(ToolCallPart, "args_as_dict", as_json)
    assert setting_of("model", seed).execute()[1].journal == journal
    assert True in optimized


def _ours(profiles: Sequence[str]) -> list[str]:
    return [hashlib.sha256(setting_of(profile, seed).execute()[1].journal).hexdigest() for profile in profiles for seed in range(2)]


def _digests(environment: Mapping[str, str], *profiles: str, python: Sequence[str] = (), folder: Path | None = None) -> list[str]:
    command = [sys.executable, *python, "-c", DIGEST, *profiles]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_one_seed_in_twenty_goes_through_the_pipeline_and_the_seed_says_which() -> None:
    drawn = [profile_of(seed, tuple(PROFILES)) for seed in range(20_000)]
    through = [seed for seed, profile in enumerate(drawn) if profile in PIPELINE]
    assert len(through) == 20_000 // PIPELINE_EVERY
    assert set(drawn) == set(PROFILES)
    assert [profile_of(seed, PIPELINE) for seed in range(2)] == list(PIPELINE)


def test_what_the_model_says_is_asked_for_refused_and_taken() -> None:
    told = b""
    for seed in range(12):
        told += setting_of("model", seed).execute()[1].journal
    assert b'"planned"' in told
    assert b'"planning_failed"' in told
    assert b"reply refused" in told
    assert b"retried after" in told


def test_without_a_models_client_the_pipeline_is_left_out_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaigns, "has_pipeline", lambda: False)
    assert main(["--one", "20", "--profile", "model", "--profile", "calm"]) == 0
    assert "left out: model" in capsys.readouterr().out


def test_planning_that_breaks_ends_the_world_with_what_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        raise KeyError(text[:0])

    monkeypatch.setattr("asterism.constellation.planner.processor.parse_reply", broken)
    tally = campaign(0, ("model",), runs=20)
    assert tally.failure is not None
    assert "planning failed: KeyError" in tally.failure[2]
    shrunk = shrink("model", tally.failure[0])
    assert shrunk is not None
    assert any(line.startswith("uttered") for line in shrunk.description) or not shrunk.scenario.parts


def test_the_command_runs_seeds_and_prints_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.2", "--seed", "5", "--profile", "calm"]) == 0
    told = capsys.readouterr().out
    assert "runs a minute on one core" in told
    assert [line.split(":")[0] for line in told.splitlines()[1:] if line[0] != " "] == ["outcomes", "happened", "performances", "entries"]
    assert max(map(len, told.splitlines())) <= 120


def test_the_command_runs_as_many_seeds_as_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "3", "--seed", "5", "--profile", "calm"]) == 0
    assert capsys.readouterr().out.startswith("3 runs, ")


@pytest.mark.parametrize("runs", ["abc", "0", "-1", "1.5"])
def test_an_invalid_number_of_runs_is_rejected(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--runs", runs])
    assert ended.value.code == 2
    assert f"argument --runs: {runs!r} is not an integer of at least 1" in capsys.readouterr().err


def test_the_command_lives_one_seed_and_tells_its_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--one", "7", "--profile", "storm"]) == 0
    told = capsys.readouterr().out
    assert "\n1 runs, " in told
    assert told.startswith("#1 constellation_submitted by user -> ")


@pytest.mark.parametrize("seconds", ["abc", "nan", "inf", "0", "-1"])
def test_an_invalid_search_time_is_rejected(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--seconds", seconds])
    assert ended.value.code == 2
    assert f"argument --seconds: {seconds!r} is not a number of seconds above 0" in capsys.readouterr().err
