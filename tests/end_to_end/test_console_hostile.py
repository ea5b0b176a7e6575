"""The console with names, results, logs and messages that look like HTML, reorder text, control terminals, or never end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.journal_file import journal_lines
from tests.end_to_end.console_site import HERE, ConsoleSite, Tab, served
from tests.end_to_end.hostile_skills import ENDLESS, HOSTILE
from tests.support.constellation_harness import Agent
from tests.support.constellations import plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TAGS = "<img src=x onerror=\"document.title='taken'\"> <b id='taken'>"
"""What a name may have: no characters that cannot be shown."""
DEVICE = "<b/id='taken'>loud</b>"
FLEET = f"""
[[devices]]
id = {json.dumps(DEVICE)}
concurrency = 4
skills = ["hostile_skills.py:shout", "hostile_skills.py:cry", "hostile_skills.py:pack"]
"""
FAULTS = r"""() => {
    const found = [];
    const most = document.documentElement.clientWidth + 1;
    const about = (it) => `${it.tagName}.${it.getAttribute('class') ?? ''} ${it.textContent.slice(0, 40)}`;
    const canBeRead = (it) => {
      if (!it || it === document.body) return false;
      const { overflowX, textOverflow } = getComputedStyle(it);
      const isCut = overflowX === 'hidden' && (textOverflow === 'ellipsis' || it.matches('plan-view *, run-timeline *'));
      return ((isCut || ['auto', 'scroll'].includes(overflowX)) && it.getBoundingClientRect().right <= most) || canBeRead(it.parentElement);
    };
    if (document.title === 'taken') found.push('a script has run');
    const made = document.querySelectorAll('img, iframe, object, script:not([src]), #taken, [onerror]');
    for (const it of made) found.push(`an element was made: ${about(it)}`);
    for (const it of [document.documentElement, document.querySelector('main')])
      if (it.scrollWidth > it.clientWidth + 1) found.push(`${it.tagName} is ${it.scrollWidth} wide instead of ${it.clientWidth}`);
    for (const it of document.body.querySelectorAll('*')) {
      const { right, width, height } = it.getBoundingClientRect();
      if (width > 1 && height > 1 && right > most && !canBeRead(it)) found.push(`ends at ${Math.round(right)}: ${about(it)}`);
      for (const { name, value } of it.attributes) if (/[\u202e\u001b\u0007]/.test(value)) found.push(`${name} of ${about(it)}`);
    }
    if (/[\u202e\u001b\u0007]/.test(document.body.innerText)) found.push('a character that cannot be seen');
    return found;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    folder: Path = tmp_path_factory.mktemp("site")
    shutil.copy(HERE / "hostile_skills.py", folder)
    found = ConsoleSite(folder, "--agents", "hostile_skills.py")
    with (folder / "fleet.toml").open("a", encoding="utf-8") as fleet:
        fleet.write(FLEET)
    yield from served(found)


def task(task_id: str, skill: str, text: str = HOSTILE, name: str = "text", **more: Any) -> dict[str, Any]:
    return {"task_id": task_id, "name": f"{task_id} {TAGS}", "device": DEVICE, "skill": skill, "inputs": {name: text}, **more}


@pytest.fixture(scope="module")
def ids(site: ConsoleSite) -> dict[str, str]:
    """Ids of a run that failed, one that asks, one of a hostile request, and a conversation."""
    failed = site.submit(
        task("shout", "shout"),
        task("endless", "shout", ENDLESS[:200_000]),
        task("cry", "cry", after=["shout"]),
        task("pack", "pack", "<img src=x onerror=alert(1)>.txt", "name"),
        task("last", "shout", after=["cry"], description=HOSTILE),
        title=TAGS,
    )
    asks = site.submit(
        task("ask", "shout", requires_approval=True), task("long", "shout", ENDLESS[:200_000], requires_approval=True), title=TAGS
    )
    endless = site.submit({"task_id": "blank", "name": " ", "skill": "prepare"}, title=ENDLESS[:500])
    with site.http() as http:

        def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
            made: dict[str, Any] = http.post(path, json=body).raise_for_status().json()
            return made

        request = post("/api/runs", {"request": f"{HOSTILE} {'y' * 15_000}"})["run_id"]
        talk = post("/api/conversations", {"agent": "Echo"})["run_id"]
        post(f"/api/conversations/{talk}/messages", {"text": f"{HOSTILE} {ENDLESS[:9000]}"})
        post("/api/schedules", {"name": "nightly", "cron": "0 2 * * *", "request": f"{HOSTILE} {'y' * 15_000}"})
        post("/api/schedules", {"name": "weekly", "cron": "0 2 * * 1", "plan": {"name": TAGS, "tasks": [task("a", "shout")]}})
    site.until(failed, "ended")
    site.until(asks, "waiting")
    return {"failed": failed, "asks": asks, "request": request, "talk": talk, "endless": endless}


def imported(site: ConsoleSite) -> str:
    """Import a run whose plan a planner has changed with hostile thoughts; return its id."""
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a", {HOSTILE: HOSTILE})
    thought = f"{HOSTILE} {ENDLESS[:50_000]}"
    added = {"tool": "add_task", "parameters": {"task_id": "c", "name": TAGS, "device": "d", "description": HOSTILE}}
    agent.plans(added, {"tool": "remove_task", "parameters": {"task_id": "b"}}, thought=thought)
    agent.ends("c", ENDLESS[:200_000])
    agent.plans(status="FINISH", thought=thought)
    records = [packer(CONSTELLATION_AGENT).pack(entry) for entry in agent.entries]
    row = RunRow(
        run_id="r", machine="constellation agent", title=TAGS, state="FINISH", status="ended", outcome="finished", seq=len(records)
    )
    (site.folder / "run.jsonl").write_text("".join(journal_lines([(row, records)])), encoding="utf-8")
    assert "imported" in site.command("import", "run.jsonl")
    return "r"


def read(tab: Tab, address: str) -> list[str]:
    """Return the faults of a page when it has been drawn."""
    tab.go(address)
    tab.until("(document.querySelector('console-shell main')?.innerText ?? '').length > 20")
    drawn = [-2, -1]
    for _ in range(100):
        if len(set(drawn[-3:])) == 1:
            break
        tab.page.wait_for_timeout(100)
        drawn.append(int(tab.page.evaluate("document.querySelectorAll('*').length")))
    return [f"{address}: {it}" for it in tab.page.evaluate(FAULTS)]


def test_hostile_thoughts_of_a_planner_are_text(browser: Browser, site: ConsoleSite) -> None:
    run = imported(site)
    tab = Tab(browser, site, f"/runs/{run}?task=c")
    card = tab.page.locator(".card.thought")
    expect(card).to_contain_text("<img src=x onerror=")
    tab.page.keyboard.press("[")
    tab.task("b").wait_for()
    assert (tab.task("c").get_attribute("data-mark"), tab.task("b").get_attribute("data-mark")) == ("added", "removed")
    assert tab.page.evaluate(FAULTS) == []
    tab.close()


@pytest.mark.parametrize("width", [1440, 390, 320])
def test_hostile_text_is_text_on_every_page(browser: Browser, site: ConsoleSite, ids: dict[str, str], width: int) -> None:
    failed, asks = ids["failed"], ids["asks"]
    tab = Tab(browser, site, width=width)
    addresses = [
        f"/runs?q={quote('<img')}",
        *(f"/{it}" for it in ("runs", "submit", "inbox", "conversations", "devices", "schedules", "machines", "settings")),
        *(f"/runs/{it}" for it in (failed, asks, ids["request"])),
        *(f"/runs/{failed}?task={it}" for it in ("shout", "endless", "cry", "pack")),
        *(f"/runs/{failed}?view=table", f"/runs/{failed}?at=9", f"/conversations/{ids['talk']}"),
        *(f"/devices?device={quote(DEVICE)}", f"/compare?a={failed}&b={asks}", f"/compare?a={failed}&b={asks}&view=table"),
        *(f"/runs/{ids['endless']}", f"/compare?a={ids['endless']}@1.5&b={ids['endless']}@1e99", "/devices?period=between&begin=1e99"),
        "/schedules?schedule=nightly",
    ]
    tab.expect("404")
    addresses += [f"/{it}{quote(TAGS)}" for it in ("runs/", "conversations/", "compare?a=", "devices?device=", "inbox?question=")]
    assert [fault for address in addresses for fault in read(tab, address)] == []
    tab.go(f"/runs/{ids['endless']}")
    expect(tab.task("blank").locator("b")).to_have_text("blank")
    tab.close()


def test_hostile_text_is_text_in_what_opens_on_a_page(browser: Browser, site: ConsoleSite, ids: dict[str, str]) -> None:
    tab = Tab(browser, site, f"/runs/{ids['failed']}?task=shout")
    page = tab.page
    log = page.locator("task-log pre")
    page.locator(".card.picked summary", has_text="Inputs").click()
    expect(log).to_contain_text("x" * 1000)
    page.get_by_label("all entries").check()
    page.locator("run-actions button", has_text="Retry failed").click()
    expect(page.locator("dialog[open]")).to_contain_text(f"cry {TAGS}")
    assert page.evaluate(FAULTS) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("<img")
    expect(page.get_by_role("option", name=TAGS).first).to_be_visible()
    assert page.evaluate(FAULTS) == []
    tab.go(f"/runs/{ids['asks']}")
    card = page.locator(".card.question", has_text="Run ask").first
    card.get_by_role("button", name="Edit").click()
    expect(card.get_by_label("text")).to_have_value(HOSTILE)
    card.get_by_role("button", name="Back").click()
    card.get_by_role("button", name="Reject").click()
    card.get_by_label("Reason").fill(f"{HOSTILE} {ENDLESS[:5000]}")
    card.get_by_role("button", name="Reject").click()
    page.locator(".toast").first.wait_for()
    expect(page.locator(".card.question")).to_have_count(1)
    assert page.evaluate(FAULTS) == []
    tab.close()


def test_hostile_plans_and_requests_are_refused_in_words(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/submit?as=plan")
    page = tab.page
    verdict = page.locator("submit-page .verdict")
    tab.expect("422")
    page.locator("#submitted").fill(json.dumps({"name": TAGS, "tasks": [task(HOSTILE, "shout")]}))
    page.get_by_role("button", name="Check the plan").click()
    expect(verdict).to_contain_text("is not usable")
    assert page.evaluate(FAULTS) == []
    page.locator("#submitted").fill(json.dumps({"name": TAGS, "tasks": [task("a", HOSTILE), task("b", ENDLESS[:50_000])]}))
    page.get_by_role("button", name="Check the plan").click()
    expect(verdict).to_contain_text("img src=x")
    assert page.evaluate(FAULTS) == []
    tab.go("/runs")
    page.get_by_label("Request in words").evaluate("it => { it.value = 'half a character: \\ud800'; it.dispatchEvent(new Event('input')) }")
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator("runs-page .submitted[data-kind=error]")).to_contain_text("request")
    assert page.evaluate(FAULTS) == []
    tab.close()


def test_a_page_that_takes_hostile_text_for_html_is_found(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/settings")
    tab.expect("Content Security Policy")
    tab.expect("404")
    tab.page.locator("main").evaluate("(main, html) => { main.innerHTML = html }", f"<p>{HOSTILE}</p><pre>{ENDLESS[:5000]}</pre>")
    faults = "\n".join(tab.page.evaluate(FAULTS))
    assert all(it in faults for it in ("an element was made: IMG", "MAIN is", "a character that cannot be seen"))
    for _ in range(200):
        if any("Content Security Policy" in it for it in tab.reported):
            break
        tab.page.wait_for_timeout(50)
    else:
        pytest.fail(f"no violation is reported: {tab.reported}")
    tab.close()
