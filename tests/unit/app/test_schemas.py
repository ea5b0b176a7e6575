"""The schemas against the readers: the same files are accepted and refused, but for checks that a schema cannot make."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from asterism.app.bootstrap import device_kinds, read_fleet
from asterism.app.schemas import FileKind, schema_of
from asterism.cli import main
from asterism.constellation.model.documents import parse_plan
from asterism.devices.fleet.fleet_file import _converted, _Document, check_tables
from asterism.devices.kinds.local import LocalEntry, _check_command
from asterism.devices.model.environment import check_process
from asterism.errors import InvalidInput
from asterism.loop.python import toml as loop_toml
from asterism.loop.python.toml import LoopDocument
from tests.unit.constellation.model import test_documents
from tests.unit.devices.fleet import test_fleet_file as test_fleet
from tests.unit.loop.python import test_toml

ROOT = Path(__file__).parents[3]
SCHEMAS = {kind: Draft202012Validator(schema_of(kind)) for kind in ("plan", "fleet", "loop")}

READERS_OWN = re.compile(
    "ids are unique|there is another|already names|must agree|cannot be shown|half a character|not a JSON number|is not text|"
    "more than .* lists and objects|cannot be written as JSON|which JSON does not have|syntax|cannot refer to|there is no|"
    r"need \d+; set it|bytes; at most|is not a condition"
)
"""The errors of checks that a schema cannot make."""

PLAN: dict[str, Any] = {
    "name": "n",
    "constellation_id": "c",
    "tasks": [
        {"task_id": "a", "device": "d", "tips": ["t"], "inputs": {"x": 1}, "timeout_s": 5, "retry": {"max_attempts": 2, "on": ["raised"]}},
        {"task_id": "b", "for_each": {"items": "${a.files}", "max_concurrent": 2}, "env": {"A": "b"}, "folder": "f", "priority": 2},
        {"task_id": "e", "constellation": {"tasks": {"k": {"device": "d"}}, "params": {"p": "int"}}, "join": "any"},
        {"task_id": "f", "constellation": {"constellation": {"tasks": [{"task_id": "k"}]}}, "for_each": [1, "x"], "tips": "one"},
    ],
    "dependencies": [{"from": "a", "to": "b"}, {"from_task_id": "a", "to_task_id": "e", "dependency_type": "SUCCESS_ONLY", "line_id": "l"}],
    "on_failure": [{"task_id": "h", "device": "d"}],
    "finally": {"z": {"role": "finally"}},
    "params": {"p": "str", "q": {"type": "int", "default": 3, "description": "d"}},
    "$schema": "plan.schema.json",
}
FLEET: dict[str, Any] = {
    "name": "f",
    "devices": [
        {
            "id": "a",
            "aliases": ["x"],
            "concurrency": 2,
            "metadata": {"k": 1},
            "env": {"A": "b"},
            "commands": [{"name": "c", "argv": ["true", "{x}"], "output": "json", "timeout_s": 3}],
        },
        {"id": "b", "kind": "agent", "loop": "l.toml"},
        {"id": "c", "kind": "flow", "flow": "f.py:F", "capabilities": ["y"]},
    ],
}
LOOP: dict[str, Any] = {
    "model": "m:n",
    "steps": [{"worker": "a", "intent": "x", "uses": ["s"]}],
    "options": {"max_steps": 9, "recovery": ["retry"], "max_tokens": None},
    "workers": {
        "a": {"function": "x.py:f", "idempotent": True},
        "b": {
            "instructions": "i",
            "tools": ["x.py:f", {"function": "x.py:f", "gate": "external"}],
            "servers": [
                {"command": ["s"], "gates": {"g": "destructive"}, "within": {"g": {"folder": "f", "arguments": ["p"]}}},
                {"url": "http://s", "headers": {"h": "v"}},
            ],
        },
    },
}


def fleet_reader(value: Any) -> None:
    document = {"name": "", **value} if isinstance(value, dict) else value
    entries = check_tables(_converted(document, _Document, "fleet", "").devices, device_kinds(), "fleet")
    if not entries:
        raise InvalidInput("devices: there are none")
    for entry in entries:
        if isinstance(entry, LocalEntry):
            check_process(entry.env, entry.folder, "")
            for command in entry.commands:
                _check_command(command, "", Path(), {})


def loop_reader(value: Any) -> None:
    loop_toml._parts(loop_toml._read(value, LoopDocument), Path())


READERS: dict[FileKind, Callable[[Any], object]] = {"plan": parse_plan, "fleet": fleet_reader, "loop": loop_reader}


@pytest.fixture(autouse=True)
def _no_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stub(handoff: dict[str, Any]) -> None:
        """Stand for a function of a file."""

    monkeypatch.setattr(loop_toml, "find", lambda name, folder: stub)


def refusal(kind: FileKind, value: Any) -> str:
    try:
        READERS[kind](value)
    except InvalidInput as error:
        return str(error) or "refused"
    return ""


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place within a JSON value, as its container and its key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


REPLACEMENTS: list[Any] = [None, 0, 1, -1, 1.5, "", "x", "a b", "${a.b}", [], [1], ["x"], {}, {"x": 1}, True]


def mutations(document: Any) -> Iterator[Any]:
    """Yield copies of a document that differ at one place: another value, a missing or an unknown key.

    The reader of plans takes any empty value of a plan's key for none, so those are left out.
    """
    for number in range(len(list(places(document)))):
        for replacement in [*REPLACEMENTS, ...]:
            changed = copy.deepcopy(document)
            container, key = list(places(changed))[number]
            if isinstance(container, dict) and "tasks" in container and replacement in (0, "", [], {}):
                continue
            if replacement is ...:
                if isinstance(container[key], dict):
                    container[key]["unknown_"] = 1
                else:
                    del container[key]
            else:
                container[key] = replacement
            yield changed


@pytest.mark.parametrize(("kind", "document"), [("plan", PLAN), ("fleet", FLEET), ("loop", LOOP)], ids=["plan", "fleet", "loop"])
def test_a_schema_and_a_reader_agree_on_a_file_and_on_each_change_at_one_place(kind: FileKind, document: Any) -> None:
    assert refusal(kind, document) == ""
    SCHEMAS[kind].validate(document)
    differing = []
    for changed in mutations(document):
        told = refusal(kind, changed)
        if SCHEMAS[kind].is_valid(changed) == bool(told) and not READERS_OWN.search(told):
            differing.append((told, changed))
    assert differing == []


def cases(*tests: Any) -> list[Any]:
    """Return the first argument of each case of parametrized tests."""
    return [case[0] for test in tests for mark in test.pytestmark for case in mark.args[1]]


def is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def with_task(changed: Any) -> Any:
    return {"tasks": [{"task_id": "a", "device": "d", **changed}]}


REFUSED_PLANS = [
    *map(with_task, cases(test_documents.test_an_invalid_task_is_reported_by_place)),
    *(
        {"tasks": [{"task_id": "a"}], "dependencies": [line]}
        for line in cases(test_documents.test_an_invalid_dependency_is_reported_by_place)
    ),
    *cases(test_documents.test_an_invalid_plan_is_reported_by_place),
    *({"tasks": [{"task_id": "b", "for_each": each}]} for each in cases(test_documents.test_an_invalid_fan_out_is_reported_by_place)),
]
REFUSED_TABLES = [
    text
    for text in (
        *cases(test_fleet.test_an_error_in_a_fleet_file_is_one_line_with_file_and_key),
        *("[[devices]]\nid = 'a'\n" + more for more in cases(test_fleet.test_an_error_in_a_skill_is_one_line_with_file_and_key)),
    )
    if "= =" not in text
]
REFUSED_LOOPS = [text for text in cases(test_toml.test_an_invalid_file_is_refused_in_one_line) if text != "x = "]


@pytest.mark.parametrize(
    ("kind", "documents"),
    [("plan", REFUSED_PLANS), ("fleet", list(map(tomllib.loads, REFUSED_TABLES))), ("loop", list(map(tomllib.loads, REFUSED_LOOPS)))],
    ids=["plan", "fleet", "loop"],
)
def test_every_file_that_the_tests_of_a_reader_refuse_is_refused_by_its_schema(kind: FileKind, documents: list[Any]) -> None:
    assert len(documents) > 10
    verdicts = [(SCHEMAS[kind].is_valid(it), refusal(kind, it), it) for it in documents if is_json(it)]
    assert [it for it in verdicts if it[0] == bool(it[1]) and not READERS_OWN.search(it[1])] == []
    assert sum(not accepted for accepted, _, _ in verdicts) > len(verdicts) * 0.4


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/*.json")), ids=lambda path: path.name)
def test_every_plan_of_the_examples_is_valid(path: Path) -> None:
    SCHEMAS["plan"].validate(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/fleet.toml")), ids=lambda path: path.parent.name)
def test_every_fleet_of_the_examples_is_valid(path: Path) -> None:
    SCHEMAS["fleet"].validate(tomllib.loads(path.read_text(encoding="utf-8")))


PAGES = [path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.md")]
BLOCKS = [block for page in PAGES for block in re.findall(r"```(json|toml|yaml)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)]


def kind_of(value: Any) -> FileKind | None:
    if not isinstance(value, dict) or isinstance(value.get("devices"), dict):
        return None  # a part of a file
    named: dict[str, FileKind] = {"tasks": "plan", "constellation": "plan", "devices": "fleet", "workers": "loop"}
    return next((kind for key, kind in named.items() if isinstance(value.get(key), list | dict)), None)


def test_every_whole_file_on_a_page_is_valid() -> None:
    load: dict[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    shown = [(kind_of(value), value) for language, text in BLOCKS for value in [load[language](text)]]
    assert {kind for kind, _ in shown} >= {"plan", "fleet", "loop"}
    for kind, value in shown:
        if kind:
            SCHEMAS[kind].validate(value)


@pytest.mark.parametrize("kind", ["plan", "fleet", "loop"])
def test_the_command_prints_a_schema_of_the_2020_12_dialect(kind: FileKind, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", kind]) == 0
    printed = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(printed)
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_schema_of_fleets_has_every_kind_of_device(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text("[[devices]]\nid = 'a'\nkind = 'toaster'\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=f"allowed: {', '.join(sorted(device_kinds()))}$"):
        asyncio.run(read_fleet(tmp_path / "fleet.toml"))
