"""A program of one of two versions: it begins runs of every machine and is killed amid some of them, or goes on with those it finds.

usage: upgrade_owner.py DATABASE 1|2 new|on
Prints a line for each run: how it ended, or why it is refused. ``new`` prints nothing and ends by SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from asterism.app.bootstrap import FORMS, open_store
from asterism.engine.ports.store import Store
from asterism.engine.runtime.clock import SystemClock
from asterism.errors import AsterismError
from tests.support.program_versions import NAMES, Hands, finish, next_version, runtime_of, submit


class Fatal:
    """Kills the process when a run of every machine is under way."""

    def __init__(self) -> None:
        self.left = len(NAMES)

    def __call__(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


async def begin(store: Store) -> None:
    """Park one run of each machine at a question, and die while another one of each is under way."""
    asking = runtime_of(store, SystemClock(), FORMS, Hands())
    async with asking.driver.opened():
        for name in NAMES:
            await submit(asking, name, f"asks-{NAMES.index(name)}")
            await asking.drive(f"asks-{NAMES.index(name)}")
    working = runtime_of(store, SystemClock(), FORMS, Hands(Fatal()))
    async with working.driver.opened():
        for name in NAMES:
            await submit(working, name, f"works-{NAMES.index(name)}")
        await asyncio.gather(*(working.drive(f"works-{number}") for number in range(len(NAMES))))


async def go_on(store: Store, version: str) -> None:
    """Finish every run, or say why not."""
    runtime = runtime_of(store, SystemClock(), next_version() if version == "2" else FORMS, Hands())
    async with runtime.driver.opened():
        for row in sorted(await store.runs(), key=lambda row: row.run_id):
            try:
                print(row.run_id, (await finish(runtime, row.run_id)).outcome, flush=True)
            except AsterismError as error:
                print(f"{type(error).__name__}: {error}", flush=True)


async def main(database: Path, version: str, what: str) -> None:
    async with open_store(database, create=True) as store:
        await (begin(store) if what == "new" else go_on(store, version))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
