"""The pages against the code: generated parts are up to date, tables are complete, and examples print what is shown."""

from __future__ import annotations

import configparser
import datetime as dt
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import LineSpec
from asterism.constellation.model.line import TRUTH_TABLE, DependencyType
from asterism.constellation.model.task import RetryPolicy, TaskSpec, TaskStatus
from asterism.constellation.planner.model_choice import KEY_VARIABLES, MODEL_VARIABLES, ModelChoice
from asterism.conversation.machine.events import HANDLERS, AgentStatus
from asterism.conversation.python import InputField, StandardAgent
from asterism.conversation.python.parsing import SPOKEN, is_spoken
from asterism.loop.machine.model import Gate, LoopOptions, Step
from asterism.loop.python import LoopView, OrchestrationLoop
from tests.architecture import draw_machines

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md"), *ROOT.glob("benchmarks/*.md")])
README = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
DOTTED = re.compile(r"`(asterism(?:\.\w+)+)`")


def fields_of(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def table_after(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading of the reference, without its head and without backticks."""
    section = REFERENCE.split(f"\n{heading}\n", 1)[1]
    found: list[list[str]] = []
    for line in section.splitlines():
        if line.startswith("|"):
            found.append([cell.strip().strip("`*") for cell in line.strip("|").split("|")])
        elif found:
            break
    return found[2:]


def test_the_machines_page_matches_the_tables() -> None:
    assert draw_machines.PAGE.read_text(encoding="utf-8") == draw_machines.page(), "run: python -m tests.architecture.draw_machines"


def test_the_architecture_page_lists_the_checked_layers() -> None:
    linted = configparser.ConfigParser()
    linted.read(ROOT / ".importlinter", encoding="utf-8")
    layers = linted["importlinter:contract:layers"]["layers"].replace("asterism.", "").strip().split("\n")
    line = re.search(r"^    (cli > .*)$", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert line
    assert line[1].split(" > ") == layers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_resolves(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def headings_of(page: Path) -> set[str]:
    """Return the anchors of the page's headings, by GitHub's rule."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_heading_resolves(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert [f"{path}#{heading}" for path, heading in links if heading not in headings_of(page.parent / path if path else page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    for name in DOTTED.findall(page.read_text(encoding="utf-8")):
        if name != "asterism.forms":  # a group of entry points
            importlib.import_module(name)


def test_every_test_that_a_page_names_exists() -> None:
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))}
    there = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }
    assert named - there == set()


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("### Tasks", TaskSpec),
        ("### Dependencies", LineSpec),
        ("### Retries", RetryPolicy),
        ("### Steps", Step),
        ("### Bounds", LoopOptions),
    ],
    ids=["tasks", "dependencies", "retries", "steps", "bounds"],
)
def test_the_reference_lists_every_field_of_a_plan(heading: str, kind: type[msgspec.Struct]) -> None:
    assert [row[0] for row in table_after(heading)] == fields_of(kind)


def first_cells(under: str) -> list[str]:
    """Return the names in the first column of the table that begins with this line, one by one, without backticks."""
    table = REFERENCE.split(f"\n{under}", 1)[1].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [name.strip(" `") for cell in cells for name in cell.split(", ")]


def test_the_reference_lists_the_arguments_of_a_loop_the_fields_of_its_view_and_every_gate() -> None:
    assert first_cells("| argument | default |") == list(inspect.signature(OrchestrationLoop).parameters)
    assert first_cells("| field of `LoopView` |") == fields_of(LoopView)
    assert first_cells("| gate |") == [gate or '""' for gate in get_args(Gate)]


def test_the_reference_lists_the_options_of_fields_and_agents_and_every_status_with_its_handler() -> None:
    assert first_cells("| argument of `InputField` |") == list(inspect.signature(InputField).parameters)
    assert first_cells("| option | default |") == [name for name in vars(StandardAgent)["__annotations__"] if not name.startswith("_")]
    shown = dict(re.findall(r"^\| `([A-Z_]+)` \| (?:`(on_\w+)`|none;)", REFERENCE.split("\n| status |", 1)[1], re.MULTILINE))
    assert shown == {status: HANDLERS.get(status, "") for status in AgentStatus}


def test_every_field_type_in_the_reference_can_be_given_in_words() -> None:
    listed = first_cells("| type | words that give it |")
    kinds = {kind.__name__: kind for kind in (str, int, float, Decimal, bool, dt.date, dt.time, dt.datetime, dt.timedelta, uuid.UUID)}
    assert [name for name in listed if name in kinds] == list(kinds)
    assert all(map(is_spoken, kinds.values()))
    assert [name for name in kinds if name not in SPOKEN] == []


def test_the_reference_lists_every_setting_of_the_model() -> None:
    rows = {row[0]: row[1] for row in table_after("## Models")}
    assert list(rows) == list(MODEL_VARIABLES.values())
    defaults = ModelChoice(model="openai:x")
    assert f"{defaults.timeout_s:g} by default" in rows[MODEL_VARIABLES["timeout_s"]]
    assert f"{defaults.attempts} by default" in rows[MODEL_VARIABLES["attempts"]]
    assert [name for names in KEY_VARIABLES.values() for name in names if f"`{name}`" not in REFERENCE] == []


def test_the_reference_shows_the_truth_table() -> None:
    shown = {row[0].split()[0].strip("`"): row[1:] for row in table_after("### When a dependency is satisfied")}
    assert list(shown) == list(DependencyType)
    for kind, by_status in TRUTH_TABLE.items():
        assert by_status[TaskStatus.SKIPPED] == by_status[TaskStatus.CANCELLED]  # one column shows both
        columns = [by_status[status] for status in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.SKIPPED)]
        assert shown[kind] == ["yes" if satisfied else "no" for satisfied in columns]


def test_the_plan_in_the_readme_is_valid() -> None:
    plans: list[Any] = [block for block in re.findall(r"```json\n(.*?)```", README, re.DOTALL) if '"tasks"' in block]
    assert plans
    for plan in plans:
        assert TaskConstellation.from_json(plan).validate_dag() == (True, [])


def test_the_skills_in_the_readme_run_as_written_and_print_the_output_shown(tmp_path: Path) -> None:
    section = README.split("## Constellations\n", 1)[1]
    for name, language in (("skills.py", "python"), ("fleet.toml", "toml")):
        text = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
        assert text
        (tmp_path / name).write_text(text[1], encoding="utf-8")
    command, shown = section.split("    $ asterism ", 1)[1].split("\n\nA request", 1)[0].split("\n", 1)

    environment = {**os.environ, "ASTERISM_DATABASE": str(tmp_path / "own.db")}
    asterism = [sys.executable, "-m", "asterism.cli", *shlex.split(command)]
    run = subprocess.run(asterism, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert without_times(run.stdout) == without_times(textwrap.dedent("    " + shown.lstrip()))


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", TESTING, re.DOTALL), ids=lambda text: text.splitlines()[-1][:40])
def test_every_example_of_the_page_on_testing_runs(example: str, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


WORLDS = [example for example in re.findall(r"```python\n(.*?)```", TESTING, re.DOTALL) if "ending = " in example]


@pytest.mark.parametrize("example", WORLDS, ids=lambda text: text.splitlines()[-1][:40])
def test_a_world_of_the_page_on_testing_gives_the_same_journal_twice(example: str, tmp_path: Path) -> None:
    program = f"{example}\nprint(ending.journal.decode())"
    runs = [subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout


def without_times(output: str) -> list[str]:
    """Return the lines with times of day, durations and run ids replaced by an ellipsis."""
    masked = re.sub(r"\d\d:\d\d:\d\d|\b\d+\.\d\d s|\d{6}-[0-9a-f]{8}", "…", output)
    return [line.rstrip() for line in masked.strip().splitlines()]
