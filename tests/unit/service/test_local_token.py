"""The token of the local user, in a file beside the database."""

from __future__ import annotations

import asyncio
from pathlib import Path

from asterism.service.service import local_token
from asterism.service.tokens import authenticated
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


def test_k1_a_second_server_does_not_revoke_the_token_of_the_first_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = (SqliteStore.open(tmp_path / "runs.db", create=True) for _ in range(2))
        try:
            await first.announce_server("shop", "http://127.0.0.1:1")
            path, row = await local_token(first, tmp_path / "runs.db", 100.0, "http://127.0.0.1:1")
            await second.announce_server("shop", "http://127.0.0.1:2")
            (tmp_path / "elsewhere").mkdir()
            for _ in range(2):  # also when it starts again without its file
                there, other = await local_token(second, tmp_path / "elsewhere" / "runs.db", 101.0, "http://127.0.0.1:2")
                assert await authenticated(first, path.read_text().strip(), "token", 102.0) == row
                assert await authenticated(second, there.read_text().strip(), "token", 102.0) == other
                there.unlink()
            usable = [it.name for it in await first.tokens() if it.usable(102.0)]
            assert (usable[0], len(usable), usable[1].startswith("local-")) == ("local", 2, True)
        finally:
            await first.close()
            await second.close()

    asyncio.run(scenario())


def test_a_server_that_is_alone_revokes_the_tokens_whose_file_is_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "runs.db", create=True)
        try:
            path, _ = await local_token(store, tmp_path / "runs.db", 100.0)
            path.unlink()
            _, row = await local_token(store, tmp_path / "runs.db", 101.0)
            assert [it for it in await store.tokens() if it.usable(102.0)] == [row]
        finally:
            await store.close()

    asyncio.run(scenario())
