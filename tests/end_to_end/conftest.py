"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk of its own."""
    return Desk(tmp_path)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A key in the environment, as the real client wants one."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    return "sk-test-0123456789abcdef"
