"""Parse a model's reply: accept the documented spellings, and refuse anything else with a reason.

A draft and the machine's table check whether the edits are possible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from asterism.constellation.model.documents import PlanDocument, parse_plan
from asterism.constellation.model.edits import EditRefused, parse_action
from asterism.engine.kernel.data import check_json, each_once
from asterism.errors import AsterismError, InvalidInput

MAX_REPLY = 1_000_000
"""Maximum characters of one reply."""
MAX_ACTIONS = 2_000
"""Maximum edits of one reply."""

Status = Literal["START", "CONTINUE", "FINISH", "FAIL"]
STATUSES: tuple[Status, ...] = get_args(Status)

_SPELLINGS = {
    "state": "status",
    "action": "actions",
    "task_constellation": "constellation",
    "updated_constellation": "constellation",
}
_FENCE = re.compile(r"```[a-zA-Z]*\s*\n")


class InvalidReply(AsterismError):
    """An unusable reply; the text is for the model.

    Attributes:
        code: ``invalid_reply``, or the code of the edit's refusal.
    """

    def __init__(self, why: str, code: str = "invalid_reply") -> None:
        self.code = code
        super().__init__(why)


class ConstellationAgentResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A model's reply, validated.

    Attributes:
        thought: the model's reasoning; never empty.
        status: the proposed state.
        observation: the model's comment on the prompt.
        constellation: the proposed plan.
        actions: edits, each as ``{"tool": …, "parameters": {…}}``.
        result: ``{"summary": …, …}`` for the user.
    """

    thought: str
    status: Status
    observation: str = ""
    constellation: PlanDocument | None = None
    actions: tuple[dict[str, Any], ...] = ()
    result: dict[str, Any] = msgspec.field(default_factory=dict)


def parse_reply(text: str) -> ConstellationAgentResponse:
    """Parse the text of a model.

    The text is one JSON object, with or without a code fence or other text around it. ``action``
    is read as ``actions``, and ``state`` as ``status``. An action is ``{tool, parameters}``,
    ``{function, arguments}`` or ``{action, …}``; see ``parse_action``.

    Raises:
        InvalidReply: the reply is unusable. Names the problem and the expected form.
    """
    given = _spelled(_object(text))
    plan = given.get("constellation")
    try:
        constellation = parse_plan(plan, "constellation") if plan else None
    except InvalidInput as error:
        raise InvalidReply(str(error)) from None
    return ConstellationAgentResponse(
        thought=_text(given, "thought", needed=True),
        status=_status(given),
        observation=_text(given, "observation"),
        constellation=constellation,
        actions=_actions(given.get("actions")),
        result=_result(given.get("result")),
    )


def _object(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_REPLY:
        raise InvalidReply(f"the reply has {len(text)} characters; at most {MAX_REPLY}. Say less")
    fence = _FENCE.search(text)
    start = text.find("{", fence.end() if fence else 0)
    if start < 0:
        raise InvalidReply("the reply holds no JSON object" if text.strip() else "the reply is empty")
    decoder = json.JSONDecoder(parse_constant=_no_number, object_pairs_hook=each_once)
    try:
        found, end = decoder.raw_decode(text, start)
        check_json(found, "the reply")
    except json.JSONDecodeError as error:
        raise InvalidReply(f"the reply's JSON is broken or cut off: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except (RecursionError, ValueError) as error:
        raise InvalidReply(f"the reply's JSON cannot be used: {error}") from None
    except InvalidInput as error:
        raise InvalidReply(str(error)) from None
    if '"status"' in text[:start] + text[end:]:
        raise InvalidReply("there is more than one reply in it; give one JSON object")
    return found if isinstance(found, Mapping) else {}


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _spelled(found: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, value in found.items():
        name = key.strip().lower().replace(" ", "_")
        name = _SPELLINGS.get(name, name)
        given[name] = value or given.get(name)
    return given


def _text(given: Mapping[str, Any], name: str, *, needed: bool = False) -> str:
    found = given.get(name) or ""
    if not isinstance(found, str):
        raise InvalidReply(f"{name!r} is text, not {type(found).__name__}")
    if needed and not found.strip():
        raise InvalidReply(f"missing {name!r} field: say in a sentence or two why you answer so")
    return found


def _status(given: Mapping[str, Any]) -> Status:
    found = given.get("status")
    if not found:
        raise InvalidReply(f"missing 'status' field: it is one of {', '.join(STATUSES)}")
    for status in STATUSES:
        if str(found).strip().upper() == status:
            return status
    raise InvalidReply(f"unknown status {str(found)[:40]!r}; it is one of {', '.join(STATUSES)}")


def _actions(given: Any) -> tuple[dict[str, Any], ...]:
    listed = [given] if isinstance(given, Mapping) else given or []
    if not isinstance(listed, list):
        raise InvalidReply(f"'actions' is a list of {{tool, parameters}}, not {type(listed).__name__}")
    if len(listed) > MAX_ACTIONS:
        raise InvalidReply(f"{len(listed)} actions; at most {MAX_ACTIONS}")
    actions = []
    for number, action in enumerate(listed):
        try:
            parse_action(action, f"actions[{number}]")
        except EditRefused as refused:
            raise InvalidReply(str(refused), refused.refusal.code) from None
        tool = next(action[name] for name in ("tool", "function", "action") if isinstance(action.get(name), str))
        parameters: Any = next((action[name] for name in ("parameters", "arguments") if name in action), {})
        actions.append({"tool": tool, "parameters": parameters})
    return tuple(actions)


def _result(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if given is None or given == "":
        return {}
    return {"summary": given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)}
