"""The questions of the runs below a run, on its page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.console_site import FLEET, HERE, ConsoleSite, Tab, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CLERK = """
[[devices]]
id = "clerk"
kind = "agent"
loop = "loop.py:loop"
description = "writes letters"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    found = ConsoleSite(tmp_path_factory.mktemp("site"))
    (found.folder / "fleet.toml").write_text(FLEET + CLERK, encoding="utf-8")
    shutil.copy(HERE / "console_loop.py", found.folder / "loop.py")
    yield from served(found)


def test_a_question_of_a_child_run_is_answered_on_the_page_of_its_parent(browser: Browser, site: ConsoleSite) -> None:
    run = site.submit({"task_id": "letter", "device": "clerk", "inputs": {"request": "write to the bank"}}, title="Letters")
    tab = Tab(browser, site, f"/runs/{run}")
    page = tab.page
    card = page.locator("aside .card.question")
    expect(card.get_by_role("button", name="Approve")).to_be_visible(timeout=30_000)
    asked = card.get_by_role("link")
    expect(asked).to_have_attribute("href", re.compile(rf"^/runs/{run}\.\d+\.0$"))
    expect(page.locator(".asked")).to_contain_text("1")
    tab.task("letter").click()
    expect(page.locator(".card.picked")).to_contain_text("Its run")
    expect(page.locator("task-log")).to_be_hidden()
    card.get_by_role("button", name="Approve").click()
    expect(card).to_have_count(0)
    expect(page.locator(".run-bar .pill")).to_have_text("FINISH")
    assert site.until(run, "ended")["outcome"] == "finished"
    tab.close()
