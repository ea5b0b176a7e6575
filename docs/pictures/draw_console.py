"""Draws the pictures of the console from the runs of ``python -m examples.console``, in a real browser: ``make pictures``.

Each picture is one PNG in this folder.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SIZE: Any = {"width": 1280, "height": 800}
LIMIT_MS = 60_000
SETTLED_MS = 2500
"""Time for glides of the plan."""


class Camera:
    """A browser that has logged in to a site, in light or dark."""

    def __init__(self, browser: Browser, url: str, cookie: str, scheme: Any) -> None:
        context = browser.new_context(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")
        context.add_cookies([{"name": f"asterism_session_{url.rpartition(':')[2]}", "value": cookie, "url": url}])
        self._url, self.page = url, context.new_page()
        self.page.set_default_timeout(LIMIT_MS)

    def take(self, address: str, shows: str, name: str) -> Page:
        """Draw a page when it shows a text."""
        self.page.goto(self._url + address)
        self.page.get_by_text(shows).first.wait_for()
        self.page.wait_for_timeout(SETTLED_MS)
        self.page.screenshot(path=HERE / f"{name}.png")
        return self.page


def run_ids(http: httpx2.Client) -> dict[str, str]:
    """Return the newest run of each title, and ``copy of TITLE`` for one that is a fork."""
    found: dict[str, str] = {}
    for run in http.get("/api/runs?limit=100").raise_for_status().json()["runs"]:
        copy = "" if run["session"] == run["run_id"] else "copy of "
        found.setdefault(copy + run["title"], run["run_id"])
    return found


def draw(browser: Browser, url: str, token: str) -> None:
    """Draw all pictures of a site."""
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        runs = run_ids(http)
        link = http.post("/api/login-links").raise_for_status().json()["link"]
    with httpx2.Client(base_url=url) as nobody:
        nobody.post("/api/login", json={"link": link}).raise_for_status()
        cookie = next(iter(nobody.cookies.values()))
    replanned = next(run for title, run in runs.items() if "noise 3" in title)
    light, dark = (Camera(browser, url, cookie, scheme) for scheme in ("light", "dark"))
    for camera, scheme in ((light, "light"), (dark, "dark")):
        camera.take(f"/runs/{runs['Release 2.4.1']}", "Needs you", f"console-run-{scheme}")
    light.take(f"/runs/{replanned}?edit=1&at={edited(url, token, replanned)}", "Why the plan changed", "console-edit")
    light.take(f"/compare?a={runs['Weekly sales']}&b={runs['copy of Weekly sales']}", "What differs", "console-compare")
    light.take("/devices?device=warehouse&period=night", "verify the archive", "console-devices")


def edited(url: str, token: str, run: str) -> int:
    """Return the number of the entry with the last edit of a plan."""
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        entries = http.get(f"/api/runs/{run}/entries?limit=1000").raise_for_status().json()["entries"]
    return max(int(it["seq"]) for it in entries if it["kind"] == "planned" and "add_task" in str(it["body"]))


def main() -> None:
    """Start the site, and draw it."""
    browser_path = os.environ.get("CONSOLE_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = Path(temporary) / "site"
        argv = [sys.executable, "-m", "examples.console", "--port", "0", "--folder", str(folder)]
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as site:  # noqa: S603 - a program of this repository
            try:
                url = next(found[1] for line in site.stdout or () if (found := re.match(r"(http\S+)/#login=", line)))
                browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
                draw(browser, url, (folder / "runs.db.token").read_text().strip())
                browser.close()
            finally:
                site.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    main()
