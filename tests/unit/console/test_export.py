"""The exported page as text: its modules, its policy, and the runs in it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asterism.console.export import (
    ENTRY,
    LOG_BYTES,
    LOGS,
    STYLES,
    LogTails,
    PageLog,
    PageRun,
    machine_data,
    run_page,
)
from asterism.console.scripts import WEB, linked, modules, source
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.kernel.machine import Machine
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.views import Delta

MODULES = sorted(path.relative_to(WEB).as_posix() for path in WEB.rglob("*.js"))
HOSTILE = "</script><script>alert(1)</script><!--\u2028&"
BUDGET = 45_000
"""Bytes of the script and the style of an exported page, compressed."""
MAX_LINES = 300
PARSES_HTML = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\('style'|DOMParser|srcdoc"
)
REQUESTS = re.compile(r"\bfetch\(|XMLHttpRequest|await import\(|new Worker|sendBeacon|new Image")


def page_of(text: str) -> str:
    delta = Delta(seq=1, at=1.0, kind="go", actor="ann", state="A", text=text, put={"run": {"name": text}})
    return run_page([PageRun("r", "", machine_data(CONSTELLATION_AGENT), [delta], {"r:1.0": PageLog(text)})])


def test_the_page_has_every_module_once_and_each_after_its_imports() -> None:
    assert sorted(modules(ENTRY)) == [name for name in MODULES if not name.startswith("live/")]
    script = linked(ENTRY)
    assert not re.search(r"^(?:import|export)\b", script, re.MULTILINE)
    for number, name in enumerate(modules(ENTRY)):
        own = script.split(f"const $${number} = ")[1].split("\n})();")[0]
        assert all(int(used) < number for used in re.findall(r"\$\$(\d+)", own)), name


@pytest.mark.parametrize("name", MODULES)
def test_a_module_parses_no_html_requests_nothing_and_is_short(name: str) -> None:
    text = (WEB / name).read_text(encoding="utf-8")
    assert text.startswith("// @ts-check\n/**")
    assert not PARSES_HTML.search(text)
    assert name.startswith("live/") or not REQUESTS.search(text)
    assert text.count("\n") <= MAX_LINES


def test_the_assets_are_within_their_budget() -> None:
    assets = linked(ENTRY) + "".join(map(source, STYLES))
    assert {path.name for path in WEB.glob("*.css")} == set(STYLES)
    assert len(gzip.compress(assets.encode())) <= BUDGET
    assert not re.search(r"<script|<!--|</style|url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg)", assets)


def test_the_policy_allows_the_script_and_the_style_of_the_page_and_nothing_else() -> None:
    page = page_of(HOSTILE)
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])  # type: ignore[index]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    script, style = page.split('<script type="module">')[1].split("</script>")[0], page.split("<style>")[1].split("</style>")[0]
    for name, text in (("script-src", script), ("style-src", style)):
        assert directives[name] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == "'none'"


def test_no_text_of_a_run_can_end_its_block() -> None:
    page = page_of(HOSTILE)
    block = page.split('<script type="application/json" id="runs">')[1].split("</script>")[0]
    run = json.loads(block)[0]
    assert run["deltas"][0]["put"]["run"]["name"] == HOSTILE
    assert run["logs"]["r:1.0"]["text"] == HOSTILE
    assert page.count("<script") == page.count("</script>") == 2


@pytest.mark.parametrize("machine", [CONSTELLATION_AGENT, ORCHESTRATION_LOOP, FLOW_AGENT], ids=lambda it: str(it.name))
def test_the_states_and_moves_of_a_machine_are_those_of_its_table(machine: Machine[Any]) -> None:
    data = msgspec.json.decode(msgspec.json.encode(machine_data(machine)))
    assert data["initial"] in data["states"]
    assert set(data["ends"]) < set(data["states"])
    assert {tuple(move) for move in data["moves"]} == {
        (str(state), str(target)) for state, rows in machine.table.items() for row in rows.values() for target in row.to
    }


def test_a_page_has_the_end_of_long_output_and_says_how_much_is_missing() -> None:
    tails = LogTails()
    for _ in range(3):
        tails.add("a", b"x" * LOG_BYTES, skipped=5)
    tails.add("a", b"\x1b[31mred\x1b[0m \xff end")
    tails.add("b", b"other")
    log = tails.logs()["a"]
    assert log.text.endswith("\x1b[0m \ufffd end"), "the page leaves commands for a terminal out when it shows a text"
    assert log.skipped == 2 * LOG_BYTES + 15 + len(b"\x1b[31mred\x1b[0m \xff end")
    assert tails.logs()["b"] == PageLog("other")


def test_a_page_has_the_output_of_the_last_attempts() -> None:
    tails = LogTails()
    for number in range(LOGS + 3):
        tails.add(f"r:{number}.0", b"x")
    tails.add("r:3.0", b"y")
    assert [*tails.logs()][:1] == ["r:4.0"]
    assert tails.logs()["r:3.0"].text == "xy"
    assert len(tails.logs()) == LOGS


def test_the_web_folder_has_modules_and_styles_only() -> None:
    assert {path.suffix for path in Path(WEB).rglob("*") if path.is_file()} == {".js", ".css"}
