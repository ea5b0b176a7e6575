"""What the console costs in a browser: a real Chromium on the pages of a real ``asterism serve``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from asterism.console.assets import assets
from asterism.constellation.model.documents import LineSpec, PlanDocument
from asterism.constellation.model.line import DependencyType
from asterism.constellation.model.task import RetryPolicy
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.stores.sqlite import SqliteStore
from benchmarks.engine import IDLE, open_runtime, submit
from benchmarks.plans import layered
from tests.end_to_end.browsers import TIMEOUT_MS, executable, until
from tests.end_to_end.console_site import ConsoleSite

PROBE = Path(__file__).with_name("console_probe.js")
FLEET = """
name = "measured"

[[devices]]
id = "idle"
skills = ["skills.py:hold", "skills.py:nothing"]
"""
SKILLS = """
import pathlib
import time

from asterism import skill


@skill(idempotent=True)
def hold(run: str) -> None:
    while not pathlib.Path(run).exists():
        time.sleep(0.02)


@skill(idempotent=True)
def nothing() -> None:
    time.sleep(0.0485)
"""
"""A task that waits for a file, and one of 50 ms with what is around it, so the device ends twenty in a second."""
TASKS = 500
RETRIES = 20
"""Attempts of each task of the run of 10,000 entries."""
MANY = 5_000
TABS = 8


class FailingDevice(Device):
    """Fails at once, so that the retries of a task write entries."""

    def __init__(self) -> None:
        super().__init__(IDLE)

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.begun()
        return AttemptResult(error=TaskError(code="raised", message="measured"))


def retried(plan: PlanDocument) -> PlanDocument:
    """Return a plan whose tasks all fail so many times, and run whatever the others did."""
    policy = RetryPolicy(max_attempts=RETRIES, backoff_s=0.0)
    tasks = tuple(msgspec.structs.replace(task, retry=policy) for task in plan.tasks)
    lines = tuple(LineSpec(source=it.source, target=it.target, type=DependencyType.COMPLETION_ONLY) for it in plan.dependencies)
    return msgspec.structs.replace(plan, tasks=tasks, dependencies=lines)


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that have ended, by id: of tasks that ran once, of tasks that ran so often that they have 10,000 entries, and of many."""

    plain: str
    long: str
    large: str


async def recorded(database: Path) -> Runs:
    """Record the runs that are shown."""
    store = SqliteStore.open(database, create=True)
    try:
        async with open_runtime(store, device=FailingDevice()) as runtime:
            long = await submit(runtime, retried(layered(TASKS // 10, 10, 2)))
            await runtime.drive(long)
        async with open_runtime(store) as runtime:
            plain = await submit(runtime, layered(TASKS // 10, 10, 2))
            await runtime.drive(plain)
            large = await submit(runtime, layered(MANY // 100, 100, 1))
            await runtime.drive(large)
        return Runs(plain=plain, long=long, large=large)
    finally:
        await store.close()


class Console:
    """A browser that is logged in to a server which has the recorded runs."""

    def __init__(self, site: ConsoleSite, browser: Browser, runs: Runs) -> None:
        self.site = site
        self.runs = runs
        self._browser = browser

    @classmethod
    @contextlib.contextmanager
    def opened(cls, folder: Path, browser: Browser, runs: Runs) -> Iterator[Self]:
        """Serve the database in a folder during the block."""
        site = ConsoleSite(folder)
        (folder / "fleet.toml").write_text(FLEET, encoding="utf-8")
        (folder / "skills.py").write_text(SKILLS, encoding="utf-8")
        site.start()
        try:
            yield cls(site, browser, runs)
        finally:
            site.stop()

    @contextlib.contextmanager
    def profile(self) -> Iterator[BrowserContext]:
        """A fresh profile of the browser, which has stored nothing but the session."""
        context = self._browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_init_script(path=PROBE)
        context.set_default_timeout(TIMEOUT_MS)
        port = self.site.url.rpartition(":")[2]
        context.add_cookies([{"name": f"asterism_session_{port}", "value": self.site.cookie(), "url": self.site.url}])
        try:
            yield context
        finally:
            context.close()

    def show(self, page: Page, run: str, tasks: int) -> float:
        """Show the page of a run; return the milliseconds from the navigation until its plan was painted."""
        page.goto(f"{self.site.url}/runs/{run}", wait_until="commit")
        return float(page.evaluate("tasks => probe.drawn(tasks)", tasks))

    def drawn_ms(self, run: str, tasks: int) -> float:
        """Return the milliseconds from a first navigation to the page of a run until its plan was painted."""
        with self.profile() as context:
            return self.show(context.new_page(), run, tasks)

    def steps_ms(self, run: str, tasks: int, what: str, steps: int) -> list[float]:
        """Return the milliseconds that each of so many steps took until it was painted: ``scrub``, ``zoom``, or ``pick``."""
        with self.profile() as context:
            page = context.new_page()
            self.show(page, run, tasks)
            found: list[float] = page.evaluate(f"steps => probe.{what}(steps)", steps)
            return found

    @contextlib.contextmanager
    def following(self, tabs: int = 1) -> Iterator[Followed]:
        """Show a run of tasks of 50 ms in tabs of one profile; the run waits for ``begin``, and is cancelled after the block."""
        begin = os.urandom(4).hex()
        run = self.site.submit(*_ticking(begin), title="measured")
        with self.profile() as context:
            pages = [context.new_page() for _ in range(tabs)]
            for page in pages:
                self.show(page, run, TASKS)
                page.evaluate("probe.watch()")
            yield Followed(pages, lambda: self.site.release(begin))
        with self.site.http() as http:
            http.post(f"/api/runs/{run}/commands", json={"command": "cancel"})  # refused if it has ended
        self.site.until(run, "ended")


class Update(msgspec.Struct, frozen=True):
    """When an update was committed, arrived in the page and was painted: milliseconds since 1970, of one clock."""

    committed: float
    arrived: float
    painted: float

    @property
    def ms(self) -> float:
        """Milliseconds from the commit until it was painted."""
        return self.painted - self.committed


class Followed(msgspec.Struct, frozen=True):
    """A run that tabs show.

    Attributes:
        pages: the tabs.
        begin: lets the run begin.
    """

    pages: Sequence[Page]
    begin: Callable[[], None]

    def updates(self, count: int) -> list[list[Update]]:
        """Wait until each tab has painted so many ends of tasks; return those of each tab."""
        for page in self.pages:
            until(page, f"probe.updates.length >= {count}")
        return [[Update(*it) for it in page.evaluate("probe.updates")] for page in self.pages]


def _ticking(begin: str) -> list[dict[str, Any]]:
    """Return the tasks of a run, the first of which waits for a file."""
    first, *others = [it.task_id for it in layered(TASKS // 10, 10, 2).tasks]
    after: dict[str, list[str]] = {}
    for line in layered(TASKS // 10, 10, 2).dependencies:
        after.setdefault(line.target, []).append(line.source)
    held = {"task_id": first, "device": "idle", "skill": "hold", "inputs": {"run": begin}}
    return [held, *({"task_id": it, "device": "idle", "skill": "nothing", "after": after.get(it, [first])} for it in others)]


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)]


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"], timeout=TIMEOUT_MS)
        try:
            yield browser
        finally:
            browser.close()


def _words(taken: Sequence[float]) -> str:
    return f"{statistics.median(taken):.0f} ms, p95 {p95(taken):.0f} ms"


def _recorded_rows(console: Console, repeats: int, steps: int) -> Iterator[str]:
    """Rows about runs that have ended."""
    shown = "from the first navigation until they are painted"
    long, large = console.runs.long, console.runs.large
    for run, what in ((console.runs.plain, f"{TASKS} tasks"), (long, f"{TASKS} tasks with 10,000 entries")):
        drawn = [console.drawn_ms(run, TASKS) for _ in range(repeats)]
        yield f"| console: {what}, {shown} | {statistics.median(drawn):.0f} ms |"
    yield f"| console: the same run scrubbed, ten entries a step | {_words(console.steps_ms(long, TASKS, 'drag', steps))} |"
    yield f"| console: an entry far away of the same run shown | {_words(console.steps_ms(long, TASKS, 'scrub', steps))} |"
    drawn = [console.drawn_ms(large, MANY) for _ in range(repeats)]
    yield f"| console: {MANY:,} tasks, {shown} | {statistics.median(drawn):.0f} ms |"
    for what, name in (("zoom", "a step of the zoom"), ("pick", "a task picked")):
        yield f"| console: {MANY:,} tasks, {name} | {_words(console.steps_ms(large, MANY, what, min(steps, 20)))} |"


def _live_rows(console: Console, updates: int) -> Iterator[str]:
    """Rows about a run that goes on."""
    for tabs in (1, TABS):
        with console.following(tabs) as followed:
            followed.begin()
            by_tab = followed.updates(updates)
        slowest = max(by_tab, key=lambda updates: p95([it.ms for it in updates]))
        rate = 1000 * len(slowest) / (slowest[-1].committed - slowest[0].committed)
        what = f"an update of {TASKS} live tasks, {rate:.0f} in a second"
        until = "until it is painted" if tabs == 1 else f"until the slowest of {tabs} tabs has painted it"
        here = _words([it.painted - it.arrived for it in slowest])
        yield f"| console: {what}, from the commit {until} | {_words([it.ms for it in slowest])}; since its arrival {here} |"


def _sizes() -> Iterator[str]:
    """Rows about bytes, as they are sent."""
    sizes = [len(it.packed) for it in assets().files.values()]
    yield f"| console: all its files, compressed as they are sent | {sum(sizes) / 1000:.1f} kB in {len(sizes)} files |"


def rows(*, quick: bool) -> Iterator[str]:
    """Rows of the table of figures."""
    repeats, steps, updates = (1, 10, 40) if quick else (9, 100, 400)
    yield from _sizes()
    if executable() is None:
        yield "| console: the other figures | not measured: there is no Chromium |"
        return
    with tempfile.TemporaryDirectory() as folder:
        runs = asyncio.run(recorded(Path(folder) / "runs.db"))
        with chromium() as browser, Console.opened(Path(folder), browser, runs) as console:
            yield from _recorded_rows(console, repeats, steps)
            yield from _live_rows(console, updates)
