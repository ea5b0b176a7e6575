"""Seeds of every profile; the same seed is the same story, to the byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from asterism.simulation.__main__ import main
from asterism.simulation.campaign import campaign
from asterism.simulation.profiles import PROFILES, setting_of

DIGEST = """
import hashlib, sys
from asterism.simulation.profiles import PROFILES, setting_of
for profile in PROFILES:
    for seed in range(4):
        print(hashlib.sha256(setting_of(profile, seed).play()[1].journal).hexdigest())
"""


def test_three_hundred_seeds_break_nothing() -> None:
    tally = campaign(0, runs=300)
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
    ):
        assert tally.counts[injected] > 0, injected


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_thousand_seeds_break_nothing() -> None:
    tally = campaign(1_000, runs=5_000)
    assert tally.broken is None, tally.broken


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_seed_leaves_the_same_journal(profile: str) -> None:
    for seed in range(5):
        assert setting_of(profile, seed).play()[1].journal == setting_of(profile, seed).play()[1].journal


def test_two_processes_with_two_hash_seeds_leave_the_same_journals() -> None:
    told = []
    for hash_seed in ("1", "271828"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        told.append(subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True).stdout)
    assert told[0] == told[1]
    ours = [hashlib.sha256(setting_of(profile, seed).play()[1].journal).hexdigest() for profile in PROFILES for seed in range(4)]
    assert told[0].split() == ours


def test_the_command_runs_seeds_and_tells_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.2", "--seed", "5", "--profile", "calm"]) == 0
    told = capsys.readouterr().out
    assert "runs a minute on one core" in told
    assert "happened:" in told


def test_the_command_lives_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--one", "7", "--profile", "storm"]) == 0
    assert capsys.readouterr().out.startswith("1 runs")
