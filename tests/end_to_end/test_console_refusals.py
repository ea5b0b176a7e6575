"""The console in a browser that refuses what it asks for: to store something, a shared worker, or the cookie of the login."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.end_to_end.console_site import ConsoleSite, Tab, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LIVE = "document.querySelector('.liveness')?.dataset.state === 'live'"
REFUSING = """
    const refuse = () => { throw new DOMException('refused', 'SecurityError'); };
    for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get: refuse });
    window.SharedWorker = refuse;
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    yield from served(ConsoleSite(tmp_path_factory.mktemp("site")))


def test_a_browser_that_stores_nothing_and_has_no_shared_worker_shows_a_live_run(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "hold", "skill": "hold"}, {"task_id": "last", "skill": "prepare", "after": ["hold"]}, title="live")
    tab = Tab(browser, site, "/settings")
    tab.context.add_init_script(REFUSING)
    tab.go(f"/runs/{run}")
    tab.until(LIVE)
    tab.page.get_by_title("Light or dark", exact=True).click()
    tab.until("document.documentElement.dataset.theme === 'dark'")
    tab.page.locator("run-actions summary").click()
    tab.page.get_by_role("button", name="Mark this entry").click()
    site.release()
    expect(tab.task("last")).to_have_attribute("data-status", "succeeded")
    tab.page.locator("run-actions summary").click()
    expect(tab.page.get_by_role("button", name="Compare with the marked entry")).to_be_visible()
    tab.close()


def test_a_browser_that_refuses_the_cookie_learns_so(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/settings")
    page = tab.page
    tab.expect("401")

    def refuse(route: Route) -> None:
        assert route.fetch().ok
        tab.context.clear_cookies()
        route.fulfill(status=200, json={})

    tab.context.clear_cookies()
    page.route("**/api/login", refuse)
    with site.http() as http:
        link = http.post("/api/login-links").raise_for_status().json()["link"]
    tab.page.goto("about:blank")
    tab.go(f"/#login={link}")
    expect(page.locator("log-in .error")).to_contain_text("refused the cookie")
    page.get_by_label("Login link or token").fill(Path(f"{site.database}.token").read_text(encoding="ascii"))
    with page.expect_response("**/api/login"):
        page.get_by_role("button", name="Log in").click()
    expect(page.locator("log-in .error")).to_contain_text("Allow cookies for this site")
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    tab.close()


def test_the_keys_of_the_console_do_nothing_while_somebody_has_to_log_in(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, role="operator")
    tab.until(LIVE)
    tab.expect("401")
    with site.http() as http:
        (token,) = [it["id"] for it in http.get("/api/tokens").json()["tokens"] if it["name"].startswith("operator-")]
        http.delete(f"/api/tokens/{token}").raise_for_status()
    tab.page.locator("log-in").wait_for()
    tab.page.mouse.click(5, 5)
    for key in ("Control+k", "?", "g", "d"):
        tab.page.keyboard.press(key)
    assert tab.page.url == f"{site.url}/runs"
    tab.close()
