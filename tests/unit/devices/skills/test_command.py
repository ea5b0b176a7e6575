"""The declared result of a program whose output is JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asterism.cli import main
from asterism.devices.attempts.worker_protocol import CommandJob, FieldType
from asterism.devices.kinds.local import CommandEntry, check_argv, command_skill
from asterism.devices.port import AttemptError
from asterism.devices.skills.command import outcome
from asterism.engine.kernel.profile import Skill
from asterism.errors import InvalidInput

RETURNS: dict[str, FieldType] = {"total": "int", "share": "float", "files": "list"}


def result_of(output: str, returns: dict[str, FieldType]) -> Any:
    return outcome(CommandJob(("du",), "json", returns=returns), output.encode(), b"", 0)


def test_a_result_as_declared_passes_with_what_else_it_has() -> None:
    assert result_of('{"total": 1, "share": 2, "files": [], "more": null}', RETURNS)["more"] is None
    assert result_of("[1]", {}) == [1], "without a declaration, any JSON"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("[]", "an object with total, share, files, not list"),
        ('{"total": 1}', "an object with total, share, files; share is missing"),
        ('{"total": "1", "share": 1, "files": []}', "total: integer, not str"),
        ('{"total": true, "share": 1, "files": []}', "total: integer, not bool"),
    ],
)
def test_another_result_is_refused(output: str, said: str) -> None:
    with pytest.raises(AttemptError) as refused:
        result_of(output, RETURNS)
    assert str(refused.value) == f"the output of du is not as its `returns` says: {said}"
    assert refused.value.code == "bad_result"


def test_the_skill_has_the_fields() -> None:
    skill: Skill = command_skill(CommandEntry(name="du", argv=("du",), output="json", returns=RETURNS))
    assert skill.output_fields() == frozenset(RETURNS)
    assert command_skill(CommandEntry(name="du", argv=("du",), output="json")).output is None


def test_only_json_has_fields() -> None:
    with pytest.raises(InvalidInput, match=r"^commands\[0\]\.returns: only a program with output = \"json\" has fields to declare$"):
        check_argv(CommandEntry(name="du", argv=("du",), returns=RETURNS), "commands[0]")


def test_a_reference_to_a_field_that_is_not_declared_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.toml").write_text(
        '[[devices]]\nid = "desk"\n[[devices.commands]]\nname = "du"\nargv = ["echo", \'{"total": 3}\']\n'
        'output = "json"\nreturns = {total = "int"}\n[[devices.commands]]\nname = "say"\nargv = ["echo", "{text}"]\n',
        encoding="utf-8",
    )
    plan = (
        "tasks:\n- {task_id: a, device: desk, skill: du}\n- {task_id: b, device: desk, skill: say, inputs: {text: '${a.FIELD}'}}\n"
        "dependencies: [{from: a, to: b}]\n"
    )
    for field, code in (("total", 0), ("totl", 2)):
        (tmp_path / "plan.yaml").write_text(plan.replace("FIELD", field), encoding="utf-8")
        assert main(["run", "plan.yaml", "--fleet", "fleet.toml", "--database", "runs.db"]) == code
    assert "the result of a has no 'totl'; it has total" in capsys.readouterr().err
