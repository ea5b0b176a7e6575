"""Every page of the console, light and dark, wide and on a phone, as axe sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.end_to_end.console_site import HERE, ConsoleSite, Tab, served
from tests.npm.packages import npm_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SERIOUS = ("serious", "critical")
PAGES = ("/runs", "/submit", "/inbox", "/conversations", "/devices", "/schedules", "/machines", "/settings")
RUN = """async () => {
    const found = await axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice'] });
    const where = (node) => `${node.target.join(' ')}: ${node.any[0]?.message ?? node.html}`;
    return found.violations.map((it) => [it.impact, it.id, it.nodes.slice(0, 5).map(where)]);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    yield from served(ConsoleSite(tmp_path_factory.mktemp("site"), "--agents", str(HERE / "console_agents.py")))


@pytest.fixture(scope="module")
def runs(site: ConsoleSite) -> tuple[str, str, str]:
    """A run that failed, one that waits for a person, and a conversation."""
    failed = site.submit(
        {"task_id": "prepare", "skill": "write"},
        {"task_id": "check", "skill": "fail", "after": ["prepare"], "inputs": {"unless": "never"}},
        {"task_id": "last", "skill": "prepare", "after": ["check"]},
        title="Nightly",
    )
    asking = site.submit({"task_id": "go", "skill": "prepare", "requires_approval": True}, title="Release")
    with site.http() as http:
        agent = http.get("/api/agents").raise_for_status().json()["agents"][0]["name"]
        talk = http.post("/api/conversations", json={"agent": agent}).raise_for_status().json()["run_id"]
    site.until(failed, "ended")
    site.until(asking, "waiting")
    return failed, asking, talk


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_has_a_serious_finding(browser: Browser, site: ConsoleSite, runs: tuple[str, str, str], scheme: str, width: int) -> None:
    axe = (npm_package("axe-core") / "axe.min.js").read_text(encoding="utf-8")
    failed, asking, talk = runs
    addresses = (
        *PAGES,
        f"/runs/{failed}",
        f"/runs/{failed}?task=check&view=table",
        f"/runs/{failed}?task=prepare",
        f"/runs/{asking}",
        f"/conversations/{talk}",
        "/devices?device=production",
        f"/compare?a={failed}&b={failed}%405",
    )
    found: dict[str, list[Any]] = {}
    tab = Tab(browser, site, width=width, scheme=scheme)
    for address in addresses:
        tab.go(address)
        tab.until("(document.querySelector('console-shell main > *')?.innerText ?? '').length > 20")
        tab.until("!location.search.includes('task=') || document.querySelector('task-log:not([hidden])')")
        tab.until("!document.getAnimations().some((it) => it.effect.getTiming().iterations === 1)")
        tab.page.evaluate(axe)
        serious = [it for it in tab.page.evaluate(RUN) if it[0] in SERIOUS]
        if serious:
            found[address] = serious
    tab.close()
    assert found == {}
