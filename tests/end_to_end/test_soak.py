"""A slice of the soak: ``make soak`` is the whole of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.soak import Sample, complaints, soak


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_hundreds_of_runs_in_one_process_leave_nothing_behind(tmp_path: Path) -> None:
    samples: list[Sample] = []
    asyncio.run(soak(400, tmp_path, samples.append))
    assert samples[-1].runs == 400
    assert complaints(samples) == []


def test_what_grows_is_complained_of() -> None:
    small = Sample(runs=1, resident=10**7, database=10**6, files=9, processes=1, threads=3)
    large = Sample(runs=9, resident=10**8, database=10**8, files=10, processes=2, threads=3)
    assert complaints([small, small]) == []
    assert [told.split()[0:2] for told in complaints([small, large])] == [
        ["memory", "grew"],
        ["the", "database"],
        ["there", "were"],
        ["there", "were"],
    ]
