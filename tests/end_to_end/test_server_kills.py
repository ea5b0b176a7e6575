"""Slices of the trials of a server: it is killed, stopped and frozen under a mixed load, and followed through cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end import server_kills, stream_cuts
from tests.end_to_end.mixed_load import Mix

pytest.importorskip("standardwebhooks")
pytest.importorskip("cronsim")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SMALL = Mix(local=4, remote=2, cancelled=2, failing=1, loops=2, settlements=1, payments=2)


def test_a_server_that_is_killed_at_many_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    figures = server_kills.trial(tmp_path, 8, 2, SMALL)
    assert figures.faults == []
    assert figures.moments.total() == 8


def test_two_programs_follow_a_mixed_load_through_cuts_and_restarts(tmp_path: Path) -> None:
    cuts = stream_cuts.trial(tmp_path, SMALL, 1)
    assert (cuts.faults, cuts.restarts) == ([], 3)
