"""Check, before resuming a tree of runs, that the definitions of its loops can be found."""

from __future__ import annotations

from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.lookup import unfinished_runs
from asterism.errors import InvalidInput
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python.definition import definition_of


async def check_definitions(client: Client, root: RunRow) -> None:
    """Check that every loop in a tree of runs can be found and fits its run.

    Raises:
        InvalidInput: a loop is missing or has changed, or a journal does not replay. Names the run.
    """
    async for run_id, memory in unfinished_runs(client, root, ORCHESTRATION_LOOP.name):
        try:
            definition = definition_of(memory.definition, memory.working_directory)
        except InvalidInput as error:
            raise InvalidInput(f"run {run_id}: {error}; restore it, or cancel the run") from error
        try:
            definition.check(run_id, memory)
        except InvalidInput as error:
            raise InvalidInput(f"run {run_id}: {error}") from error
