"""Two people, or two tabs, who do something to one run at the same moment: one of them wins, and the other one is told."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.console_site import ConsoleSite, Tab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SOON_S = 0.4
"""Seconds until the moment at which both click."""
CLICK = """([name, at]) => {
    setTimeout(() => document.querySelector(name)?.click(), at - Date.now());
}"""


def both_click(first: tuple[Tab, str], second: tuple[Tab, str], apart_ms: int) -> None:
    """Click an element of a tab and one of another tab, this many milliseconds after each other."""
    at = (time.time() + SOON_S) * 1000
    for (tab, selector), late_ms in ((first, 0), (second, apart_ms)):
        tab.page.evaluate(CLICK, [selector, at + late_ms])


def entries(site: ConsoleSite, run: str, kind: str) -> list[dict[str, Any]]:
    with site.http() as http:
        found = http.get(f"/api/runs/{run}/entries?limit=1000").raise_for_status().json()["entries"]
    return [it for it in found if it["kind"] == kind and not it["note"]]


def test_one_of_two_answers_is_taken_and_the_other_one_is_told(browser: Browser, site: ConsoleSite) -> None:
    inbox = Tab(browser, site, "/inbox", role="approver")
    page = Tab(browser, site)
    for tab in (inbox, page):
        tab.expect("409")
        tab.expect("410")
    for number, apart_ms in enumerate((0, 10, -10, 300, -300)):
        run = site.submit({"task_id": "go", "skill": "prepare", "requires_approval": True}, title=f"race {number}")
        site.until(run, "waiting")
        page.go(f"/runs/{run}")
        card = page.page.locator(".card.question")
        card.locator("[data-verb=approve]").wait_for()
        inbox.page.locator(".question-row", has_text=f"race {number}").locator("button").first.click()
        row = inbox.page.locator(".question-row.current")
        expect(row).to_contain_text(f"race {number}")
        both_click((inbox, ".question-row.current [data-verb=approve]"), (page, ".card.question [data-verb=approve]"), apart_ms)
        site.until(run, "ended")
        expect(card).to_have_count(0)
        told = inbox.page.locator("li", has=inbox.page.locator(f"a[href='/runs/{run}']"))
        expect(told).to_have_text(re.compile("no longer open|was not taken|You have approved it"))
        by = entries(site, run, "answered")[0]["actor"]
        assert len(entries(site, run, "answered")) == 1
        toasts = " ".join(page.page.locator(".toast").all_inner_texts())
        is_page = not by.startswith("approver-")
        assert ("You have approved it." in toasts) == is_page, toasts
        assert is_page or "not taken" in toasts or "No longer open" in toasts
        assert ("You have approved it" in told.inner_text()) == (not is_page), told.inner_text()
    inbox.close()
    page.close()


def test_edits_of_a_run_that_is_cancelled_at_that_moment_are_taken_or_refused_with_the_reason(browser: Browser, site: ConsoleSite) -> None:
    editing = Tab(browser, site)
    cancelling = Tab(browser, site, beside=editing)
    for tab in (editing, cancelling):
        tab.expect("409")
    for number, apart_ms in enumerate((20, -40, -200)):
        name = f"until {number}"
        run = site.submit(
            {"task_id": "hold", "skill": "hold", "inputs": {"name": name}},
            *({"task_id": it, "skill": "prepare", "after": ["hold"]} for it in ("check", "publish")),
            title=name,
        )
        editing.go(f"/runs/{run}?task=publish")
        editing.page.locator(".menu summary").click()
        editing.page.locator(".menu-items button", has_text="Edit the plan").click()
        editing.page.locator("plan-editor").get_by_role("button", name="Remove this task").click()
        expect(editing.page.locator("plan-editor .edits li")).to_have_count(1)
        cancelling.go(f"/runs/{run}")
        cancelling.page.locator("run-actions").get_by_role("button", name="Cancel").click()
        cancelling.page.locator("dialog[open]").get_by_label("Reason").fill("enough")
        both_click((editing, "plan-editor .verbs .button.primary"), (cancelling, "dialog[open] .button.primary.danger"), apart_ms)
        cancelling.page.locator(".toast", has_text="The run is cancelled").wait_for()
        site.release(name)
        assert site.until(run, "ended")["outcome"] == "cancelled"
        expect(cancelling.page.locator("run-actions").get_by_role("button", name="Cancel")).to_have_count(0)
        told = editing.page.locator(".toast", has_text="The run has taken 1 edit").or_(editing.page.locator("plan-editor [role=alert]"))
        told.first.wait_for()
        with site.http() as http:
            tasks = [name for name in http.get(f"/api/runs/{run}/view").json()["rows"] if name.startswith("task:")]
        is_taken = "task:publish" not in tasks
        assert ("has taken 1 edit" in told.first.inner_text()) == is_taken, told.first.inner_text()
        tab_rows = "[...document.querySelector('live-run-page').journal.rows.keys()].filter((it) => it.startsWith('task:')).join()"
        for tab in (editing, cancelling):
            tab.until(f"{tab_rows} === '{','.join(tasks)}'")
    editing.close()
    cancelling.check()
