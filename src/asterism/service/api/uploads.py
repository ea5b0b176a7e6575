"""Files that were uploaded for a run to come: those of each tenant, under a root of its own.

No run has the id of that root, so the files are removed after a day.
"""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.engine.kernel.file_value import FILE, files_in
from asterism.engine.ports.files import FileRow
from asterism.errors import InvalidInput
from asterism.service.api.context import ApiContext


def uploads_of(tenant: str) -> str:
    """Return the root of the files that a tenant has uploaded."""
    return f"upload:{tenant}"


async def files_for(context: ApiContext, tenant: str, run_id: str, given: Any) -> list[FileRow]:
    """Return the rows of the files that a submission names.

    Args:
        context: has the store.
        tenant: tenant of the sender.
        run_id: id of the run, which has the files if it was submitted before; empty if it has none yet.
        given: the plan and the parameters, as JSON.

    Raises:
        InvalidInput: the tenant has uploaded no such file.
    """
    named = list(files_in(given))
    if not named:
        return []
    known = [row for root in (uploads_of(tenant), run_id) if root for row in await context.store.files(root)]
    found = {msgspec.json.encode(_value_of(row), order="sorted"): row for row in known}
    rows = []
    for value in named:
        row = found.get(msgspec.json.encode(value, order="sorted"))
        if row is None:
            raise InvalidInput(
                f"there is no uploaded file {value[FILE]}; upload it with POST /api/files, and submit the value that returns"
            )
        rows.append(row)
    return rows


async def add_files(context: ApiContext, rows: list[FileRow], run_id: str) -> None:
    """Let a run read files; before it is submitted, because its first task may need them."""
    for row in rows:
        await context.store.add_file(msgspec.structs.replace(row, root=run_id, at=context.clock.now()))


def _value_of(row: FileRow) -> dict[str, Any]:
    return {FILE: row.digest, "name": row.name, "media_type": row.media_type, "size": row.size}
