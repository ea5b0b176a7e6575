"""Descriptions of decorated functions, and their arguments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec
import pytest

from asterism.devices.skills.skill import SkillContext, contract_of, describe, is_skill, skill
from asterism.engine.kernel.profile import Skill
from asterism.errors import InvalidInput


class Model(TypedDict):
    model: str
    accuracy: float


@dataclass
class Box:
    width: int


class Tree(msgspec.Struct):
    children: list[Tree]


@skill
def download(url: str, target: Path, tries: int = 3, mode: Literal["fast", "safe"] = "safe", *, box: Box | None = None) -> Model:
    """Download a data set
    and keep it.

    Details that no planner needs.
    """  # noqa: D205  people do write it so
    return {"model": url, "accuracy": tries / 10}


def test_a_function_is_described_from_its_hints_and_its_docstring() -> None:
    described = describe(download)
    assert described.name == "download"
    assert described.description == "Download a data set and keep it."
    assert not described.idempotent
    assert described.parameter_names() == ("url", "target", "tries", "mode", "box")
    assert described.required_names() == ("url", "target")
    properties = described.parameters["properties"]
    assert properties["url"] == {"type": "string"}
    assert properties["target"] == {"type": "string", "format": "path"}
    assert properties["tries"] == {"type": "integer", "default": 3}
    assert properties["mode"] == {"enum": ["fast", "safe"], "default": "safe"}
    assert properties["box"] == {"anyOf": [{"$ref": "#/$defs/Box"}, {"type": "null"}], "default": None}
    assert described.parameters["$defs"]["Box"]["properties"] == {"width": {"type": "integer"}}
    assert described.parameters["additionalProperties"] is False
    assert described.output_fields() == frozenset({"model", "accuracy"})


def test_a_description_survives_the_journal() -> None:
    described = describe(download)
    assert msgspec.json.decode(msgspec.json.encode(described), type=Skill) == described


def test_the_decorated_function_stays_itself() -> None:
    assert is_skill(download)
    assert download.__name__ == "download"
    assert download("u", Path("t"), tries=5) == {"model": "u", "accuracy": 0.5}


def test_the_decorator_accepts_a_name_tags_examples_and_idempotent() -> None:
    @skill(name="fetch", idempotent=True, tags=["net"], examples=["get it"])
    async def anything() -> None:
        """Fetch."""

    described = describe(anything)
    assert (described.name, described.idempotent, described.tags, described.examples) == ("fetch", True, ("net",), ("get it",))
    assert described.output == {"type": "null"}


def test_a_parameter_without_a_hint_accepts_anything() -> None:
    @skill
    def loose(value, other=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return value, other

    assert describe(loose).parameters["properties"] == {"value": {}, "other": {"default": None}}
    assert contract_of(loose).values({"value": [1]}) == {"value": [1]}


def test_the_context_is_no_argument() -> None:
    @skill
    def plain(context: SkillContext, count: int, spare: SkillContext | None = None) -> None: ...

    assert describe(plain).parameter_names() == ("count",)
    assert contract_of(plain).context == ("context", "spare")


def test_a_context_can_be_used_without_a_device() -> None:
    SkillContext().progress(0.5, "half")
    heard: list[tuple[float | None, str]] = []
    context = SkillContext(sink=lambda fraction, message: heard.append((fraction, message)))
    context.progress(7)
    context.progress(message="on")
    assert heard == [(1.0, ""), (None, "on")]


def test_arguments_become_the_types_the_function_asks_for() -> None:
    values = contract_of(download).values({"url": "u", "target": "a/b", "tries": "4", "box": {"width": "2"}})
    assert values == {"url": "u", "target": Path("a/b"), "tries": 4, "box": Box(2)}


@pytest.mark.parametrize("arguments", [{}, {"url": "u"}, {"url": "u", "target": 3}, {"url": "u", "target": "t", "more": 1}])
def test_wrong_arguments_are_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        contract_of(download).values(arguments)


def test_the_description_has_the_schema_of_whatever_return_type_is_declared() -> None:
    def boxes() -> list[Box]:
        return []

    def number() -> int:
        return 1

    def nothing_declared():  # type: ignore[no-untyped-def]  # noqa: ANN202
        return 1

    def anything() -> Any:
        return 1

    def no_json() -> complex:
        return 1j

    box = {"title": "Box", "type": "object", "properties": {"width": {"type": "integer"}}, "required": ["width"]}
    assert describe(boxes).output == {"type": "array", "items": {"$ref": "#/$defs/Box"}, "$defs": {"Box": box}}
    assert describe(number).output == {"type": "integer"}
    assert [describe(it).output for it in (nothing_declared, anything, no_json)] == [None] * 3


def test_a_recursive_output_keeps_its_definition() -> None:
    @skill
    def grow() -> Tree:
        return Tree([])

    output = describe(grow).output
    assert output is not None
    assert output["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert "Tree" in output["$defs"]


def test_parameters_without_a_name_are_rejected_with_the_functions_name() -> None:
    with pytest.raises(InvalidInput, match=r"skill .*star: its parameter `\*args` cannot be passed by name"):

        @skill
        def star(*args: int) -> None: ...

    with pytest.raises(InvalidInput, match=r"skill .*double: its parameter `\*\*kwargs` cannot"):

        @skill
        def double(**kwargs: int) -> None: ...

    with pytest.raises(InvalidInput, match=r"skill .*first: its parameter `a` cannot"):

        @skill
        def first(a: int, /) -> None: ...


def test_only_functions_are_skills() -> None:
    with pytest.raises(InvalidInput, match="a skill is a function, not <class"):
        skill(Box)


def test_hints_without_a_schema_are_rejected_with_the_skills_name() -> None:
    class Odd: ...

    def odd(value: Any) -> None: ...

    odd.__annotations__["value"] = Odd
    with pytest.raises(InvalidInput, match=r"skill odd: a type hint has no JSON Schema: .*Odd"):
        describe(skill(odd))
    odd.__annotations__["value"] = "Nowhere"
    with pytest.raises(InvalidInput, match=r"skill odd: a type hint cannot be resolved .*'Nowhere'"):
        describe(skill(odd))


def test_importing_the_decorator_imports_no_event_loop_and_no_store() -> None:
    code = "import sys; from asterism import skill; print(*({'asyncio', 'sqlite3', 'subprocess', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def _returning(hint: Any) -> Any:
    def given() -> Any: ...

    given.__annotations__ = {"return": hint}
    return contract_of(skill(given))


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (int, 1, "x"),
        (int, 1, "1"),
        (dict[str, int], {"x": 1}, {"x": "no"}),
        (dict[str, int], {}, [1]),
        (list[str], ["a"], ["a", 1]),
        (None, None, 1),
        (str | None, None, 1),
        (Literal["a", "b"], "a", "c"),
        (tuple[int, str], [1, "a"], [1]),
        (Path, "/a", 1),
        (Model, {"model": "m", "accuracy": 0.5}, {"model": "m"}),
        (Sequence[float], [1, 2.5], [None]),
    ],
)
def test_a_result_is_checked_against_its_declared_type_whatever_it_is(hint: Any, right: Any, wrong: Any) -> None:
    contract = _returning(hint)
    contract.check_result(msgspec.Raw(msgspec.json.encode(right)))
    with pytest.raises(msgspec.ValidationError):
        contract.check_result(msgspec.Raw(msgspec.json.encode(wrong)))


@pytest.mark.parametrize("hint", [Any, object, complex, Callable[[], int]])
def test_a_type_that_json_cannot_express_is_not_checked(hint: Any) -> None:
    _returning(hint).check_result(msgspec.Raw(b'"anything"'))


def test_an_unknown_argument_of_skill_is_named_with_what_there_is() -> None:
    with pytest.raises(InvalidInput, match=r"^@skill has no argument 'retries'; it takes name, idempotent, tags, examples; a plan sets"):
        skill(retries=3)  # type: ignore[call-overload]
