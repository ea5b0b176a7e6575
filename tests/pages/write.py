"""Write into pages what their commands print: ``python -m tests.pages.write [PAGE …]``. Outputs with ``…`` are left."""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests.pages.blocks import ROOT, Session, blocks_of, commands_of
from tests.pages.test_pages import PAGES, RUN_ELSEWHERE


def written(page: str, session: Session) -> str:
    """Return a page with the outputs of its commands; each is indented as its block."""
    done = page
    for block in blocks_of(page):
        if block.not_run:
            continue
        if block.language != "console" or block.saved_as:
            session.run(block, None)
            continue
        for command in commands_of(block.text):
            output = session.output_of(command)
            if output is not None and not any("…" in line for line in command.shown):
                indent = "" if page[block.start - 1 :].startswith("\n") and not page[block.start :].startswith("    $") else "    "
                old, new = (
                    "\n".join(f"{indent}{line}".rstrip() for line in command.session(lines))
                    for lines in (command.shown, output.splitlines())
                )
                done = done.replace(f"{old}\n", f"{new}\n", 1)
    return done


def main(named: list[str]) -> None:
    """Write the pages of these names; by default all."""
    for page in [ROOT / name for name in named] or [it for it in PAGES if str(it.relative_to(ROOT)) not in RUN_ELSEWHERE]:
        with tempfile.TemporaryDirectory() as folder:
            before = page.read_text(encoding="utf-8")
            with closing(Session(Path(folder))) as session:
                after = written(before, session)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
