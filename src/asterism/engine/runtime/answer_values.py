"""The values of answers: which secrets they may not have, what an edit of arguments changes, and whether its types are right.

All this is checked before an answer is written: one that is refused is in no journal, and its question stays open. So these
checks may become stricter without a change of the rules by which journals are replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.references import references
from asterism.engine.control.run_control import Answered
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.profile import skill_of
from asterism.engine.ports.store import InquiryRow, Store
from asterism.engine.runtime.conformance import mismatch
from asterism.engine.runtime.registration import machine_of
from asterism.engine.runtime.snapshots import load
from asterism.errors import InvalidInput


def check_no_secret(asked: InquiryRow, value: Any) -> None:
    """Check that an answer has no property that the schema of its question forbids (``false``): a secret.

    Raises:
        InvalidInput: it has one.
    """
    if not asked.schema or not isinstance(value, dict):
        return
    properties = msgspec.json.decode(asked.schema).get("properties", {})
    if secret := [name for name in value if properties.get(name) is False]:
        raise InvalidInput(
            f"{asked.inquiry_id} asks for a secret ({', '.join(secret)}), and answers are journaled; type it in the conversation"
        )


def edited_arguments(asked: InquiryRow, value: dict[str, Any]) -> dict[str, Any]:
    """Return an edit without the arguments of a task that are shown as references to secrets, which stay as they are.

    Raises:
        InvalidInput: it changes such an argument, since answers are journaled; or it gives another one a reference.
    """
    subject = msgspec.json.decode(asked.subject or "{}")
    if "task_id" not in subject:
        return value
    secret = {name: it for name, it in subject.get("arguments", {}).items() if next(references(it), None)}
    if changed := [name for name in secret if name in value and value[name] != secret[name]]:
        raise InvalidInput(f"argument {changed[0]} is a secret, and answers are journaled: leave it out, and it stays as it is")
    left = {name: it for name, it in value.items() if name not in secret}
    if referring := [name for name, it in left.items() if next(references(it), None)]:
        raise InvalidInput(
            f"argument {referring[0]} has a reference ${{…}}, and only the arguments shown are approved: give a value, "
            "or leave it out, and it stays as it is"
        )
    return left


async def check_types(store: Store, machines: Mapping[str, Machine[Any]], run_id: str, given: Answered) -> None:
    """Check an edit of a task's arguments, or its result, against the types that the skill of the task declares.

    Raises:
        InvalidInput: it has another type; names the argument, or the place in it.
        RunNewer: a newer program has written to the run.
    """
    row = await store.run(run_id)
    is_constellation = row.machine in machines and machines[row.machine].memory is ConstellationMemory
    if is_constellation and given.verb in ("edit", "respond"):  # other machines check their answers themselves
        live, _ = await load(store, machine_of(row, machines), run_id)
        check_types_in(live.memory, given)


def check_types_in(memory: ConstellationMemory, given: Answered) -> None:
    """Check an answer as ``check_types`` does, by the memory of the run.

    Raises:
        InvalidInput: as ``check_types``.
    """
    attempt = memory.questions.get(given.effect_id)
    if attempt is None or memory.asked_by_device(given.effect_id):
        return  # it is about a plan, or a device has asked and checks the answer; or it has just been closed
    skill = skill_of(memory.fleet, attempt.device, attempt.skill)
    if skill is None:
        return
    if given.verb == "edit":
        properties = skill.parameters.get("properties", {})
        for name, value in given.value.items():
            is_changed = name not in attempt.arguments or _text(value) != _text(attempt.arguments[name])
            # The run itself refuses other names; and a task takes the argument that was shown, such as a "3" for a number.
            if name in properties and is_changed and (wrong := mismatch(value, properties[name], skill.parameters)):
                raise InvalidInput(f"{attempt.task_id}.inputs.{name}{wrong[0]}: {skill.name} takes {wrong[1]}")
    if given.verb == "respond" and skill.output is not None and (wrong := mismatch(given.value, skill.output)):
        raise InvalidInput(f"{attempt.task_id}.result{wrong[0]}: {skill.name} returns {wrong[1]}")


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
