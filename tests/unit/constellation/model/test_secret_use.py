"""References to secrets in plans: where they may stand, and which texts are references."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.fan_out import ForEach
from asterism.constellation.model.resolution import arguments_of
from asterism.constellation.model.secret_use import check_secrets
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.environment import check_process
from asterism.devices.model.references import MissingReference, secret_paths, secrets_of, with_secrets
from asterism.engine.kernel.profile import AgentProfile, ChildSpec, Fleet
from asterism.errors import InvalidInput
from tests.support.constellations import constellation

FLEET: Fleet = {"d": AgentProfile(device_id="d"), "child": AgentProfile(device_id="child", child=ChildSpec(machine="m", definition={}))}
TOKEN = "${secret.TOKEN}"  # noqa: S105 - a reference


def task(**fields: Any) -> TaskStar:
    return TaskStar(**{"task_id": "t", "device": "d", **fields})


def test_a_reference_to_a_secret_stays_one_in_the_arguments() -> None:
    given = task(inputs={"headers": {"Authorization": f"Bearer {TOKEN}"}, "list": [TOKEN]})
    assert arguments_of(given, constellation("u"), FLEET) == given.inputs
    with pytest.raises(MissingReference):
        arguments_of(given, constellation("u"), FLEET, extended=False)


def test_only_texts_of_the_plan_itself_are_references() -> None:
    template = {"token": TOKEN, "text": "${fetch}", "list": [{"a": f"x {TOKEN}"}], "edited": TOKEN}
    value = {"token": TOKEN, "text": TOKEN, "list": [{"a": f"x {TOKEN}"}], "edited": "${secret.OTHER}", "more": TOKEN}
    assert sorted(secret_paths(template, value), key=str) == [("list", 0, "a"), ("token",)]
    assert secrets_of(f"{TOKEN} ${{a.b}} ${{secret.B}}") == ["TOKEN", "B"]
    assert with_secrets(f"{TOKEN} ${{a.b}}", str.lower) == "token ${a.b}"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"inputs": {"a": "${secret}"}}, r"\${secret}: write \${secret.NAME}"),
        ({"inputs": {"a": ["${secret.a.b}"]}}, r"\${secret.a.b}: write"),
        ({"env": {"A": "${secret.a-b}"}}, r"\${secret.a-b}: write"),
        ({"inputs": {"a": f"{TOKEN} ${{b}}"}}, "a text with a secret cannot have other references"),
        ({"for_each": ForEach(items=[TOKEN])}, "the items of for_each are journaled"),
        ({"inputs": {"a": TOKEN}, "device": "child"}, "it starts a run of its own"),
        ({"inputs": {"a": TOKEN}, "device": "", "constellation": {"tasks": []}}, "it starts a run of its own"),
    ],
)
def test_a_reference_to_a_secret_that_could_not_stay_one_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(EditRefused, match=why) as refused:
        check_secrets(task(**fields), constellation("u"), FLEET)
    assert refused.value.refusal.code == "bad_reference"


def test_a_variable_can_have_a_secret_and_no_other_reference() -> None:
    check_process({"A": f"Bearer {TOKEN}"}, "", "")
    check_secrets(task(env={"A": TOKEN}), constellation("u"), FLEET)
    with pytest.raises(InvalidInput, match="can only stand in inputs"):
        check_process({"A": f"{TOKEN} ${{b}}"}, "", "")


def test_in_an_earlier_journal_a_task_may_have_the_name() -> None:
    check_secrets(task(inputs={"a": "${secret.a.b}"}), constellation("secret"), FLEET)
