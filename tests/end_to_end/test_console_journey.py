"""A day at the console, in one test: by keys, on one page that is never loaded again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.console_site import HERE, ConsoleSite, Tab, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    yield from served(ConsoleSite(tmp_path_factory.mktemp("site"), "--agents", str(HERE / "console_agents.py")))


def start(site: ConsoleSite) -> str:
    """Submit a release whose second task is under way until it is released, and whose third one needs an approval."""
    return site.submit(
        {"task_id": "prepare", "skill": "prepare"},
        {"task_id": "test", "skill": "hold", "inputs": {"name": "tested"}, "after": ["prepare"]},
        {"task_id": "deploy", "skill": "deploy", "device": "production", "requires_approval": True, "after": ["test"]},
        {"task_id": "tell", "skill": "prepare", "after": ["deploy"]},
        title="Release of the shop",
    )


def opened(tab: Tab) -> None:
    """Open the first run of the list, which goes on."""
    expect(tab.page.get_by_role("row", name="Release of the shop").get_by_text("Running")).to_be_visible()
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator(".liveness")).to_have_text("Live")
    expect(tab.task("test")).to_have_attribute("data-status", "running")


def watched(tab: Tab) -> None:
    """Show a task that is under way, with its log."""
    tab.task("test").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("task-log pre")).to_have_text("waiting for tested")


def edited(tab: Tab, run: str) -> None:
    """See an edit of somebody else, and what it changes."""
    edits = [
        {"tool": "remove_task", "parameters": {"task_id": "tell"}},
        {"tool": "add_task", "parameters": {"task_id": "audit", "name": "audit", "device": "builder", "skill": "prepare"}},
        {"tool": "add_dependency", "parameters": {"from": "deploy", "to": "audit"}},
    ]
    with tab.site.http() as http:
        http.post(f"/api/runs/{run}/commands", json={"command": "edit", "actions": edits}).raise_for_status()
    expect(tab.task("audit")).to_be_visible()
    expect(tab.task("tell")).to_have_count(0)
    tab.page.keyboard.press("d")
    expect(tab.task("audit")).to_have_attribute("data-mark", "added")
    expect(tab.task("tell")).to_have_attribute("data-mark", "removed")
    expect(tab.page.locator("plan-view .edge[data-state=added]")).to_have_count(1)
    tab.page.keyboard.press("d")
    expect(tab.task("tell")).to_have_count(0)


def approved(tab: Tab) -> None:
    """Approve the task that waits, in the inbox, and come back."""
    expect(tab.task("deploy")).to_have_attribute("data-status", "waiting")
    expect(tab.page.locator(".card.question")).to_contain_text("deploy")
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("i")
    question = tab.page.locator(".question-row", has_text="Release of the shop")
    question.wait_for()
    for _ in range(3):
        if "current" not in (question.get_attribute("class") or ""):
            tab.page.keyboard.press("j")
    expect(question.locator("answer-form [data-verb=approve]")).to_be_visible()
    tab.decide("a")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator(".answered li", has_text="You have approved it")).to_be_visible()
    tab.page.go_back()
    expect(tab.task("audit")).to_have_attribute("data-status", "succeeded")
    expect(tab.page.locator(".pill")).to_have_text("FINISH")


def read_back(tab: Tab) -> None:
    """Move the cursor back to the edit, to the entry before it, and to the end."""
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("[")
    expect(tab.task("deploy")).to_have_attribute("data-status", "pending")
    expect(tab.task("audit")).to_have_attribute("data-mark", "added")
    tab.page.keyboard.press("ArrowLeft")
    expect(tab.task("audit")).to_have_count(0)
    expect(tab.task("tell")).to_have_attribute("data-status", "pending")
    tab.until("new URLSearchParams(location.search).has('at')")
    tab.page.keyboard.press("l")
    expect(tab.task("audit")).to_have_attribute("data-status", "succeeded")
    tab.until("!new URLSearchParams(location.search).has('at')")


def found(tab: Tab, conversation: str) -> None:
    """Find a conversation by a part of its title."""
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("lunch")
    expect(tab.page.get_by_role("option", name="Lunch").first).to_be_visible()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator(".messages .agent", has_text="What would you like?")).to_be_visible()
    assert tab.page.url == f"{tab.site.url}/conversations/{conversation}"


def test_a_run_is_watched_edited_approved_and_read_back_and_a_conversation_is_found(browser: Browser, site: ConsoleSite) -> None:
    with site.http() as http:
        lunch = http.post("/api/conversations", json={"agent": "Lunch", "text": "Soup"}).raise_for_status().json()["run_id"]
    tab = Tab(browser, site)
    tab.page.evaluate("() => { window.isSamePage = true }")
    run = start(site)
    opened(tab)
    watched(tab)
    edited(tab, run)
    site.release("tested")
    approved(tab)
    read_back(tab)
    found(tab, lunch)
    assert tab.page.evaluate("() => window.isSamePage")
    tab.close()
