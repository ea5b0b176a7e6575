"""The machine of the tutorial, a user's own in one file, on the pages of the console: its run is shown and its question answered."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.console_site import ConsoleSite, Tab, served
from tests.pages.blocks import ROOT, blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    """A server that knows the form of ``copier.py``, and has the run that ``start.py`` has submitted, which asks for a folder."""
    found = ConsoleSite(tmp_path_factory.mktemp("site"))
    for block in blocks_of((ROOT / "docs" / "a-machine-of-your-own.md").read_text(encoding="utf-8")):
        if block.saved_as:
            (found.folder / block.saved_as).write_text(block.text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASTERISM_DATABASE", str(found.database))
        subprocess.run([sys.executable, "start.py"], cwd=found.folder, stdout=subprocess.PIPE, check=True)
        patch.setenv("ASTERISM_FORMS", "copier.py:FORM")
        yield from served(found)


def test_the_run_of_a_users_own_machine_is_shown_and_its_question_is_answered(browser: Browser, site: ConsoleSite) -> None:
    tab = Tab(browser, site, "/runs")
    page = tab.page
    page.get_by_role("link", name="copy two files").click()
    expect(page.locator(".run-bar h1")).to_have_text("copy two files")
    expect(page.locator("state-machine .state.now")).to_have_text("ASKING")
    card = page.locator("aside .card.question")
    expect(card).to_contain_text("Copy a.txt, b.txt into which folder?")
    rows = page.locator("task-table tbody tr")
    expect(rows).to_have_text(["file:a.txtfalse", "file:b.txtfalse"])
    tab.expect("422")
    card.get_by_label("Answer").fill("nowhere")
    card.get_by_role("button", name="Send the answer").click()
    expect(card).to_contain_text("there is no folder 'nowhere'; name one that exists")
    card.get_by_label("Answer").fill("backup")
    card.get_by_role("button", name="Send the answer").click()
    expect(card).to_have_count(0)
    expect(page.locator(".run-bar .pill")).to_have_text("DONE")
    expect(rows).to_have_text(["file:a.txttrue", "file:b.txttrue"])
    expect(page.locator(".journal")).to_contain_text('answers respond "backup"')
    assert sorted(path.name for path in (site.folder / "backup").iterdir()) == ["a.txt", "b.txt"]
    tab.close()
