"""The values of answers: which secrets they may not have, and what the machine of their run says about them.

All this is checked before an answer is written: one that is refused is in no journal, and its question stays open. So these
checks may become stricter without a change of the rules by which journals are replayed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.engine.control.run_control import Answered, RunMemory
from asterism.engine.kernel.machine import Machine
from asterism.engine.ports.store import InquiryRow, Store
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


def edit_of(machine: Machine[Any] | None, asked: InquiryRow, value: dict[str, Any]) -> dict[str, Any]:
    """Return an edit as the run takes it (``RunMemory.edit_of``); as it is without the machine of the run.

    Raises:
        InvalidInput: as there.
    """
    return machine.memory().edit_of(msgspec.json.decode(asked.subject or "{}"), value) if machine else value


async def check_values(store: Store, machine: Machine[Any] | None, run_id: str, given: Answered) -> None:
    """Check an answer as the memory of its run does (``RunMemory.check_values``).

    Raises:
        InvalidInput: as there.
        RunNewer: a newer program has written to the run.
    """
    if machine and type(machine.memory()).check_values is not RunMemory.check_values:
        live, _ = await load(store, machine, run_id)
        live.memory.check_values(given)
