"""A real browser for tests: the Chromium that ``$CONSOLE_BROWSER`` names, or one of the system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_MS = 60_000


def executable() -> str | None:
    """Return the path of a Chromium; None if there is none."""
    return os.environ.get("CONSOLE_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)


def opened() -> Iterator[Browser]:
    """Yield an open browser, or skip the test. While it is open, ``asyncio.run`` cannot be used in the same process."""
    path = executable()
    if path is None:
        missing = f"no Chromium: none of {', '.join(BROWSERS)} is installed, and $CONSOLE_BROWSER names none"
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=TIMEOUT_MS)
        yield started
        started.close()


def until(page: Page, script: str) -> None:
    """Wait until an expression is true in a page; the page's own policy forbids Playwright to wait in the page."""
    for _ in range(TIMEOUT_MS // 50):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never true: {script}")
