"""Seeds of every profile; the same seed is the same story, to the byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from asterism.simulation import campaign as campaigns
from asterism.simulation.__main__ import main
from asterism.simulation.campaign import campaign
from asterism.simulation.profiles import PIPELINE, PIPELINE_EVERY, PROFILES, profile_of, setting_of
from asterism.simulation.shrinking import shrink

PORT = tuple(name for name in PROFILES if name not in PIPELINE)
DIGEST = """
import hashlib, sys
from asterism.simulation.profiles import setting_of
for profile in sys.argv[1:]:
    for seed in range(2):
        print(hashlib.sha256(setting_of(profile, seed).play()[1].journal).hexdigest())
"""


def test_three_hundred_seeds_break_nothing() -> None:
    tally = campaign(0, PORT, runs=300)
    assert tally.broken is None, tally.broken
    assert tally.runs == 300
    for injected in (
        "crashed",
        "store faults",
        "lose",
        "pause",
        "cancel",
        "turned away",
        "robbed",
        "edit",
        "entry PlanningFailed",
        "noted",
        "letter",
        "entry Forked",
    ):
        assert tally.counts[injected] > 0, injected


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_thousand_seeds_break_nothing() -> None:
    tally = campaign(1_000, runs=5_000)
    assert tally.broken is None, tally.broken


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_seed_leaves_the_same_journal(profile: str) -> None:
    for seed in range(2 if profile in PIPELINE else 5):
        assert setting_of(profile, seed).play()[1].journal == setting_of(profile, seed).play()[1].journal


@pytest.mark.parametrize("profiles", [PORT, pytest.param(PIPELINE, marks=pytest.mark.slow)], ids=["port", "pipeline"])
def test_two_processes_with_two_hash_seeds_leave_the_same_journals(profiles: Sequence[str]) -> None:
    told = []
    for hash_seed in ("1", "271828"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        told.append(
            subprocess.run([sys.executable, "-c", DIGEST, *profiles], env=environment, capture_output=True, text=True, check=True).stdout
        )
    assert told[0] == told[1]
    ours = [hashlib.sha256(setting_of(profile, seed).play()[1].journal).hexdigest() for profile in profiles for seed in range(2)]
    assert told[0].split() == ours


def test_one_seed_in_twenty_goes_through_the_pipeline_and_the_seed_says_which() -> None:
    drawn = [profile_of(seed, tuple(PROFILES)) for seed in range(20_000)]
    through = [seed for seed, profile in enumerate(drawn) if profile in PIPELINE]
    assert len(through) == 20_000 // PIPELINE_EVERY
    assert set(drawn) == set(PROFILES)
    assert [profile_of(seed, PIPELINE) for seed in range(2)] == list(PIPELINE)


def test_what_the_model_says_is_asked_for_refused_and_taken() -> None:
    told = b""
    for seed in range(12):
        told += setting_of("model", seed).play()[1].journal
    assert b'"Planned"' in told
    assert b'"PlanningFailed"' in told
    assert b"reply refused" in told
    assert b"asked again after" in told


def test_without_a_models_client_the_pipeline_is_left_out_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaigns, "has_pipeline", lambda: False)
    assert main(["--one", "20", "--profile", "model", "--profile", "calm"]) == 0
    assert "left out: model" in capsys.readouterr().out


def test_planning_that_breaks_ends_the_world_with_what_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        raise KeyError(text[:0])

    monkeypatch.setattr("asterism.planner.strategies.parse_reply", broken)
    tally = campaign(0, ("model",), runs=20)
    assert tally.broken is not None
    assert "planning broke: KeyError" in tally.broken[2]
    shrunk = shrink("model", tally.broken[0])
    assert shrunk is not None
    assert any(line.startswith("uttered") for line in shrunk.told) or not shrunk.story.parts


def test_the_command_runs_seeds_and_tells_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.2", "--seed", "5", "--profile", "calm"]) == 0
    told = capsys.readouterr().out
    assert "runs a minute on one core" in told
    assert "happened:" in told


def test_the_command_lives_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--one", "7", "--profile", "storm"]) == 0
    assert capsys.readouterr().out.startswith("1 runs")
