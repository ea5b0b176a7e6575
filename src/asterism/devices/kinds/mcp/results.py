"""The end of a call of an MCP tool as the end of an attempt, and checks of values against the JSON Schema of a server.

A check has a bounded number of steps. A few lines of schema can double the work with every level
(``allOf`` with the same reference twice), refer to themselves, or compare each item with each other,
and would block this process meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import mcp_types
import msgspec
from jsonschema import exceptions as schema_errors
from jsonschema.validators import Draft202012Validator, extend, validator_for
from mcp import MCPError
from referencing import Registry

from asterism.constellation.model.task import ErrorCode
from asterism.devices.kinds.mcp.files import stored_content
from asterism.devices.kinds.mcp.tools import CONTENT_OUTPUT
from asterism.devices.kinds.remote import one_line
from asterism.devices.port import AttemptResult
from asterism.engine.kernel.profile import JsonSchema, Skill

MAX_STEPS = 250_000
"""Keywords, and their parts and items, that one check evaluates: about a second."""
MAX_ERRORS = 100
"""Errors among which the one that is reported is chosen."""
MAX_ERROR_CHARS = 2000
_left: ContextVar[list[int]] = ContextVar("asterism_schema_steps")


class TooManySteps(Exception):
    """A check needs more than ``MAX_STEPS`` steps."""


class SchemaCheck:
    """Checks values against one schema; references in it do not leave it.

    Args:
        schema: the schema, from ``listed_tools``: without patterns, and with one ``$schema`` at most.
    """

    def __init__(self, schema: JsonSchema) -> None:
        own = {name: value for name, value in schema.items() if name != "$schema"}  # another one would change the class of the validator
        dialect = {"$schema": schema["$schema"]} if isinstance(schema.get("$schema"), str) else {}
        self._validator: Any = _bounded(validator_for(dialect, default=Draft202012Validator))(own, registry=Registry())

    def refusal(self, value: Any) -> str:
        """Return why a value does not fit, empty if it does; never raises."""
        token = _left.set([MAX_STEPS])
        try:
            wrong = schema_errors.best_match(itertools.islice(self._validator.iter_errors(value), MAX_ERRORS))
        except TooManySteps:
            return f"the schema of the tool cannot be checked in {MAX_STEPS:,} steps"
        except RecursionError:
            return "the schema of the tool refers to itself without end"
        except Exception as error:  # boundary: for an invalid schema, the library may raise anything
            return f"the schema of the tool is invalid: {one_line(str(error), MAX_ERROR_CHARS)}"
        finally:
            _left.reset(token)
        if wrong is None:
            return ""
        where = ".".join(str(part) for part in wrong.absolute_path)
        return f"{where}: {cut(wrong.message)}" if where else cut(wrong.message)


def cut(text: str) -> str:
    """Return a text of a server, cut."""
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 1]}…"


@functools.cache
def _bounded(kind: Any) -> Any:
    """Return a class of validators that counts its steps."""
    counted = {name: _counted(check) for name, check in kind.VALIDATORS.items()}
    return extend(kind, {**counted, "uniqueItems": _unique, "pattern": _ignored, "patternProperties": _ignored})


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def counting(validator: Any, keyword: Any, instance: Any, schema: Any) -> Iterator[Any]:
        left = _left.get()
        left[0] -= 1 + sum(len(it) for it in (keyword, instance) if isinstance(it, list | dict))
        if left[0] < 0:
            raise TooManySteps
        yield from check(validator, keyword, instance, schema) or ()

    return counting


def _unique(_validator: Any, is_wanted: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if is_wanted is True and isinstance(instance, list):
        with contextlib.suppress(TypeError):  # a value of the SDK that is no JSON
            if len({msgspec.json.encode(item, order="deterministic") for item in instance}) < len(instance):
                yield schema_errors.ValidationError("it has an item twice")


def _ignored(*_: Any) -> Iterator[Any]:
    return iter(())


async def result_of(called: mcp_types.CallToolResult, skill: Skill, session: Any) -> AttemptResult:
    """Return the end of an attempt whose call has ended.

    Args:
        called: result of the call.
        skill: its skill.
        session: session of the server, which reads links.

    Raises:
        AttemptError: as ``stored_content``.
    """
    text = "\n".join(part.text for part in called.content if part.type == "text")
    if called.is_error:
        return AttemptResult.failed("raised", cut(text) or "the tool failed and did not say why")
    if skill.output is not None and skill.output != CONTENT_OUTPUT:
        wrong = content_refusal(skill.name, skill.output, called)
        return AttemptResult.failed("bad_result", wrong) if wrong else AttemptResult(result=called.structured_content)
    result: dict[str, Any] = {"text": text}
    if rest := await stored_content(called.content, session):
        result["content"] = rest
    if called.structured_content is not None:
        result["structured"] = called.structured_content
    return AttemptResult(result=result)


def content_refusal(name: str, output: JsonSchema, called: mcp_types.CallToolResult) -> str:
    """Return why the structured content of a result does not fit the output schema of its tool; empty if it does."""
    if called.structured_content is None and "structured_content" not in called.model_fields_set:
        return f"tool {name} has an output schema but did not return structured content"
    wrong = SchemaCheck(output).refusal(called.structured_content)
    return f"invalid structured content returned by tool {name}: {wrong}" if wrong else ""


def error_of(error: MCPError) -> AttemptResult:
    """Return the end of an attempt whose call a server refused."""
    code: ErrorCode = "bad_arguments" if error.code == mcp_types.INVALID_PARAMS else "raised"
    return AttemptResult.failed(code, one_line(error.message, MAX_ERROR_CHARS) or f"the server returned error {error.code}")
