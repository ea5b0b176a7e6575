"""The console's pages of conversations, comparisons, schedules, devices, machines and settings, in a real browser."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.console_site import HERE, ConsoleSite, Tab, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PIN = "4711-0815"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    yield from served(ConsoleSite(tmp_path_factory.mktemp("site"), "--agents", str(HERE / "console_agents.py")))


def task(task_id: str, skill: str, **more: Any) -> dict[str, Any]:
    return {"task_id": task_id, "skill": skill, **more}


def forked(site: ConsoleSite) -> tuple[str, str]:
    """A run that failed, and a fork of it that finished."""
    origin = site.submit(
        task("prepare", "prepare"),
        task("check", "fail", after=["prepare"], inputs={"unless": "forked"}),
        task("last", "prepare", after=["check"]),
        title="Release",
    )
    site.until(origin, "ended")
    (site.folder / "forked").touch()
    with site.http() as http:
        entries = http.get(f"/api/runs/{origin}/entries?limit=1000").json()["entries"]
        at = next(it["seq"] for it in entries if it["kind"] == "attempt_ended")
        fork = http.post(f"/api/runs/{origin}/commands", json={"command": "fork", "at": at}).raise_for_status().json()["run_id"]
    site.until(fork, "ended")
    return origin, fork


def test_a_conversation_is_held_to_its_approval_and_its_secret_is_never_shown(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/conversations")
    page = tab.page
    page.get_by_role("button", name="Start").click()
    page.locator(".messages .agent", has_text="What would you like?").wait_for()
    page.get_by_label("Message", exact=True).fill("Soup\nof the day")
    page.keyboard.press("Enter")
    page.locator(".messages .agent", has_text="Your PIN?").wait_for()
    assert page.locator("input[type=password]").count() == 1
    page.get_by_label("Message", exact=True).fill(PIN)
    page.keyboard.press("Enter")
    card = page.locator(".card.question")
    card.wait_for()
    assert "Soup" in card.inner_text()
    row = page.locator(".fields tr", has_text="pin")
    assert "secret, not stored" in row.inner_text()
    assert PIN not in page.content()
    card.get_by_role("button", name="Approve").click()
    page.locator(".messages .agent", has_text="is on the way.").wait_for()
    page.locator(".composer", has_text="This conversation has ended").wait_for()
    assert card.count() == 0
    page.get_by_role("link", name="Conversations").click()
    page.locator("conversations-page td", has_text="finished").wait_for()
    tab.close()


def test_a_fork_is_compared_with_its_origin(browser: Browser, site: ConsoleSite) -> None:
    origin, fork = forked(site)
    tab = Tab(browser, site, f"/compare?a={origin}&b={fork}")
    page = tab.page
    page.get_by_text("2 differ · 1 the same").wait_for()
    marks = {
        side: page.locator(f"plan-view[aria-label='Plan of {side}'] .task[data-mark='changed']").evaluate_all(
            "found => found.map(it => [it.dataset.task, it.dataset.status])"
        )
        for side in ("A", "B")
    }
    assert marks == {"A": [["check", "failed"], ["last", "skipped"]], "B": [["check", "succeeded"], ["last", "succeeded"]]}
    check = page.locator("[data-difference='task:check']")
    assert "forked does not exist" in "".join(check.locator("del").all_inner_texts())
    assert check.locator("ins").first.inner_text().strip() == "forked"
    page.get_by_role("button", name="Table").click()
    page.get_by_role("row", name="check failed succeeded").wait_for()
    assert page.locator("tr[data-where='same'] th").all_inner_texts() == ["prepare"]
    assert "view=table" in page.url
    page.get_by_label("Number of the entry of B").fill("2")
    page.get_by_text("only in").or_(page.get_by_text("3 differ")).first.wait_for()
    tab.until(f"location.search.includes('b={fork}%402')")  # the address is written at intervals
    tab.close()


def test_a_schedule_is_added_and_run_now(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/schedules")
    page = tab.page
    page.get_by_role("button", name="Add a schedule").click()
    form = page.locator("dialog form")
    form.get_by_label("Name").fill("nightly")
    form.get_by_label("Starts").fill('{"tasks": [{"task_id": "a", "name": "a", "device": "builder", "skill": "nothing"}]}')
    form.get_by_label("Time zone").fill("Asia/Kathmandu")
    tab.expect("422")
    form.get_by_role("button", name="Add").click()
    page.locator("dialog .error", has_text="nothing").wait_for()
    form.get_by_label("Starts").fill('{"tasks": [{"task_id": "a", "name": "a", "device": "builder", "skill": "prepare"}]}')
    form.get_by_role("button", name="Add").click()
    due = page.locator(".details .times li > time").first
    expect(due).to_have_attribute("title", re.compile("02:00 in Asia/Kathmandu"))
    expect(due).not_to_contain_text("02:00")  # it has the time of the reader
    page.locator("tr", has_text="At 02:00").wait_for()
    page.get_by_role("button", name="Run now").click()
    link = page.locator(".toast").get_by_role("link", name="Show the run")
    link.click(trial=True)
    started = link.get_attribute("href")
    page.locator("tr", has_text="nightly").get_by_role("link", name="finished").wait_for()
    page.locator(".details .did a", has_text="Finished").first.wait_for()
    run = str(page.locator(".details .did a").first.get_attribute("href")).removeprefix("/runs/")
    assert site.until(run, "ended")["outcome"] == "finished"
    assert started == f"/runs/{run}"
    page.get_by_role("button", name="Pause").click()
    page.locator("tr", has_text="Paused").wait_for()
    page.get_by_role("button", name="Remove").click()
    page.locator("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("No schedules yet").wait_for()
    tab.close()


def test_a_token_is_made_shown_once_and_revoked(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/settings")
    page = tab.page
    page.get_by_label("Name").fill("ci")
    page.get_by_label("Role").select_option("operator")
    page.get_by_role("button", name="Create a token").click()
    token = page.locator(".once code").inner_text()
    page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject(new DOMException('refused', 'NotAllowedError')))")
    page.locator(".once").get_by_role("button", name="Copy").click()
    page.locator(".toast", has_text="refuses to copy").wait_for()
    with httpx2.Client(base_url=site.url, headers={"Authorization": f"Bearer {token}"}) as http:
        session = http.get("/api/session").json()
        assert (session["name"], session["roles"], session["expires_at"] > 0) == ("ci", ["operator"], True)
        page.reload()
        page.locator("tr", has_text="ci").wait_for()
        assert token not in page.content()
        page.locator("tr", has_text="ci").get_by_role("button", name="Revoke").click()
        page.locator("dialog").get_by_role("button", name="Revoke").click()
        page.locator("tr", has_text="ci").wait_for(state="detached")
        assert http.get("/api/session").status_code == 401
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    page.get_by_role("button", name="Dark", pressed=True).wait_for()
    tab.close()


def test_a_link_logs_another_browser_in(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/settings")
    tab.page.get_by_role("button", name="Log in another browser").click()
    address = tab.page.locator(".once code").inner_text()
    other = browser.new_context()
    page = other.new_page()
    page.goto(address)
    page.locator("console-shell").wait_for()
    assert "login" not in page.url
    other.close()
    tab.close()


def test_what_a_device_did_is_found_and_it_drains(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "ship", "skill": "deploy", "device": "production"}, title="Ship it")
    site.until(run, "ended")
    tab = Tab(browser, site, "/devices?period=hour")
    page = tab.page
    page.get_by_text("Choose a device").wait_for()
    expect(page.get_by_role("button", name="Drain")).to_have_count(0)
    page.locator("tr", has_text="production").locator("td").nth(1).click(force=True)  # the button of the name covers the row
    page.locator(".did li", has_text="Ship it").get_by_role("link", name="ship").wait_for()
    page.get_by_role("button", name="Drain").click()
    page.locator("tr", has_text="production").get_by_text("Draining").wait_for()
    page.get_by_role("button", name="Give it tasks again").click()
    page.locator("tr", has_text="production").get_by_text("Idle").wait_for()
    page.get_by_label("Period").select_option("between")
    page.get_by_label("To", exact=True).fill("2020-01-02T00:00")
    page.get_by_label("From", exact=True).fill("2020-01-01T00:00")
    page.get_by_text("It did nothing in this period.").wait_for()
    tab.close()


def test_a_machine_counts_the_runs_in_its_states(browser: Browser, site: ConsoleSite) -> None:
    site.until(site.submit(task("ask", "prepare", requires_approval=True), title="Waits"), "waiting")
    tab = Tab(browser, site, "/machines")
    page = tab.page
    card = page.locator(".machine", has_text="Constellation agent")
    card.locator("g.state.now", has_text="CONTINUE").wait_for()
    card.get_by_text("Transition table").click()
    assert "planning_failed" in card.locator("table").inner_text()
    assert page.locator(".machine").count() == 3
    tab.close()


def test_a_fork_is_compared_with_its_origin_and_an_entry_with_a_marked_one(browser: Browser, site: ConsoleSite) -> None:
    origin, fork = forked(site)
    last = site.until(origin, "ended")["seq"]
    tab = Tab(browser, site, f"/runs/{fork}", role="viewer")
    page = tab.page

    def act(name: str) -> None:
        page.get_by_title("More actions").click()
        page.get_by_role("button", name=name).click()

    tab.task("prepare").click()
    expect(page.locator("task-log")).to_contain_text("What it printed before is in the log of the origin.")
    act("Compare with its origin")
    page.locator("compare-page .picker a", has_text="Release").first.wait_for()
    assert page.url == f"{site.url}/compare?a={origin}&b={fork}"
    expect(page.locator("compare-page .picker")).to_contain_text(["the origin", "its copy"])
    tab.go(f"/runs/{origin}?at=2")
    act("Mark this entry")
    expect(page.get_by_title("More actions")).to_have_count(0)
    page.keyboard.press("l")
    act("Compare with the marked entry")
    page.locator("compare-page .picker a", has_text="Release").first.wait_for()
    assert page.url == f"{site.url}/compare?" + urllib.parse.urlencode({"a": f"{origin}@2", "b": f"{origin}@{last}"})
    expect(page.locator("compare-page .picker")).to_contain_text(["earlier", "later"])
    tab.close()


def test_a_page_whose_script_cannot_be_loaded_says_so_and_the_other_goes_on(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit(task("prepare", "prepare"), title="Alone")
    site.until(run, "ended")
    tab = Tab(browser, site, f"/runs/{run}")
    tab.expect("net::ERR_FAILED")
    tab.page.route("**/pages/watched.js", lambda route: route.abort())
    tab.page.reload()
    tab.page.locator("run-page").wait_for()
    tab.page.get_by_role("link", name="Devices").click()
    tab.page.get_by_role("alert").get_by_text("reload the page").wait_for()
    tab.page.go_back()
    tab.page.locator("run-page").wait_for()
    tab.close()


def test_a_text_that_is_asked_for_has_its_field_and_typed_letters_answer_no_other_question(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "deploy", "skill": "prepare", "requires_approval": True})
    site.until(run, "waiting")
    with site.http() as http:
        talk = http.post("/api/conversations", json={"agent": "Picnic"}).raise_for_status().json()["run_id"]
    tab = Tab(browser, site, "/inbox")
    tab.page.locator(".question-row", has_text="deploy").locator("button").first.click()
    tab.page.locator("[data-verb=approve]").wait_for()
    tab.page.keyboard.type("kabaka")
    tab.page.locator(".question-row", has_text="Where").locator("button").first.click()
    field = tab.page.locator("answer-form textarea")
    expect(field).to_be_focused()
    tab.page.keyboard.press("Escape")
    expect(field).not_to_be_focused()
    tab.page.keyboard.type("Okafor")
    expect(tab.page.locator(".question-row.current")).to_contain_text("Where")
    field.focus()
    tab.page.keyboard.type("In a park")
    tab.page.keyboard.press("Enter")
    tab.page.locator(".answered li", has_text="You have answered it").wait_for()
    assert site.until(run, "waiting")
    tab.close()
    with site.http() as http:
        for one in (run, talk):
            http.post(f"/api/runs/{one}/commands", json={"command": "cancel"}).raise_for_status()
