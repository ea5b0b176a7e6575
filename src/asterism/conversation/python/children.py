"""Child runs: start a constellation or a flow agent from a conversation, or a flow agent from a loop or a constellation."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from asterism.constellation.machine.definition import ConstellationDefinition
from asterism.constellation.machine.events import RunOptions
from asterism.constellation.model.parameters import values_of
from asterism.conversation.machine.events import ConversationLimits, FlowDefinition
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.plans import PlanSource, plan_of
from asterism.conversation.python.registry import name_of
from asterism.conversation.python.resumption import declared_fields
from asterism.engine.control.children import ChildEnded, StartChild, child_start, event_data
from asterism.engine.kernel.data import as_json
from asterism.engine.kernel.machine import StartRequest
from asterism.engine.kernel.profile import AgentProfile, ChildSpec
from asterism.engine.ports.store import InquiryRow
from asterism.errors import AsterismError, InvalidInput
from asterism.words.reading.words import words_of


class ChildFailed(AsterismError):
    """A child run failed or was cancelled.

    Attributes:
        ended: end of the child run.
    """

    def __init__(self, key: str, ended: ChildEnded) -> None:
        self.ended = ended
        super().__init__(f"{key} {ended.outcome}" + (f": {ended.reason}" if ended.reason else ""))


def constellation(
    plan: PlanSource | None = None,
    fleet: Iterable[AgentProfile] = (),
    *,
    request: str = "",
    params: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> StartChild:
    """Return the start of a child constellation; the runtime of the conversation must have its devices.

    Args:
        plan: the path of a plan file, from the folder of the caller's file; a ``Constellation``; or a plan. Without one,
            the runtime's planner plans ``request``.
        fleet: profiles of the devices; by default all devices of the runtime.
        request: the request in words.
        params: values of the plan's parameters.
        inputs: values for ``${inputs.…}`` in the plan.
        options: options of the run.

    Raises:
        InvalidInput: the plan is invalid, a parameter is unknown, missing or of another type, or a value is not JSON.
    """
    caller = inspect.currentframe()
    file = caller.f_back.f_globals.get("__file__") if caller and caller.f_back else None
    document = None if plan is None else plan_of(plan, Path(file).absolute().parent if file else Path.cwd())
    if params is not None:
        inputs = {**(inputs or {}), **values_of(document.params if document else {}, as_json(params, "params"))}
    child = ConstellationDefinition(fleet=tuple(fleet), plan=document, options=options or RunOptions()).as_child()
    start = StartRequest(definition=child.definition, request=request, inputs=dict(inputs or {}))
    return child_start(child.machine, start, request or (document.name if document else "") or "constellation")


def flow(agent: type, text: str = "", **values: Any) -> StartChild:
    """Return the start of a child conversation; its questions are passed up to this conversation.

    Args:
        agent: class of the flow agent.
        text: first message.
        values: known field values by name, without secrets: the start of a run is journaled.

    Raises:
        InvalidInput: a value belongs to a secret field, or is not JSON.
    """
    kind: Any = agent
    if secret := [name for name, field in kind.input_fields().items() if field.secret and name in values]:
        raise InvalidInput(
            f"{', '.join(secret)} of {kind.__name__} is secret, and the start of a run is journaled; let the child ask for it"
        )
    start = StartRequest(definition=_defined(kind), request=text, inputs=values)
    return child_start(FLOW_AGENT.name, start, kind.description or kind.__name__)


def as_child(agent: type) -> ChildSpec:
    """Return a flow agent as a worker of a loop (``loop.python.ChildWorker``) or as a device (kind ``flow``).

    The intent of the step or task is its first message, and arguments named like a field set that field. Secret fields
    cannot be set.

    Args:
        agent: class of the flow agent.
    """
    kind: Any = agent
    open_fields = tuple(name for name, field in kind.input_fields().items() if not field.secret)
    return ChildSpec(machine=FLOW_AGENT.name, definition=_defined(agent), accepts=open_fields)


def _defined(agent: Any) -> dict[str, Any]:
    limits = ConversationLimits(approval_s=agent.approval_timeout_s, idle_s=agent.idle_timeout_s)
    declared = declared_fields(agent)
    return event_data(FlowDefinition(agent=name_of(agent), limits=limits, requires_approval=agent.requires_approval, declared=declared))


def check_same_child(key: str, started: StartChild, asked: StartChild) -> None:
    """Check that the child of a key is asked for as it was started; its devices, limits and options may have changed.

    Raises:
        InvalidInput: another child is asked for.
    """
    was, now = _parts(started), _parts(asked)
    if changed := [part for part in was if was[part] != now[part]]:
        raise InvalidInput(
            f"child {key} was started before, and differs from this one in its {' and '.join(changed)}; give the new child a key of its own"
        )


_MAY_CHANGE = frozenset(("declared", "fleet", "has_critique", "limits", "options", "requires_approval", "workers", "working_directory"))
"""The parts of a definition that do not say what is to be done, and may change with the code."""


def _parts(child: StartChild) -> dict[str, Any]:
    definition = {name: value for name, value in child.start.definition.items() if name not in _MAY_CHANGE}
    return {"machine": child.machine, "plan or agent": definition, "request": child.start.request, "inputs": child.start.inputs}


def question_of(asked: InquiryRow, language: str) -> str:
    """Return the question of a child run, with the arguments that a yes approves, and with "(yes/no)" if it needs one."""
    subject = msgspec.json.decode(asked.subject or "{}", type=dict[str, Any])
    given = subject.get("arguments") or subject.get("context") or {}
    shown = [f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}" for name, value in given.items()]
    question = f"{asked.prompt} ({', '.join(shown)})" if shown else asked.prompt
    yes_no = words_of(language).text("go_ahead").rpartition(" ")[2]
    return f"{question} {yes_no}" if "approve" in asked.verbs and not question.endswith(yes_no) else question
