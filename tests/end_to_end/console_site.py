"""A real ``asterism serve`` for the tests of the console, and pages of it in a real browser."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, BrowserContext, Locator, Page

from tests.end_to_end import command
from tests.end_to_end.browsers import TIMEOUT_MS, until

HERE = Path(__file__).parent
FLEET = """
name = "shop"

[[devices]]
id = "builder"
concurrency = 4
skills = ["skills.py:prepare", "skills.py:hold", "skills.py:fail", "skills.py:shout", "skills.py:write"]

[[devices]]
id = "production"
skills = ["skills.py:deploy"]
"""
OFFLINE = "net::ERR_"
"""Of what a browser reports about a server that is not there."""
START_S = 60.0


class ConsoleSite:
    """A folder with a database and a fleet, and the server of them, which keeps its address when it is started again.

    Args:
        folder: an empty folder.
        options: more options of the command.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.database = folder / "runs.db"
        self._options = options
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        shutil.copy(HERE / "console_skills.py", folder / "skills.py")
        (folder / "fleet.toml").write_text(FLEET, encoding="utf-8")
        self.process: subprocess.Popen[str] | None = None
        self.link = ""
        self._cookie = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and return when it serves."""
        argv = [sys.executable, "-m", "asterism.cli", "serve", "--fleet", "fleet.toml", "--port", str(self.port), *self._options]
        environment = {**os.environ, "ASTERISM_DATABASE": str(self.database), "PYTHONUNBUFFERED": "1"}
        with (self.folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(argv, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout
        for line in self.process.stdout:
            if found := re.search(r"http\S+#login=\S+", line):
                self.link = found[0]
                return
        raise RuntimeError((self.folder / "serve.log").read_text(encoding="utf-8"))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the server."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(START_S)
        if self.process.stdout:
            self.process.stdout.close()
        self.process = None

    def http(self, role: str = "admin") -> httpx2.Client:
        """A client of the API, with the token of this user or a new one of another role."""
        token = Path(f"{self.database}.token").read_text(encoding="ascii").strip()
        admin = httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        if role == "admin":
            return admin
        with admin:
            name = f"{role.replace(',', '-')}-{os.urandom(3).hex()}"
            made = admin.post("/api/tokens", json={"name": name, "roles": role.split(",")}).raise_for_status().json()
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {made['token']}"}, timeout=30)

    def cookie(self, role: str = "admin") -> str:
        """The session of a browser that has logged in; one login for all tests, because logins are limited."""
        if role == "admin" and self._cookie:
            return self._cookie
        with self.http(role) as http:
            link = http.post("/api/login-links").raise_for_status().json()["link"]
        with httpx2.Client(base_url=self.url) as nobody:
            nobody.post("/api/login", json={"link": link}).raise_for_status()
            cookie = next(iter(nobody.cookies.values()))
        if role == "admin":
            self._cookie = cookie
        return cookie

    def submit(self, *tasks: dict[str, Any], title: str = "", **more: Any) -> str:
        """Submit a plan of tasks with their ``after``; return the id of the run."""
        listed = [
            {"name": it["task_id"], "device": "builder", **{name: value for name, value in it.items() if name != "after"}} for it in tasks
        ]
        lines = [{"from": other, "to": it["task_id"]} for it in tasks for other in it.get("after", [])]
        with self.http() as http:
            body = {"plan": {"name": title or "plan", "tasks": listed, "dependencies": lines, **more}}
            return str(http.post("/api/runs", json=body).raise_for_status().json()["run_id"])

    def until(self, run_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until a run has a status; return the run."""
        with self.http() as http:
            run: dict[str, Any] = {}
            for _ in range(600):
                run = http.get(f"/api/runs/{run_id}").raise_for_status().json()["run"]
                if run["status"] in statuses:
                    return run
                time.sleep(0.1)
        raise AssertionError(f"run {run_id} is not {statuses}: {run}")

    def command(self, *arguments: str) -> str:
        """Run a command of ``asterism`` on the database, as somebody on this computer does; return what it prints."""
        given = [*arguments, "--database", str(self.database)]
        return command.run(given, env=os.environ, cwd=self.folder, timeout=START_S).stdout

    def release(self, name: str = "released") -> None:
        """Let the skill ``hold`` end."""
        (self.folder / name).touch()


class Tab:
    """A page of the console in a browser; at its end, the browser may have reported nothing that was not expected.

    Args:
        beside: another tab of the same browser; closing it closes this one.
    """

    def __init__(
        self,
        browser: Browser,
        site: ConsoleSite,
        address: str = "/runs",
        *,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        role: str = "admin",
        beside: Tab | None = None,
    ) -> None:
        self.site = site
        self.context: BrowserContext = (
            beside.context
            if beside
            else browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light")
        )
        self.context.add_cookies([{"name": f"asterism_session_{site.url.rpartition(':')[2]}", "value": site.cookie(role), "url": site.url}])
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.reported: list[str] = []
        self.expected: list[str] = []
        self.page.on("console", lambda message: self.reported.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.reported.append(str(error)))
        self.page.goto(site.url + address)
        self.page.locator("console-shell main > *").first.wait_for(state="attached")

    def expect(self, text: str) -> None:
        """Expect that the browser reports something, such as an answer 409, which it reports as an error."""
        self.expected.append(text)

    def close(self) -> None:
        self.context.close()
        self.check()

    def check(self) -> None:
        """Check that the browser has reported nothing that was not expected."""
        assert [it for it in self.reported if not any(text in it for text in self.expected)] == []

    def go(self, address: str) -> None:
        self.page.goto(self.site.url + address)

    def until(self, script: str) -> None:
        until(self.page, script)

    def decide(self, key: str) -> None:
        """Press a key that answers the question that is shown, once it has been shown for long enough to take one."""
        self.until("document.querySelector('.current answer-form').takesKeys")
        self.page.keyboard.press(key)

    def task(self, name: str) -> Locator:
        return self.page.locator(f"plan-view .task[data-task='{name}']")


def served(site: ConsoleSite) -> Iterator[ConsoleSite]:
    """Start the server of a site, yield the site, and end the server."""
    try:
        site.start()
        yield site
    finally:
        site.stop(signal.SIGKILL)
