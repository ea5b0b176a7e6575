"""Check, before resuming a tree of runs, that the definitions of its loops can be found."""

from __future__ import annotations

from asterism.errors import InvalidInput
from asterism.kernel.journal import JournalMismatch
from asterism.loops.definition import definition_of
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.runtime.client import Client
from asterism.runtime.lookup import MAX_RUNS
from asterism.runtime.ports.store import RunRow


async def check_definitions(client: Client, root: RunRow) -> None:
    """Check that every loop in a tree of runs can be found and fits its run.

    Raises:
        InvalidInput: a loop is missing or has changed, or a journal does not replay. Names the run.
    """
    for row in await client.store.runs(root=root.run_id, limit=MAX_RUNS):
        if row.machine == ORCHESTRATION_LOOP.name and row.status != "ended":
            try:
                memory = (await client.load(row.run_id)).memory
                definition_of(memory.definition, memory.working_directory).check(row.run_id, memory)
            except JournalMismatch as error:
                raise InvalidInput(
                    f"{error}; continue from the entry before with: asterism fork {row.run_id} --at {error.seq - 1}"
                ) from error
            except InvalidInput as error:
                raise InvalidInput(f"run {row.run_id}: {error}") from error
