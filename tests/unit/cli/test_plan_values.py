"""Values of parameters, as ``--set`` gives them."""

from __future__ import annotations

import pytest

from asterism.cli.plan_values import with_values
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.python.goal import Goal
from asterism.errors import InvalidInput

PLAN = parse_plan({"params": {"url": "str", "keep": "int"}, "tasks": [{"task_id": "a"}]})


def test_a_value_is_read_by_the_type_of_its_parameter() -> None:
    goal = with_values(Goal(title="x", request="x", plan=PLAN), ["url=a=b", "keep=3"], asks=True)
    assert goal.params == {"url": "a=b", "keep": 3}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["url=x", "url=y"], "--set url=y: url is set twice; give one value"),
        (["url"], "--set url: write name=value"),
        (["=x"], "--set =x: write name=value"),
        (["ulr=x"], "the plan has no parameter 'ulr'; did you mean url?"),
        (["keep=three"], "params.keep: it is int, not str"),
        (["keep=3.5"], "params.keep: it is int, not float"),
        (["keep="], "params.keep: it is int, not str"),
        (["keep=3"], "the plan needs url (str); give each with --set name=value"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_in_one_line(values: list[str], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidInput) as refused:
        with_values(Goal(title="x", request="x", plan=PLAN), values, asks=True)
    assert str(refused.value) == why


def test_a_request_in_words_has_no_parameters() -> None:
    with pytest.raises(InvalidInput, match="--set url: a request in words has no parameters; write the value into the request"):
        with_values(Goal(title="x", request="x"), ["url=x"])
