"""Retrying a run that has ended: in a new run, a copy of it up to the decision about its end."""

from __future__ import annotations

from typing import Any

from asterism.constellation.machine.events import ConstellationAgentStatus, Retry
from asterism.constellation.machine.memory import NAMED, ConstellationMemory
from asterism.constellation.machine.retry import FAILED, failed_task, none_failed
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.lookup import MAX_RUNS
from asterism.errors import InvalidInput, Refused


async def retry_ended(client: Client, run_id: str, tasks: tuple[str, ...], *, actor: str, new_id: str = "") -> str:
    """Write a copy of an ended run in which failed tasks are to run again, and return its id.

    The copy ends before the end of the run was decided: its on_failure and finally tasks are still to run, and tasks
    that a cancel has stopped continue.

    Args:
        client: access to the store.
        run_id: id of the ended run.
        tasks: ids of failed tasks and items; empty for all.
        actor: who retries it.
        new_id: id of the copy; a fresh one by default.

    Raises:
        InvalidInput: the run has no tasks; names the runs below it that have failed ones.
        Refused: a task has not failed, or none has; nothing is written.
    """
    row = await client.store.run(run_id)
    machine = client.form_of(row).machine
    entries = [packer(machine).unpack(record) for record in await client.store.records(run_id)]
    ended, undecided = Run(machine, run_id, performs=False), 0
    for entry in entries:
        ended.replay([entry])
        undecided = entry.seq if _is_undecided(ended) else undecided
    if not undecided:
        raise InvalidInput(f"run {run_id} has no tasks to retry{await _failed_below(client, row)}")
    named = [failed_task(ended.memory.constellation, task_id) for task_id in tasks]
    copied = Run(machine, run_id, performs=False)
    copied.replay(entries[:undecided])
    before = [copied.memory.constellation.tasks.get(task.task_id) for task in named] or copied.memory.constellation.in_order()
    failed = tuple(task.task_id for task in before if task is not None and task.status in FAILED)
    if not failed and not named and not any(task.status in FAILED for task in ended.memory.constellation.in_order()):
        raise Refused(none_failed(ended.memory.constellation))
    # A task that had not failed yet when the copy ends continues there
    return await client.fork(run_id, undecided, actor=actor, new_id=new_id, first=Retry(tasks=failed) if failed else None)


async def _failed_below(client: Client, row: RunRow) -> str:
    """Return in words the runs of constellations below a run that did not finish; empty if there are none."""
    tree = await client.store.runs(root=row.root, limit=MAX_RUNS)
    below = [
        it.run_id
        for it in tree
        if it.machine == CONSTELLATION_AGENT.name and it.run_id.startswith(f"{row.run_id}.") and it.outcome not in ("", "finished")
    ]
    whose = "child run has" if len(below) == 1 else "child runs have"
    more = f" and {len(below) - NAMED} more" if len(below) > NAMED else ""
    return f"; its {whose}: asterism retry {', '.join(below[:NAMED])}{more}" if below else ""


def _is_undecided(run: Run[Any]) -> bool:
    memory = run.memory
    return isinstance(memory, ConstellationMemory) and run.state is ConstellationAgentStatus.CONTINUE and not memory.concluding
