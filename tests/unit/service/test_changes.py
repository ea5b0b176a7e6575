"""Waiting for a change of a run."""

from __future__ import annotations

import asyncio

from asterism.service.api.changes import Changes


def test_a_wait_ends_when_its_run_changes() -> None:
    async def scenario() -> None:
        changes = Changes()
        waiting = [asyncio.ensure_future(changes.wait("r", 60)) for _ in range(2)]
        await asyncio.sleep(0)
        changes.appended("other", [])
        await asyncio.sleep(0)
        assert not any(it.done() for it in waiting)
        changes.appended("r", [])
        async with asyncio.timeout(30):
            await asyncio.gather(*waiting)
        assert changes._awaited == {}

    asyncio.run(scenario())


def test_a_wait_without_a_change_ends_in_time_and_is_forgotten() -> None:
    async def scenario() -> None:
        changes = Changes()
        await changes.wait("r", 0)
        assert changes._awaited == {}

    asyncio.run(scenario())
