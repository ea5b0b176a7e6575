"""What the page of a run shows of a task, in a real browser: its log and its files."""

from __future__ import annotations

import contextlib

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from asterism.console.scripts import linked, modules
from tests.end_to_end.console_site import ConsoleSite, Tab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_log_of_a_task_is_followed_and_what_is_hostile_in_it_stays_text(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "shout", "skill": "shout", "inputs": {"name": "heard"}}, {"task_id": "other", "skill": "prepare"})
    tab = Tab(browser, site, f"/runs/{run}?task=shout")
    log = tab.page.locator("task-log pre")
    expect(log.locator("[data-stream=stdout]").first).to_contain_text("<b>bold</b> \\u202etxt.exe\\u0007")
    expect(log.locator("[data-stream=stderr]")).to_have_text("careful")
    site.release("heard")
    expect(log).to_contain_text("Traceback (most recent call last)")
    expect(log).to_contain_text("ValueError: <i>out of paper</i>")
    expect(log).not_to_contain_text("prepared")
    with tab.page.expect_download() as found:
        tab.page.get_by_role("link", name="Download the log").click()
    assert found.value.suggested_filename == f"{run}-shout.log"
    assert "\x1b[31m<b>bold</b>" in found.value.path().read_text(encoding="utf-8")
    tab.page.get_by_role("button", name="Open large").click()
    dialog = tab.page.locator("dialog.log-dialog")
    expect(dialog.locator("pre")).to_have_css("white-space", "pre-wrap")
    dialog.get_by_label("Find in the log").fill("<I>OUT")
    expect(dialog.get_by_role("status").first).to_have_text("1 of 2")
    assert tab.page.evaluate("String([...CSS.highlights.get('found-here')][0])") == "<i>out"
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    tab.task("other").click()
    expect(log).to_have_text("prepared 1")
    tab.close()


def test_a_task_has_its_name_in_the_journal_the_footer_and_the_table(browser: Browser, site: ConsoleSite) -> None:
    first = {"task_id": "task_001", "name": "gather the parts", "skill": "prepare"}
    run = site.submit(first, {"task_id": "task_002", "name": "count them", "skill": "prepare", "after": ["task_001"]})
    site.until(run, "ended")
    tab = Tab(browser, site, f"/runs/{run}?view=table")
    expect(tab.page.locator("run-journal b[title=task_002]").first).to_have_text("count them ")
    expect(tab.page.locator("td.after")).to_have_text(["", "gather the parts"])
    tab.page.locator("run-journal button", has=tab.page.locator("b[title=task_002]")).first.click()
    expect(tab.page.locator("run-dock .entry")).to_contain_text("count them:")
    tab.close()


def test_the_search_finds_tasks_and_devices_and_says_through_what_it_has_looked(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "task_009", "name": "weigh the lamps", "skill": "prepare"})
    site.until(run, "ended")
    tab = Tab(browser, site)
    for wanted, found, address in (
        ("the LAMPS", "weigh the lamps", f"/runs/{run}?task=task_009"),
        ("produc", "production", "/devices?device=production"),
    ):
        tab.page.keyboard.press("Control+k")
        tab.page.get_by_role("combobox", name="Search").fill(wanted)
        tab.page.get_by_role("option", name=found).click()
        tab.until(f"location.pathname + location.search === '{address}'")
    tab.page.keyboard.press("Control+k")
    tab.page.get_by_role("combobox", name="Search").fill("no such word")
    expect(tab.page.locator("command-palette li")).to_contain_text("Nothing found in commands, titles of runs, devices")
    tab.close()


def test_of_a_long_log_the_page_has_the_end_and_says_so(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "shout", "skill": "shout", "inputs": {"name": "heard", "lines": 30_000}})
    site.release("heard")
    site.until(run, "ended")
    tab = Tab(browser, site, f"/runs/{run}?task=shout")
    log = tab.page.locator("task-log")
    expect(log).to_contain_text("Only the end is shown.")
    expect(log.locator("pre")).to_contain_text("line 00029999")
    expect(log.locator("pre")).not_to_contain_text("line 00000000")
    assert len(log.locator("pre").inner_text()) < 70_000
    link = log.get_by_role("link", name="Download the log").get_attribute("href")
    with site.http() as http:
        answer: httpx2.Response = http.get(link or "").raise_for_status()
    assert answer.text.count("\nline ") == 30_000
    tab.close()


def test_the_files_of_a_task_and_of_the_run_are_links_that_download_them(browser: Browser, site: ConsoleSite) -> None:
    name = "<b>résumé<b>\u200elmth.exe"
    run = site.submit(
        {"task_id": "write", "skill": "write", "inputs": {"name": name}},
        {"task_id": "again", "skill": "write", "inputs": {"name": "other.html"}, "after": ["write"]},
    )
    site.until(run, "ended")
    tab = Tab(browser, site, f"/runs/{run}?task=again")
    card = tab.page.get_by_role("region", name="Files of this task")
    expect(card.get_by_role("link")).to_have_text(["other.html", "table.csv"])
    tab.task("write").click()
    expect(card.get_by_role("listitem").first).to_have_text("<b>résumé<b>lmth.exe2.5 kB")
    expect(tab.page.get_by_role("region", name="Files of the run").get_by_role("link")).to_have_count(3)
    with tab.page.expect_download() as found:
        card.get_by_role("link", name="table.csv").click()
    assert (found.value.suggested_filename, found.value.path().read_text(encoding="utf-8")) == ("table.csv", "total\n1\n")
    tab.close()


def test_details_and_focus_stay_while_other_tasks_go_on(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit(*({"task_id": it, "skill": "hold", "inputs": {"name": f"{it} goes"}} for it in ("one", "two")))
    tab = Tab(browser, site, f"/runs/{run}?task=one")
    inputs = tab.page.locator(".card.picked summary", has_text="Inputs")
    inputs.click()
    site.release("two goes")
    expect(tab.task("two")).to_have_attribute("data-status", "succeeded")
    tab.until("document.querySelector('.entry').textContent.includes('two')")
    expect(tab.page.locator(".card.picked details[data-key=inputs]")).to_have_attribute("open", "")
    expect(inputs).to_be_focused()
    site.release("one goes")
    expect(tab.page.locator(".card.picked details[data-key=result]")).to_have_attribute("open", "")
    tab.close()


def test_a_field_in_which_somebody_types_stays_focused_when_others_come(browser: Browser) -> None:
    with contextlib.closing(browser.new_page()) as page:
        typed = page.evaluate(
            """async (source) => {
                const { fill } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
                const [place, field] = [document.createElement('div'), document.createElement('input')];
                document.body.append(place);
                fill(place, 'one', () => [field]);
                field.focus();
                fill(place, 'two', () => [document.createElement('p'), field]);
                return document.activeElement === field;
            }""",
            f"{linked('dom.js')}export const {{ fill }} = $${len(modules('dom.js')) - 1};",
        )
    assert typed
