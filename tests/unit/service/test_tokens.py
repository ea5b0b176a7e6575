from __future__ import annotations

import asyncio

import pytest

from asterism.engine.ports.tokens import Role
from asterism.errors import InvalidInput
from asterism.service.tokens import LINK_S, SESSION_S, authenticated, exchange, login_link, named_token, new_token, shown
from asterism.stores.memory import MemoryStore


def test_a_token_allows_what_its_roles_allow_together() -> None:
    """A6: there was no role that may only answer."""

    def allowed(*roles: Role) -> list[str]:
        return [str(it) for it in new_token("ada", roles, 1.0)[1].permissions]

    assert allowed("viewer") == ["view"]
    assert allowed("operator") == ["view", "submit", "command", "edit"]
    assert allowed("approver") == ["view", "answer"]
    assert allowed("sender") == ["event"]
    assert allowed("approver", "operator") == ["view", "submit", "command", "edit", "answer"]
    assert allowed("admin") == allowed("admin", "viewer") == ["view", "submit", "command", "edit", "answer", "event", "admin"]
    with pytest.raises(InvalidInput, match="at least one role: viewer, sender, operator, approver, admin"):
        allowed()


def test_only_the_whole_token_of_the_right_kind_is_accepted_while_it_can_be_used() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        token, row = new_token("ada", ["operator"], 100.0, lasts_s=50.0)
        await store.add_token(row)
        assert await authenticated(store, token, "token", 149.0) == row
        other, _ = new_token("bob", ["admin"], 100.0)
        wrong = [
            "",
            "x",
            token[:-1],
            token + "A",
            token.upper(),
            other,
            f"ast_{row.token_id}_{other.rpartition('_')[2]}",
            "ast_\udcff",
            "é" * 10**5,
        ]
        assert [await authenticated(store, it, "token", 149.0) for it in wrong if it != token] == [None] * len(wrong)
        assert await authenticated(store, token, "session", 149.0) is None
        assert await authenticated(store, token, "token", 150.0) is None
        await store.revoke_token(row.token_id, 120.0)
        assert await authenticated(store, token, "token", 149.0) is None

    asyncio.run(scenario())


def test_the_store_and_the_lists_have_no_secret() -> None:
    token, row = new_token("ada", ["admin"], 100.0, tenant="north")
    secret = token.rpartition("_")[2]
    assert len(secret) == 64
    assert secret not in str(row)
    assert shown(row) == {
        "id": row.token_id,
        "name": "ada",
        "roles": ("admin",),
        "tenant": "north",
        "created_at": 100.0,
        "expires_at": 0.0,
        "revoked_at": 0.0,
    }


def test_a_login_link_is_exchanged_once_within_five_minutes() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        token, row = new_token("ada", ["approver", "operator", "approver"], 100.0, tenant="north")
        await store.add_token(row)
        late, link = await login_link(store, row, 100.0), await login_link(store, row, 101.0)
        assert await authenticated(store, link, "token", 102.0) is None
        assert await exchange(store, token, 102.0) is None
        assert await exchange(store, late, 100.0 + LINK_S) is None
        async with asyncio.TaskGroup() as group:
            tried = [group.create_task(exchange(store, link, 102.0)) for _ in range(5)]
        ((cookie, session),) = [found for task in tried if (found := task.result())]
        assert (session.name, session.roles, session.tenant, session.parent) == ("ada", ("operator", "approver"), "north", row.token_id)
        assert await authenticated(store, cookie, "session", 101.0 + SESSION_S) == session
        assert await authenticated(store, cookie, "token", 103.0) is None
        assert await authenticated(store, cookie, "session", 102.0 + SESSION_S) is None
        await store.revoke_token(row.token_id, 110.0)
        assert await authenticated(store, cookie, "session", 111.0) is None

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["", " ", "a b", "ada\n", "-a", "a" * 65, "ä", 'a"', "a@b"])
def test_names_that_would_not_be_safe_in_a_journal_or_a_log_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="token"):
        new_token(name, ["viewer"], 1.0)
    if name:
        with pytest.raises(InvalidInput, match="tenant"):
            new_token("ada", ["viewer"], 1.0, tenant=name)


def test_a_token_is_named_by_its_id_or_its_name() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        rows = [new_token("ada", ["viewer"], 100.0 + at, lasts_s=1.0)[1] for at in range(0, 6, 2)]
        for row in rows:
            await store.add_token(row)
        assert await named_token(store, "ada") == rows[2]
        assert await named_token(store, rows[0].token_id) == rows[0]
        with pytest.raises(InvalidInput, match="no token 'bob'"):
            await named_token(store, "bob")

    asyncio.run(scenario())
