"""The token of the local user, in a file beside the database."""

from __future__ import annotations

import asyncio
from pathlib import Path

from asterism.servers.service import local_token
from asterism.servers.tokens import authenticated
from asterism.stores.sqlite import SqliteStore


def test_servers_that_start_at_once_share_one_token(tmp_path: Path) -> None:
    database = tmp_path / "runs.db"

    async def scenario() -> None:
        stores = [SqliteStore.open(database, create=True) for _ in range(3)]
        try:
            made = await asyncio.gather(*(local_token(store, database, 100.0) for store in stores))
            assert len({(path, row.token_id) for path, row in made}) == 1
            (row,) = await stores[0].tokens()
            assert await authenticated(stores[0], made[0][0].read_text().strip(), "token", 101.0) == row
        finally:
            for store in stores:
                await store.close()

    asyncio.run(scenario())
