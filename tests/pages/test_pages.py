"""Every block of every page runs, and shows what it prints."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.pages.blocks import ROOT, Block, Session, blocks_of

PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])
RUN_ELSEWHERE = {
    "docs/testing.md": "test_every_example_of_the_page_on_testing_runs",
    "docs/machines.md": "test_the_machines_page_matches_the_tables",
}
"""Pages whose blocks another test runs, by the name of the test."""
NOT_RUN_AT_MOST = 67


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs_and_shows_what_it_prints(page: Path, tmp_path: Path) -> None:
    if str(page.relative_to(ROOT)) in RUN_ELSEWHERE:
        pytest.skip("another test runs its blocks")
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    with closing(Session(tmp_path)) as session:
        check(session, blocks, page)


def check(session: Session, blocks: list[Block], page: Path) -> None:
    for block, after in itertools.zip_longest(blocks, blocks[1:]):
        if not block.not_run:
            shown = after if after and after.language == "text" and not after.not_run else None
            assert block.runs, f"line {block.line}: neither a command nor a file; run it, or mark it: <!-- not run: REASON -->"
            assert session.run(block, shown) == [], f"line {block.line}; run: python -m tests.pages.write {page.relative_to(ROOT)}"


def test_the_unit_of_the_guide_on_servers_is_valid_for_systemd(tmp_path: Path) -> None:
    verifier = shutil.which("systemd-analyze")
    if not verifier:
        pytest.skip("there is no systemd")
    (text,) = (
        it.text
        for it in blocks_of((ROOT / "docs/guides/operate.md").read_text(encoding="utf-8"))
        if it.saved_as == "asterism-server.service"
    )
    unit = tmp_path / "asterism-server.service"
    unit.write_text(text.replace("/srv/venv/bin", str(Path(sys.executable).parent)).replace("User=asterism", "User=root"), encoding="utf-8")
    done = subprocess.run([verifier, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "asterism" in line]) == (0, [])


def test_few_blocks_are_not_run() -> None:
    reasons = [block.not_run for page in PAGES for block in blocks_of(page.read_text(encoding="utf-8")) if block.not_run]
    assert len(reasons) <= NOT_RUN_AT_MOST
