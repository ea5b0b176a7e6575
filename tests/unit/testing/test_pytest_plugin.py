"""The plugin of pytest: worlds as a fixture, and tests repeated with a crash at every entry."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ENTRY_POINTS = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
PLUGIN = ENTRY_POINTS["pytest11"]["asterism"]
TRAINING = """
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.testing.device import Behaviour
from asterism.testing.people import Crash

PLAN = {"tasks": [{"task_id": "a", "device": "gpu", "skill": "train"}]}

def surroundings(idempotent):
    gpu = AgentProfile(device_id="gpu", skills=(Skill(name="train", idempotent=idempotent),))
    return {"fleet": [gpu], "script": {"train": Behaviour(duration_s=3600, result=0.97)}}
"""
SOUND = """
calls = []

def test_a_model_is_trained(world):
    calls.append(world)
    assert world(7, **surroundings(True)).run(PLAN).outcome == "finished"

def test_the_calls_are_counted():
    print("calls:", len(calls))
"""
UNSOUND = """
def test_a_model_is_trained(world):
    world(7, **surroundings(False)).run(PLAN)
"""
OUTCOME = """
def test_a_crash_asks_a_person(world):
    assert world(7, **surroundings(False)).run(PLAN).outcome == "finished"
"""
OWN_CRASHES = """
def test_the_device_is_asked_twice(world):
    trained = world(7, crashes=[Crash(entry=3, after_s=60)], **surroundings(True))
    trained.run(PLAN)
    assert len(trained.performance_log.performances) == 2
"""
OWN_FIXTURE = """
import pytest

@pytest.fixture
def world():
    return "flat"

def test_another_world(world):
    assert world == "flat"
"""


def result_of(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    """Run a test file in a pytest of its own, with the plugin, installed or not."""
    pytester.makepyfile(TRAINING + text)
    return pytester.runpytest("-p", "no:asterism", "-p", PLUGIN, "-p", "no:cacheprovider", "-s", *options)


def test_a_test_with_a_world_runs_once_without_the_option(pytester: pytest.Pytester) -> None:
    result = result_of(pytester, SOUND)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*calls: 1*"])


def test_a_test_with_a_world_is_repeated_for_each_entry_but_the_first(pytester: pytest.Pytester) -> None:
    result = result_of(pytester, SOUND, "--kill-at-every-entry")
    result.assert_outcomes(passed=2)
    (calls,) = (int(line.rpartition("calls: ")[2].split()[0].rstrip(".")) for line in result.outlines if "calls: " in line)
    assert calls > 2


@pytest.mark.parametrize("text", [UNSOUND, OUTCOME])
def test_a_crash_that_makes_a_difference_fails_the_test_with_the_entry(pytester: pytest.Pytester, text: str) -> None:
    result_of(pytester, text).assert_outcomes(passed=1)
    result = result_of(pytester, text, "--kill-at-every-entry")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*killed after entry * of run sim-1 (constellation agent)*"])


@pytest.mark.parametrize("text", [OWN_CRASHES, OWN_FIXTURE])
def test_worlds_with_crashes_of_their_own_and_other_fixtures_are_left_alone(pytester: pytest.Pytester, text: str) -> None:
    result_of(pytester, text, "--kill-at-every-entry").assert_outcomes(passed=1)


def test_the_plugin_loads_nothing_before_a_test_uses_it() -> None:
    program = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["asterism", "asterism.testing", PLUGIN]
