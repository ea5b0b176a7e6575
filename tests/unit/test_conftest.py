"""A test that hangs ends, and is named."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HANGING = """
import asyncio
import threading

import pytest


@pytest.fixture
def hanging():
    yield
    threading.Event().wait()


@pytest.mark.timeout(2)
def test_a_failure_is_followed_by_a_clean_up_that_hangs(hanging):
    raise AssertionError


@pytest.mark.timeout(2)
def test_a_task_ignores_that_it_is_cancelled():
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass

    asyncio.run(stubborn())


def test_another():
    pass
"""


@pytest.mark.slow
def test_a_clean_up_that_hangs_ends_its_worker_and_is_named(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_hanging.py").write_text(HANGING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-n", "1", "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert set(re.findall(r"crashed while running 'test_hanging.py::(\w+)'", ended.stdout)) == {
        "test_a_failure_is_followed_by_a_clean_up_that_hangs",
        "test_a_task_ignores_that_it_is_cancelled",
    }
    assert "1 passed" in ended.stdout
    assert "in stubborn" in ended.stderr or "in test_a_task_ignores" in ended.stderr  # where it hung
