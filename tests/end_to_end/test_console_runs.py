"""The runs page of the console in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.console_site import ConsoleSite, Tab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_new_run_appears_without_a_reload_and_the_search_is_in_the_address(browser: Browser, site: ConsoleSite) -> None:
    backup = site.submit({"task_id": "prepare", "skill": "prepare"}, title="Nightly backup")
    site.until(backup, "ended")
    tab = Tab(browser, site)
    page = tab.page
    rows = page.locator("runs-page tbody tr")
    page.get_by_role("row", name="Nightly backup").get_by_text("Finished").wait_for()
    page.evaluate("() => { window.isSamePage = true }")
    release = site.submit(
        {"task_id": "deploy", "device": "production", "skill": "deploy", "requires_approval": True}, title="Release of <b>the</b> shop"
    )
    page.get_by_role("row", name="Release of <b>the</b> shop").get_by_text("Needs you").wait_for()
    assert [it.inner_text() for it in page.locator("tbody a").all()] == ["Release of <b>the</b> shop", "Nightly backup"]
    page.keyboard.press("/")
    page.keyboard.type("nightly")
    tab.until("() => document.querySelectorAll('runs-page tbody tr').length === 1")
    assert rows.first.inner_text().startswith("Nightly backup")
    assert page.url == f"{site.url}/runs?q=nightly"
    assert page.evaluate("() => window.isSamePage")
    tab.go("/runs?status=waiting")
    page.get_by_role("row", name="Release").wait_for()
    assert rows.count() == 1
    assert page.get_by_label("Status", exact=True).input_value() == "waiting"
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.locator("run-page").wait_for()
    assert page.url.startswith(f"{site.url}/runs/{release}")
    tab.close()


def test_a_request_is_submitted_at_the_box_and_a_refusal_is_shown_there(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site)
    page = tab.page
    box, button = page.get_by_label("Request in words"), page.get_by_role("button", name="Start the run")
    tab.expect("422")
    too_long = "x" * 20_001
    box.evaluate("it => it.removeAttribute('maxlength')")
    box.fill(too_long)
    button.click()
    page.locator("runs-page .submitted[data-kind=error]").wait_for()
    assert box.input_value() == too_long
    box.fill("measure the shop")
    assert page.locator("runs-page .submitted").inner_text() == ""
    page.keyboard.press("Enter")
    page.locator("runs-page .submitted a", has_text="measure the shop").wait_for()
    page.get_by_role("row", name="measure the shop").wait_for()
    assert (box.input_value(), button.is_disabled()) == ("", True)
    tab.close()


def test_failed_runs_are_listed_alone_and_a_plan_is_one_link_away(browser: Browser, site: ConsoleSite) -> None:
    failed = site.submit({"task_id": "fail", "skill": "fail"}, title="It ends badly")
    finished = site.submit({"task_id": "prepare", "skill": "prepare"}, title="It ends well")
    for run in (failed, finished):
        site.until(run, "ended")
    tab = Tab(browser, site, "/runs?q=it+ends")
    page = tab.page
    page.get_by_role("row", name="It ends well").wait_for()
    page.get_by_label("Status", exact=True).select_option(label="Failed")
    expect(page.locator("tbody a")).to_have_text(["It ends badly"])
    assert page.url == f"{site.url}/runs?q=it+ends&status=failed"
    page.get_by_role("link", name="From a plan").click()
    page.locator("submit-page").wait_for()
    tab.close()


def test_runs_of_some_days_are_listed_alone_and_the_days_are_in_the_address(browser: Browser, site: ConsoleSite) -> None:
    site.until(site.submit({"task_id": "prepare", "skill": "prepare"}, title="Of today"), "ended")
    tab = Tab(browser, site, "/runs?q=of+today&since=2001-01-01")
    page = tab.page
    page.get_by_role("row", name="Of today").wait_for()
    assert page.get_by_label("Since").input_value() == "2001-01-01"
    page.get_by_label("Until").fill("2001-12-31")
    page.get_by_text("No run matches.").wait_for()
    tab.until("location.search === '?q=of+today&since=2001-01-01&until=2001-12-31'")
    page.get_by_label("Until").fill("")
    page.get_by_role("row", name="Of today").wait_for()
    tab.close()


def test_a_copy_names_the_run_it_is_made_from_and_a_failed_run_says_what_came_of_its_retry(browser: Browser, site: ConsoleSite) -> None:
    failed = site.submit({"task_id": "fail", "skill": "fail", "inputs": {"unless": "counted"}}, title="Stock count")
    site.until(failed, "ended")
    site.release("counted")
    with site.http() as http:
        copies = [
            http.post(f"/api/runs/{failed}/commands", json=body).raise_for_status().json()["run_id"]
            for body in ({"command": "fork", "at": 2}, {"command": "retry_failed"})
        ]
    for run in copies:
        site.until(run, "ended")
    tab = Tab(browser, site, "/runs?q=stock+count")
    rows = tab.page.locator("runs-page tbody tr")
    expect(rows).to_contain_text(["retry of Stock count", "copy of Stock count", "retried: finished"])
    assert failed not in rows.first.inner_text()
    tab.go("/runs?q=stock+count&status=failed")  # the retry is not in this list
    expect(rows).to_have_count(1)
    rows.first.get_by_role("link", name="retried: finished").click()
    tab.page.wait_for_url(f"**/runs/{copies[1]}*")
    tab.close()


def test_a_run_that_waits_for_a_place_of_a_device_is_called_queued(browser: Browser, site: ConsoleSite) -> None:
    first = site.submit(
        *({"task_id": f"hold{number}", "skill": "hold", "inputs": {"name": "free"}} for number in range(4)), title="It takes all places"
    )
    second = site.submit({"task_id": "prepare", "skill": "prepare"}, title="It has to wait")
    tab = Tab(browser, site)
    row = tab.page.get_by_role("row", name="It has to wait")
    expect(row).to_contain_text("Queued")
    expect(tab.page.get_by_role("row", name="It takes all places")).to_contain_text("Running")
    site.release("free")
    expect(row).to_contain_text("Finished")
    for run in (first, second):
        site.until(run, "ended")
    tab.close()


def chosen_of(tab: Tab) -> list[bool]:
    return [box.is_checked() for box in tab.page.get_by_role("checkbox").all()]


def test_runs_are_chosen_and_cancelled_at_once_and_one_that_refuses_says_why(browser: Browser, site: ConsoleSite) -> None:
    names = ["Many 0", "Many 1", "Many 2"]
    runs = [site.submit({"task_id": "hold", "skill": "hold", "inputs": {"name": name}}, title=name) for name in names]
    tab = Tab(browser, site, "/runs?q=many")
    page = tab.page
    expect(page.locator("tbody a")).to_have_text(names[::-1])
    page.get_by_label("Choose Many 2").click()
    page.get_by_label("Choose Many 0").click(modifiers=["Shift"])
    assert chosen_of(tab) == [True] * 3
    page.get_by_role("button", name="Clear 3 chosen").click()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    for key in ("j", "x", "j", "j", "Shift+X", "k", "x"):
        page.keyboard.press(key)
    assert chosen_of(tab) == [True, False, True]
    page.get_by_role("button", name="Cancel 2 runs").click()
    question = page.get_by_role("dialog", name="Cancel 2 runs?")
    expect(question.get_by_role("listitem")).to_have_text([f"Many 2 {runs[2]}", f"Many 0 {runs[0]}"])
    site.release("Many 0")
    site.until(runs[0], "ended")
    tab.expect("409")
    question.get_by_role("button", name="Cancel 2 runs").click()
    expect(question.get_by_role("alert")).to_have_text("Not confirmed by 1 run.")
    expect(question.get_by_role("listitem")).to_have_text([f"Many 0 run {runs[0]} has ended already (finished)"])
    question.get_by_role("button", name="Back").click()
    assert site.until(runs[2], "ended")["outcome"] == "cancelled"
    expect(page.get_by_role("row", name="Many 1")).to_contain_text("Running")
    assert chosen_of(tab) == [False, False, True]
    site.release("Many 1")
    site.until(runs[1], "ended")
    tab.close()


def test_what_failed_in_several_runs_is_retried_at_once_and_runs_that_are_not_listed_are_not_chosen(
    browser: Browser, site: ConsoleSite
) -> None:
    runs = [site.submit({"task_id": "fail", "skill": "fail", "inputs": {"unless": "stocked"}}, title=f"Stocks {n}") for n in range(2)]
    for run in runs:
        site.until(run, "ended")
    site.release("stocked")
    tab = Tab(browser, site, "/runs?q=stocks&status=failed")
    page = tab.page
    page.get_by_label("Choose Stocks 0").click()
    page.get_by_label("Choose Stocks 1").click()
    page.get_by_role("button", name="Retry failed of 2 runs").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry failed of 2 runs").click()
    expect(page.locator("tbody").get_by_text("retried: finished")).to_have_count(2)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("Choose Stocks 0").click()
    page.get_by_label("Search runs").fill("stocks 1")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Clear")).to_have_count(0)
    tab.close()


def test_a_viewer_has_no_box_to_submit_a_request(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, role="viewer")
    tab.page.get_by_label("Search runs").wait_for()
    tab.page.locator("tbody a").first.focus()
    tab.page.keyboard.press("x")
    assert tab.page.locator("runs-page form, tbody input, runs-page .verbs button").count() == 0
    tab.close()
