"""The console through many pages: what a page has begun ends with it, however soon it is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.end_to_end.console_site import HERE, ConsoleSite, Tab, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GO = "address => document.querySelector('console-shell').site.go(address)"
FOLLOWED = """(() => {
    const { topics, followers, watchers } = document.querySelector('console-shell').site.channel;
    return JSON.stringify([[...topics].map(([topic, listeners]) => [topic, listeners.size]), followers.size, watchers.size, timers.size]);
})()"""
TIMERS = """
    const [begin, end] = [setInterval, clearInterval];
    const timers = (globalThis.timers = new Set());
    globalThis.setInterval = (...given) => (timers.add(begin(...given)), [...timers].at(-1));
    globalThis.clearInterval = (timer) => (timers.delete(timer), end(timer));
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    yield from served(ConsoleSite(tmp_path_factory.mktemp("site"), "--agents", str(HERE / "console_agents.py")))


def test_a_page_that_is_left_before_it_is_there_follows_nothing_and_none_is_kept(browser: Browser, site: ConsoleSite) -> None:
    hold = site.submit({"task_id": "hold", "skill": "hold"}, {"task_id": "next", "skill": "prepare", "after": ["hold"]}, title="hold")
    ask = site.submit({"task_id": "ask", "skill": "prepare", "requires_approval": True}, title="ask")
    site.until(ask, "waiting")
    with site.http() as http:
        talk = http.post("/api/conversations", json={"agent": "Picnic"}).raise_for_status().json()["run_id"]
    tab = Tab(browser, site, "/settings")
    tab.page.add_init_script(TIMERS)
    tab.go("/settings")
    tab.page.locator("settings-page .once, settings-page .makes").first.wait_for()
    devtools = tab.context.new_cdp_session(tab.page)
    names = ("runs", "inbox", "devices", "schedules", "machines", "conversations", f"conversations/{talk}", f"runs/{hold}", f"runs/{ask}")
    addresses = [f"/{name}" for name in names] + [f"/compare?a={hold}&b={ask}"]

    def visit(waits_ms: tuple[int, ...]) -> int:
        """Visit each page for so long; return how many nodes of pages are in the memory of the browser afterwards."""
        for address in addresses:
            for wait_ms in waits_ms:
                tab.page.evaluate(GO, address)
                tab.page.wait_for_timeout(wait_ms)
                tab.page.evaluate(GO, "/settings")
        tab.page.wait_for_timeout(1000)
        devtools.send("HeapProfiler.collectGarbage")
        return int(devtools.send("Memory.getDOMCounters")["nodes"])

    tab.page.evaluate(GO, f"/runs/{hold}")
    tab.page.locator("run-actions summary").wait_for()
    left = f"const {{ acts }} = document.querySelector('live-run-page'); const editing = acts.edit(); ({GO})('/settings')"
    assert tab.page.evaluate(f"async () => {{ {left}; await editing; return acts.editor; }}") is None  # it would listen to the window
    followed = tab.page.evaluate(FOLLOWED)
    nodes = visit((600,))
    assert visit((600, 600, 600)) < nodes + 300
    visit((0, 5, 15, 30, 60))
    assert tab.page.evaluate(FOLLOWED) == followed
    tab.close()
