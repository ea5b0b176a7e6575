"""The console while its server is killed and started again: what it says meanwhile, and that it misses nothing."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Error, Route, expect

from asterism.views import Delta, fold
from tests.end_to_end.console_site import HERE, OFFLINE, ConsoleSite, Tab, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ENTRIES = "document.querySelector('live-run-page').journal.deltas.map((it) => it.seq)"
ROWS = "JSON.stringify(Object.fromEntries(document.querySelector('live-run-page').journal.rows))"
LIVE = "document.querySelector('.liveness').dataset.state === 'live'"
LOST_S = "Number(document.querySelector('.liveness').textContent.match(/^Connection lost, last update (.*) s ago$/)?.[1] ?? 0)"
CLOCKS = "[...document.querySelectorAll('.stats dd, tbody .elapsed, tbody .started, .question-row time')].map((it) => it.textContent)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    yield from served(ConsoleSite(tmp_path_factory.mktemp("site"), "--agents", str(HERE / "console_agents.py")))


def missed(tab: Tab, run: str) -> None:
    """Check that the page of a run has each entry once, and the rows of the API, and that its picture has their tasks."""
    with tab.site.http() as http:
        entries = http.get(f"/api/runs/{run}/entries?limit=1000").raise_for_status().json()["entries"]
        deltas = http.get(f"/api/runs/{run}/deltas").raise_for_status().content.splitlines()
    seqs = [it["seq"] for it in entries]
    tab.until(f"{ENTRIES}.length >= {len(seqs)}")
    assert tab.page.evaluate(ENTRIES) == seqs == list(range(1, len(seqs) + 1))
    rows = fold(msgspec.json.decode(line, type=Delta) for line in deltas)
    assert json.loads(tab.page.evaluate(ROWS)) == rows
    tasks = {name.removeprefix("task:"): row["status"] for name, row in rows.items() if name.startswith("task:")}
    expect(tab.page.locator("plan-view .task")).to_have_count(len(tasks))
    assert tab.page.locator("plan-view .task").evaluate_all("found => found.map((it) => it.dataset.task)") == list(tasks)
    if set(tasks.values()) == {"COMPLETED"}:
        expect(tab.page.locator("plan-view .task:not([data-status=succeeded])")).to_have_count(0)


def listed(tab: Tab) -> list[str]:
    """Return the addresses of the runs that the page lists."""
    return [str(it) for it in tab.page.locator("runs-page tbody a").evaluate_all("found => found.map((it) => it.getAttribute('href'))")]


def fanned(site: ConsoleSite, title: str) -> str:
    """Submit a run with a task that is under way until it is released, and others after it."""
    names = [f"step_{number}" for number in range(6)]
    return site.submit(
        {"task_id": "hold", "skill": "hold", "inputs": {"name": title}},
        *({"task_id": name, "skill": "prepare", "after": ["hold"]} for name in names),
        {"task_id": "last", "skill": "prepare", "after": names},
        title=title,
    )


def test_pages_of_a_killed_server_stop_their_clocks_and_then_show_what_happened_meanwhile(browser: Browser, site: ConsoleSite) -> None:
    goes_on = fanned(site, "goes-on")
    asks = site.submit({"task_id": "go", "skill": "prepare", "requires_approval": True}, title="asks")
    site.until(asks, "waiting")
    runs = Tab(browser, site)
    run, asked, inbox = (Tab(browser, site, address, beside=runs) for address in (f"/runs/{goes_on}?task=hold", f"/runs/{asks}", "/inbox"))
    tabs: list[Tab] = [runs, run, asked, inbox]
    inbox.page.locator(".question-row", has_text="asks").locator("button").click()
    inbox.page.locator("[data-verb=approve]").wait_for()
    expect(run.page.locator("task-log pre")).to_have_text("waiting for goes-on")
    for tab in tabs:
        tab.until(LIVE)
        tab.expect(OFFLINE)
    site.stop(signal.SIGKILL)
    for tab in tabs:
        tab.until(f"{LOST_S} > 1.5")
    stopped = [tab.page.evaluate(CLOCKS) for tab in tabs]
    for tab in tabs:
        tab.until(f"{LOST_S} > 4")
    assert [tab.page.evaluate(CLOCKS) for tab in tabs] == stopped
    assert all(stopped)
    expect(run.page.locator("run-actions button", has_text="Pause")).to_be_disabled()
    inbox.decide("a")
    inbox.page.keyboard.press("Enter")
    expect(inbox.page.locator("answer-form .verdict")).to_have_text("The connection is lost. Your answer was not sent.")
    site.command("answer", asks, "approve", "--here")
    (site.folder / "more.json").write_text(
        json.dumps({"name": "meanwhile", "tasks": [{"task_id": "a", "name": "a", "device": "builder", "skill": "prepare"}]})
    )
    site.command("run", "more.json", "--fleet", "fleet.toml", "--here")
    site.release("goes-on")
    site.start()
    for tab in tabs:
        tab.until(LIVE)
    site.until(goes_on, "ended")
    missed(run, goes_on)
    missed(asked, asks)
    with site.http() as http:
        log = http.get(f"/api/runs/{goes_on}/logs.txt?task=hold&below=false").raise_for_status().text
    assert log.count("waiting for goes-on") == 2  # the attempt was interrupted, and performed again
    expect(run.page.locator("task-log pre")).to_have_text("waiting for goes-on\nwaiting for goes-on")
    expect(asked.page.locator(".card.question")).to_have_count(0)
    expect(inbox.page.locator(".question-row.current .verdict")).to_contain_text("no longer open: approved by")
    expect(runs.page.locator("tbody td.in-words[data-status=succeeded]")).to_have_count(3)
    with site.http() as http:
        assert listed(runs) == [f"/runs/{it['run_id']}" for it in http.get("/api/runs").json()["runs"]]
    runs.close()
    for tab in tabs:
        tab.check()


def test_a_page_that_is_opened_during_an_outage_shows_itself_when_the_server_is_back(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "prepare", "skill": "prepare"}, title="later")
    site.until(run, "ended")
    tab = Tab(browser, site)
    tab.page.get_by_role("link", name="later", exact=True).wait_for()
    tab.until(LIVE)
    tab.expect(OFFLINE)
    site.stop(signal.SIGKILL)
    expect(tab.page.locator(".liveness")).to_contain_text("Connection lost")
    tab.page.get_by_role("link", name="later", exact=True).click()
    expect(tab.page.locator("main .error")).to_contain_text("The server cannot be reached.")
    other = tab.context.new_page()
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        other.goto(f"{site.url}/inbox")
    site.start()
    tab.task("prepare").wait_for()
    missed(tab, run)
    beside = Tab(browser, site, f"/runs/{run}", beside=tab)
    beside.until(LIVE)
    missed(beside, run)
    tab.close()
    beside.check()


def test_a_run_through_three_kills_is_shown_without_a_gap_in_each_tab(browser: Browser, site: ConsoleSite) -> None:
    names = [f"step_{number:02}" for number in range(40)]
    steps: list[dict[str, Any]] = [
        {"task_id": name, "skill": "hold", "inputs": {"name": f"gate-{at // 10}"}, "after": names[at - 1 : at] if at else []}
        for at, name in enumerate(names)
    ]
    run = site.submit(*steps, title="long")
    first = Tab(browser, site, f"/runs/{run}")
    tabs = [first, Tab(browser, site, f"/runs/{run}?view=table", beside=first)]
    for tab in tabs:
        tab.expect(OFFLINE)
    for gate in range(4):
        site.release(f"gate-{gate}")
        tabs[gate % 2].until(f"{ENTRIES}.length > {20 + 20 * gate}")
        if gate < 3:
            site.stop(signal.SIGKILL)
            tabs[0].until(f"!({LIVE})")
            site.start()
            tabs.append(Tab(browser, site, f"/runs/{run}", beside=first))
            tabs[-1].expect(OFFLINE)
    site.until(run, "ended")
    tabs[1].page.keyboard.press("t")
    for tab in tabs:
        missed(tab, run)
    first.close()
    for tab in tabs:
        tab.check()


def test_a_message_whose_answer_is_lost_is_taken_once_and_leaves_the_field(browser: Browser, site: ConsoleSite) -> None:
    with site.http() as http:
        talk = http.post("/api/conversations", json={"agent": "Picnic"}).raise_for_status().json()["run_id"]
    tab = Tab(browser, site, f"/conversations/{talk}")
    page, field = tab.page, tab.page.get_by_label("Message", exact=True)
    tab.until(LIVE)
    tab.expect(OFFLINE)

    def take(route: Route) -> None:  # as a server does that is killed between its entry and its answer
        site.stop(signal.SIGKILL)
        site.command("answer", talk, "respond", "--value", '"In the park"', "--no-drive")
        route.abort()

    page.route("**/messages", take, times=1)
    field.fill("In the park")
    page.keyboard.press("Enter")
    expect(page.locator("conversation-page [role=status]", has_text="The server cannot be reached.")).to_be_visible()
    expect(field).to_have_value("In the park")
    site.start()
    tab.until(LIVE)
    expect(page.locator(".messages .agent")).to_have_text([re.compile("Where will it be"), re.compile("What will you bring")])
    expect(page.locator(".messages .person:not(.sending)")).to_have_count(1)
    expect(field).to_have_value("")
    expect(page.locator("conversation-page [role=status]", has_text="cannot be reached")).to_have_count(0)
    field.fill("Soup")
    page.keyboard.press("Enter")
    expect(page.locator(".messages .agent", has_text="Soup at In the park.")).to_be_visible()
    expect(page.locator(".messages .person:not(.sending)")).to_have_count(2)
    tab.close()


def killed(site: ConsoleSite) -> Callable[[Route], None]:
    """Return a handler of a request that lets the server take it, kills the server, and loses the answer."""

    def take(route: Route) -> None:
        assert route.fetch().ok
        site.stop(signal.SIGKILL)
        route.abort()

    return take


def test_a_run_whose_submission_lost_its_answer_is_started_once_by_a_second_click(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/submit?as=plan")
    page = tab.page
    tab.expect(OFFLINE)
    parameters = {"count": {"type": "int"}}
    task = {"task_id": "a", "name": "a", "device": "builder", "skill": "prepare", "inputs": {"number": "${params.count}"}}
    page.locator("#submitted").fill(json.dumps({"name": "once", "params": parameters, "tasks": [task]}))
    page.get_by_role("button", name="Check the plan").click()
    page.get_by_label("count").fill("7")
    tab.until(LIVE)
    page.route("**/api/runs", killed(site), times=1)
    page.get_by_role("button", name="Start this plan").click()
    expect(page.locator("submit-page .verdict")).to_contain_text("Not started: The server cannot be reached.")
    expect(page.get_by_label("count")).to_have_value("7")
    site.start()
    tab.until(LIVE)
    page.get_by_role("button", name="Start this plan").click()
    page.locator("live-run-page").wait_for()
    with site.http() as http:
        assert [it["title"] for it in http.get("/api/runs?q=once").json()["runs"]] == ["once"]
    tab.close()


def test_edits_that_lost_their_answer_stay_and_are_taken_once_when_they_are_sent_again(browser: Browser, site: ConsoleSite) -> None:
    run = fanned(site, "edited")
    tab = Tab(browser, site, f"/runs/{run}")
    page, editor = tab.page, tab.page.locator("plan-editor")
    tab.expect(OFFLINE)
    tab.until(LIVE)
    page.locator("run-actions summary").click()
    page.get_by_role("button", name="Edit the plan").click()
    editor.wait_for()
    tab.task("last").click()
    editor.locator(".of-task li", has_text="waits for step_0").get_by_role("button", name="Remove").click()
    page.route("**/commands", killed(site), times=1)
    editor.get_by_role("button", name="Send 1 edit").click()
    expect(editor.locator("[role=alert]")).to_have_text("The server cannot be reached. Send the edits again: they are taken once.")
    editor.get_by_role("button", name="Add a task").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("Name").fill("half")
    expect(dialog.get_by_label("number")).to_have_count(0)  # no skill is chosen yet
    site.start()
    tab.until(LIVE)
    expect(dialog.get_by_label("Name")).to_have_value("half")
    dialog.get_by_role("button", name="Back").click()
    expect(editor.locator(".edits .problem")).to_have_text("There is no dependency step_0->last.")
    editor.get_by_role("button", name="Send 1 edit").click()
    page.locator(".toast", has_text="The run has taken 1 edit.").wait_for()
    expect(editor).to_have_count(0)
    missed(tab, run)
    site.release("edited")
    tab.close()


def test_the_clocks_of_a_page_are_right_again_after_that_of_the_computer_was_set(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "hold", "skill": "hold", "inputs": {"name": "set"}}, title="set")
    tab = Tab(browser, site, "/settings")
    tab.page.add_init_script("const now = Date.now; let ahead = 0; Date.now = () => now() + ahead; window.set = (ms) => { ahead += ms; };")
    tab.go(f"/runs/{run}")
    tab.page.locator(".liveness[data-state=live]").wait_for()
    elapsed = tab.page.locator(".stats div", has_text="Elapsed").locator("dd")
    expect(elapsed).to_have_text(re.compile(r"^[3-9]"))  # all that is read at the beginning has been read
    for ahead_s in (7200, -14_400):
        with tab.page.expect_response("**/api/**", timeout=5000):
            tab.page.evaluate(f"set({ahead_s * 1000})")
        expect(elapsed).to_have_text(re.compile(r"^\d+(\.\d)? s$"))
        expect(elapsed).not_to_have_text("0 s")
    site.release("set")
    tab.close()


def test_tabs_whose_worker_is_killed_or_cannot_be_loaded_follow_by_another_one(browser: Browser, site: ConsoleSite) -> None:
    run = fanned(site, "worker")
    first = Tab(browser, site, "/settings")
    first.context.route("**/worker.js", lambda route: route.abort(), times=1)
    first.expect(OFFLINE)
    first.go(f"/runs/{run}")
    tabs = [first, Tab(browser, site, f"/runs/{run}", beside=first)]
    for tab in tabs:
        tab.page.locator(".liveness[data-state=live]").wait_for()
    devtools = browser.new_browser_cdp_session()
    workers = [it["targetId"] for it in devtools.send("Target.getTargets")["targetInfos"] if it["type"] == "shared_worker"]
    assert workers
    for target in workers:
        devtools.send("Target.closeTarget", {"targetId": target})
    site.release("worker")
    site.until(run, "ended")
    for tab in tabs:
        missed(tab, run)
        expect(tab.page.locator(".liveness")).to_have_text("Live")
    first.close()
    tabs[1].check()


def test_a_run_that_cannot_be_followed_is_not_read_again_for_good(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "a", "skill": "prepare"}, title="problem")
    site.until(run, "ended")
    tab = Tab(browser, site, f"/runs/{run}")
    tab.task("a").wait_for()
    tab.page.locator(".liveness[data-state=live]").wait_for()
    read: list[str] = []
    tab.page.on("request", lambda request: read.append(request.url))
    tab.page.evaluate(
        f"document.querySelector('console-shell').site.channel.take({{ problem: '{run}', detail: 'Too many are followed.' }})"
    )
    expect(tab.page.locator("main [role=alert]")).to_have_text("Too many are followed. Load the page again to follow the run.")
    tab.page.wait_for_timeout(500)
    assert [url for url in read if "/deltas" in url] == []
    tab.close()


def test_a_page_whose_session_has_ended_asks_to_log_in_and_comes_back(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/inbox", role="operator")
    tab.until(LIVE)
    tab.expect("401")
    with site.http() as http:
        (token,) = [it["id"] for it in http.get("/api/tokens").json()["tokens"] if it["name"].startswith("operator-")]
        http.delete(f"/api/tokens/{token}").raise_for_status()
        link = http.post("/api/login-links").raise_for_status().json()["link"]
    tab.page.get_by_label("Login link or token").fill(f"{site.url}/#login={link}")
    tab.page.get_by_role("button", name="Log in").click()
    tab.page.locator("inbox-page").wait_for()
    tab.until(LIVE)
    tab.close()
