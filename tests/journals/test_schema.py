"""The form of journals is what its schema file says; a form that has been recorded never changes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from asterism.engine.kernel.journal import SCHEMA_VERSION, Record
from asterism.engine.kernel.machine import Event, StepContext, row
from tests.journals import schema
from tests.journals.write import GOLDEN
from tests.journals.write import path_of as journal_of
from tests.support.kettle_machine import KETTLE, TABLE, Kettle, Memory, make_kettle

WHAT_TO_DO = """the form of journals is not the one that {file} records.
Raise SCHEMA_VERSION in asterism.engine.kernel.journal, add a step to UPGRADES in asterism.engine.kernel.packing, and write the
schema file of the new version with `python -m tests.journals.schema`. Never edit a schema file or a journal that is recorded. What differs:
{differences}"""


def test_journals_have_the_form_that_is_recorded_for_their_version() -> None:
    file = schema.path_of(SCHEMA_VERSION)
    recorded = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    found = list(schema.differences(recorded, json.loads(json.dumps(schema.schema()))))
    assert not found, WHAT_TO_DO.format(file=file.name, differences="\n".join(found))


@pytest.mark.parametrize("name", GOLDEN)
def test_the_version_of_a_golden_journal_has_its_schema_file(name: str) -> None:
    versions = {msgspec.json.decode(line, type=Record).version for line in journal_of(name).read_bytes().splitlines()}
    assert all(schema.path_of(version).exists() for version in versions)


def test_a_recorded_schema_is_never_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    before = schema.path_of(SCHEMA_VERSION).stat().st_mtime_ns
    schema.main()
    assert "stays as it is" in capsys.readouterr().out
    assert schema.path_of(SCHEMA_VERSION).stat().st_mtime_ns == before


class Poured(msgspec.Struct, frozen=True):
    grams: int = msgspec.field(default=3, name="weight")


def of_kettle(tag: str, **fields: tuple[Any, Any]) -> dict[str, Any]:
    """The schema of a kettle that can be poured."""
    pour = msgspec.defstruct("Pour", [(name, *of) for name, of in fields.items()], bases=(Event,), frozen=True, kw_only=True, tag=tag)

    def move(memory: Memory, event: Event, context: StepContext) -> Kettle:
        return Kettle.COLD

    return schema.schema([make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], pour: row(move)}})])


PLAIN = {"cups": (int, 1), "into": (Poured, Poured())}


@pytest.mark.parametrize(
    ("tag", "fields", "where"),
    [
        ("fill", PLAIN, ["fill", "pour"]),
        ("pour", {"mugs": (int, 1), "into": (Poured, Poured())}, ["pour > cups", "pour > mugs"]),
        ("pour", PLAIN | {"more": (bool, False)}, ["pour > more"]),
        ("pour", PLAIN | {"cups": (float, 1)}, ["pour > cups > type"]),
        ("pour", PLAIN | {"cups": (int, 2)}, ["pour > cups > default"]),
        ("pour", PLAIN | {"cups": (int | None, 1)}, ["pour > cups > type"]),
        (
            "pour",
            PLAIN | {"into": (msgspec.defstruct("P", [("weight", int, 4)]), Poured())},
            ["pour > into > type > fields > weight > default"],
        ),
        ("pour", PLAIN | {"into": (msgspec.defstruct("P", [("weight", int, 3)]), Poured())}, []),
    ],
)
def test_what_changes_the_form_is_a_difference_and_a_name_of_python_is_none(
    tag: str, fields: dict[str, tuple[Any, Any]], where: list[str]
) -> None:
    found = schema.differences(of_kettle("pour", **PLAIN), of_kettle(tag, **fields))
    assert [line.partition(":")[0] for line in found] == [f"machines > {KETTLE.name} > events > {it}" for it in where]
