"""The scripts and styles of the console as browsers receive them: joined, without comments, and small."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from asterism.console.assets import LIVE, STYLE, WORKER, assets, styles
from asterism.console.scripts import OPERATOR, WEB, compact, modules, source, split
from tests.unit.console.test_javascript import node

HERE = Path(__file__).parent
FILES = sorted(path.relative_to(WEB).as_posix() for path in WEB.rglob("*") if path.suffix in {".js", ".css"})
FIRST_VIEW_BYTES = 81_000
"""What a browser receives for the first page that somebody opens, compressed."""
ALL_BYTES = 117_000
PAGES = ("live/pages/run.js", "live/pages/watched.js", "live/pages/others.js")


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_nothing_that_is_no_comment_and_looks_like_one(name: str) -> None:
    text = (WEB / name).read_text(encoding="utf-8")
    assert re.search(r"[^\s(\[{]/\*", text) is None, "a text such as 'image/*' would lose its end, and what follows up to a comment"
    assert all(line.count("`") % 2 == 0 for line in source(name).splitlines()), "a template of several lines would lose its indentation"
    assert "/*" not in source(name)
    texts = re.findall(r"`(?:[^`\\\n]|\\.)*`|('(?:[^'\\\n]|\\.)*')", source(name))
    assert not any(map(OPERATOR.search, texts)), "a text with an operator between spaces would lose the spaces"


def test_comments_and_indentation_are_left_out_and_nothing_else() -> None:
    text = "// @ts-check\n/** One. */\n\n/**\n * Two.\n */\nexport const at = /** @type {any} */ (f('//', `/`));\n"
    text += "  // Three.\n  go(); // four\n  say('; // five'); // it's six\n"
    assert compact(text) == "export const at = (f('//', `/`));\ngo();\nsay('; // five'); // it's six\n"


def test_the_tests_in_javascript_pass_on_the_text_without_comments(tmp_path: Path) -> None:
    web = tmp_path / WEB.relative_to(HERE.parents[2])
    for name in FILES:
        (web / name).parent.mkdir(parents=True, exist_ok=True)
        (web / name).write_text(source(name), encoding="utf-8")
    for folder in (HERE, HERE.parent / "views"):
        there = tmp_path / folder.relative_to(HERE.parents[2])
        there.mkdir(parents=True)
        for file in (*folder.glob("*.mjs"), *folder.glob("*.json")):
            shutil.copy(file, there)
    files = sorted((tmp_path / "tests" / "unit" / "console").glob("*.test.mjs"))
    assert len(files) == len(list(HERE.glob("*.test.mjs"))) > 5
    done = node("--test", *map(str, files))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scripts_of_the_live_console_have_every_module_once() -> None:
    scripts = split(LIVE)
    assert {LIVE, *PAGES} < set(scripts)
    found = [name for text in scripts.values() for name in re.findall(r"^// (\S+\.js)$", text, re.MULTILINE)]
    assert sorted(found) == sorted(set(found)) == sorted(modules(*scripts))
    files = {name for name in FILES if name.endswith(".js")}
    assert files == {*found, *modules(WORKER), *modules("export.js")}, "a module that nothing loads"
    for name, text in scripts.items():
        for line in re.findall(r"^(?:import|export)\b.*$", text, re.MULTILINE):
            assert re.fullmatch(r"import \{ [$\d, ]+ \} from '\./[./\w]+';|export \{ [$\d, ]+ \};", line), name


def test_the_style_has_every_style_sheet_once_and_those_of_the_shell_after_those_of_a_run() -> None:
    names = styles()
    assert sorted(names) == [name for name in FILES if name.endswith(".css")]
    assert names.index("page.css") < names.index("live/live.css") < names.index("live/runs.css")


@pytest.mark.parametrize("page", PAGES)
def test_the_first_page_that_somebody_opens_is_within_its_budget(page: str) -> None:
    sent = {name: len(asset.packed) for name, asset in assets().files.items()}
    assert sum(sent[name] for name in (LIVE, page, WORKER, STYLE)) <= FIRST_VIEW_BYTES
    assert sum(sent.values()) <= ALL_BYTES
