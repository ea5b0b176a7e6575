"""Print a run as `asterism show` does, with a client and a view: python -m examples.show RUN."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time

import asterism
from asterism.engine.runtime.lookup import find_run
from asterism.views.text.show import read_tree, show_lines


def local_time(at: float, form: str) -> str:
    """Return a time in the local time zone."""
    return time.strftime(form, time.localtime(at))


async def main(named: str) -> None:
    """Print the run whose id begins so."""
    async with asterism.connect(create=False) as client:
        row = await find_run(client.store, named)
        tree = read_tree(row.run_id, await client.export(row.root), client.form_of)
        run_id, root = (row.run_id, None) if row.parent else (None, row.root)
        asked = await client.store.inquiries(run_id=run_id, root=root)
        inbox = await client.store.inbox([question.run_id for question in asked])
        origin = None
        if forked := tree.history.forked:
            with contextlib.suppress(asterism.RunNotFound):
                source = await client.describe(forked.origin)
                journals = [(source, await client.records(source.run_id))]
                origin = read_tree(source.run_id, journals, client.form_of).history
    now = client.clock.now()
    for line in show_lines(tree, now, local_time, asked=asked, inbox=inbox, origin=origin):
        print(line)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
