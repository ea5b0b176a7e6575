"""The rows of tokens in SQLite; the column ``role`` has the roles, separated by commas."""

from __future__ import annotations

import sqlite3

import msgspec

from asterism.engine.ports.tokens import MAX_TOKENS, TokenRow
from asterism.errors import InvalidInput
from asterism.stores.sqlite_rows import fields_of, row_of
from asterism.stores.writer import Writer, reads, writes

_COLUMNS = "id, kind, hash, name, role, tenant, parent, created_at, expires_at, revoked_at"
_USABLE = "revoked_at = 0 AND (expires_at = 0 OR expires_at > ?2)"
SELECT_TOKEN = f"SELECT {_COLUMNS} FROM tokens WHERE id = ?"  # noqa: S608 - our own names
SELECT_TOKENS = f"SELECT {_COLUMNS} FROM tokens WHERE kind = 'token' ORDER BY created_at, id LIMIT {MAX_TOKENS}"  # noqa: S608 - our own names
REVOKE_TOKEN = f"UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND {_USABLE}"  # noqa: S608 - our own names
FORGET_TOKENS = "DELETE FROM tokens WHERE kind <> 'token' AND expires_at <= ?"
INSERT_TOKEN = f"""
INSERT INTO tokens ({_COLUMNS}) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE NOT EXISTS (
    SELECT 1 FROM tokens WHERE id = ?1 OR (kind = 'token' AND ?2 = 'token' AND name = ?4 AND tenant = ?6 AND revoked_at = 0
        AND (expires_at = 0 OR expires_at > ?8)))"""  # noqa: S608 - our own names


class SqliteTokens:
    """The part of ``SqliteStore`` that holds tokens."""

    _writer: Writer

    @writes
    def add_token(self, connection: sqlite3.Connection, row: TokenRow) -> None:
        connection.execute(FORGET_TOKENS, (row.created_at,))
        if not connection.execute(INSERT_TOKEN, msgspec.structs.astuple(msgspec.structs.replace(row, roles=",".join(row.roles)))).rowcount:
            raise InvalidInput(f"a token {row.name!r} exists already; revoke it first, or choose another name")

    @reads
    def token(self, connection: sqlite3.Connection, token_id: str) -> TokenRow | None:
        return next(iter(token_rows(connection.execute(SELECT_TOKEN, (token_id,)))), None)

    @reads
    def tokens(self, connection: sqlite3.Connection) -> list[TokenRow]:
        return token_rows(connection.execute(SELECT_TOKENS))

    @writes
    def revoke_token(self, connection: sqlite3.Connection, token_id: str, at: float) -> bool:
        return connection.execute(REVOKE_TOKEN, (token_id, at)).rowcount > 0


def token_rows(cursor: sqlite3.Cursor) -> list[TokenRow]:
    """Return all tokens of a query."""
    return [row_of(TokenRow, {**fields, "roles": str(fields["role"]).split(",")}) for fields in fields_of(cursor)]
