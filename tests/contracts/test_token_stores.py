"""Contract of the tokens of stores, on each of them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from asterism.engine.ports.tokens import TokenRow
from asterism.errors import InvalidInput
from tests.contracts.test_stores import Play, World, play

__all__ = ["play"]
ADA = TokenRow(token_id="a1", hash="00", name="ada", roles=("operator", "approver"), tenant="t", created_at=100.0)  # noqa: S106 - public


def but(its_id: str = "a1", /, **changes: object) -> TokenRow:
    return msgspec.structs.replace(ADA, **{"token_id": its_id, **changes})


def test_a_token_is_found_by_its_id_by_every_process(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.add_token(ADA)
        await store.add_token(but("b1", name="bob", created_at=50.0, expires_at=60.0))
        other = await world.open()
        assert await other.token("a1") == ADA
        assert await other.token("a2") is None
        assert [row.name for row in await other.tokens()] == ["bob", "ada"]

    play(scenario)


def test_of_two_usable_tokens_only_one_has_a_name(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.add_token(but(expires_at=200.0))
        for taken in (but("a2"), but(name="other")):
            with pytest.raises(InvalidInput, match="exists already"):
                await store.add_token(taken)
        await store.add_token(but("s1", kind="session", expires_at=300.0))
        await store.add_token(but("a3", created_at=200.0))
        assert await store.revoke_token("a3", 250.0)
        await store.add_token(but("a4", created_at=260.0))
        assert [row.token_id for row in await store.tokens()] == ["a1", "a3", "a4"]

    play(scenario)


def test_of_two_that_revoke_a_token_at_once_one_succeeds(play: Play) -> None:
    async def scenario(world: World) -> None:
        stores = [await world.open(), await world.open()]
        await stores[0].add_token(ADA)
        async with asyncio.TaskGroup() as group:
            revoked = [group.create_task(store.revoke_token("a1", 150.0)) for store in stores * 5]
        assert sorted(task.result() for task in revoked) == [*[False] * 9, True]
        assert await stores[1].token("a1") == but(revoked_at=150.0)
        await stores[0].add_token(but("a2", expires_at=200.0))
        assert not await stores[0].revoke_token("a2", 200.0)
        assert not await stores[0].revoke_token("a9", 200.0)

    play(scenario)


def test_expired_links_and_sessions_are_removed_when_a_token_is_added(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.add_token(ADA)
        for number, expires_at in enumerate((110.0, 130.0)):
            await store.add_token(but(f"l{number}", kind="link", expires_at=expires_at, parent="a1"))
        await store.add_token(but("a2", name="bob", created_at=120.0))
        assert [it is not None for it in [await store.token(name) for name in ("l0", "l1", "a1", "a2")]] == [False, True, True, True]

    play(scenario)
