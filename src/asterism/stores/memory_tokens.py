"""The tokens of the store in memory."""

from __future__ import annotations

from typing import Protocol

import msgspec

from asterism.engine.ports.tokens import MAX_TOKENS, TokenRow
from asterism.stores.sqlite_tokens import name_taken


class _Tokens(Protocol):
    tokens: dict[str, TokenRow]


class _Store(Protocol):
    @property
    def memory(self) -> _Tokens: ...

    async def _begin(self, write: str = "") -> None: ...


class MemoryTokens:
    """The operations on tokens of a store in memory."""

    async def add_token(self: _Store, row: TokenRow) -> None:
        await self._begin("token")
        memory, now = self.memory, row.created_at
        memory.tokens = {key: it for key, it in memory.tokens.items() if it.kind == "token" or it.expires_at > now}
        usable = [it for it in memory.tokens.values() if it.kind == row.kind == "token" and it.usable(now)]
        named = [it for it in usable if (it.tenant, it.name) == (row.tenant, row.name)]
        if named or row.token_id in memory.tokens:
            raise name_taken(row)
        memory.tokens[row.token_id] = row

    async def token(self: _Store, token_id: str) -> TokenRow | None:
        await self._begin()
        return self.memory.tokens.get(token_id)

    async def tokens(self: _Store) -> list[TokenRow]:
        await self._begin()
        found = [row for row in self.memory.tokens.values() if row.kind == "token"]
        return sorted(found, key=lambda row: (row.created_at, row.token_id))[:MAX_TOKENS]

    async def revoke_token(self: _Store, token_id: str, at: float) -> bool:
        await self._begin("token")
        row = self.memory.tokens.get(token_id)
        if row is None or not row.usable(at):
            return False
        self.memory.tokens[token_id] = msgspec.structs.replace(row, revoked_at=at)
        return True
