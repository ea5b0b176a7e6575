"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.end_to_end.browsers import opened
from tests.end_to_end.console_site import ConsoleSite, served
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of a module, which cannot use ``asyncio.run``."""
    yield from opened()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    """A served database for the tests of a module."""
    yield from served(ConsoleSite(tmp_path_factory.mktemp("site")))
