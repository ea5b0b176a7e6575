"""Check that the classes of unfinished conversations can be found, and that their journals fit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.conversation.machine.events import AgentView
from asterism.conversation.machine.memory import FlowMemory
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.fields import Field
from asterism.conversation.python.parsing import options_of
from asterism.conversation.python.registry import agent_class
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.lookup import unfinished_runs
from asterism.errors import DefinitionMissing, InvalidInput


def declared_fields(agent: Any) -> dict[str, str]:
    """Return the types of an agent's fields in words, by name; without a type that is not defined yet."""
    found = {}
    for name, field in agent.input_fields().items():
        try:
            found[name] = _words(field)
        except InvalidInput:
            continue
    return found


def _words(field: Field) -> str:
    options = options_of(field.kind)
    return f"one of {', '.join(options)}" if options else getattr(field.kind, "__name__", str(field.kind))


def fitting_class(name: str, declared: Mapping[str, str], view: AgentView, *, requires_approval: bool) -> Any:
    """Return the class of a conversation.

    Args:
        name: name of the class in the journal.
        declared: types of its fields when the conversation started; empty if they are not known.
        view: state of the agent, from the journal.
        requires_approval: True if the conversation was started with a required approval.

    Raises:
        DefinitionMissing: it cannot be imported, or the journal does not fit it.
    """
    agent = agent_class(name)
    fields: dict[str, Field] = agent.input_fields()
    changed = [] if agent.requires_approval or not requires_approval else ["it no longer requires an approval"]
    for given in (*view.fields, *view.withheld_fields, view.asked_field):
        if given in declared and given not in fields:
            changed.append(f"it has no field {given} any more")
        elif given in declared and not _fits(fields[given], declared[given], view.fields.get(given)):
            changed.append(f"its field {given} was {declared[given]}, and is now {_words(fields[given])}")
    if changed:
        raise DefinitionMissing(f"the agent {name} has changed since the conversation started: {'; '.join(changed)}")
    return agent


def _fits(field: Field, was: str, value: Any) -> bool:
    """Return True if a value from the journal fits a field. A handler may have set it to a value of another type."""
    if value is None or was == _words(field):
        return True
    try:
        msgspec.convert(value, field.kind, strict=False)
    except msgspec.ValidationError:
        return False
    return True


def class_of(run_id: str, memory: FlowMemory) -> Any:
    """Return the class of a conversation; raises as ``fitting_class``, with the id of the run."""
    try:
        return fitting_class(memory.agent, memory.declared, memory.view, requires_approval=memory.requires_approval)
    except DefinitionMissing as error:
        raise DefinitionMissing(f"run {run_id} waits: {error}") from error


async def check_agents(client: Client, root: RunRow) -> None:
    """Check that the class of every conversation in a tree of runs can be found and fits its journal.

    Raises:
        InvalidInput: a class is missing or has changed, or a journal does not replay. Names the run.
    """
    async for run_id, memory in unfinished_runs(client, root, FLOW_AGENT.name):
        class_of(run_id, memory)
