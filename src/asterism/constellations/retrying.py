"""Retrying a run that has ended: in a new run, a copy of it up to its end."""

from __future__ import annotations

from asterism.errors import InvalidInput
from asterism.machines.constellation_agent.events import ConstellationAgentStatus, Retry
from asterism.runtime.client import Client

_ENDED = (ConstellationAgentStatus.FINISH, ConstellationAgentStatus.FAIL)


async def retry_ended(client: Client, run_id: str, tasks: tuple[str, ...], *, actor: str) -> str:
    """Write a copy of an ended run in which failed tasks are to run again, and return its id.

    Args:
        client: access to the store.
        run_id: id of the ended run.
        tasks: ids of failed tasks and items; empty for all.
        actor: who retries it.

    Raises:
        InvalidInput: the run has no tasks.
        Refused: a task has not failed, or none has; nothing is written.
    """
    records = await client.store.records(run_id)
    before = [record.seq for record in records if record.state == ConstellationAgentStatus.CONTINUE]
    if not before or records[-1].state not in _ENDED:
        raise InvalidInput(f"run {run_id} has no tasks to retry")
    return await client.fork(run_id, before[-1], actor=actor, first=Retry(tasks=tasks))
