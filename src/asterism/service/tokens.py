"""Tokens: make, check and revoke them; log a browser in.

A token is ``ast_<id>_<secret>``. The store has its SHA-256, and the secret is random, so neither the database nor
the time of a comparison helps to guess it. A login link is a token that is revoked when it is exchanged for a
session, and a session is a token that a browser presents as a cookie.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable

import msgspec

from asterism.engine.ports.tokens import ROLES, Role, TokenKind, TokenRow, TokenRows
from asterism.errors import InvalidInput

LINK_S = 300.0
"""Seconds for which a login link can be used."""
SESSION_S = 12 * 3600.0
"""Seconds for which a browser stays logged in."""

_TOKEN = re.compile(r"ast_([0-9a-f]{12})_[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOBODY = hashlib.sha256(b"").hexdigest()


def new_token(name: str, roles: Iterable[Role], now: float, *, tenant: str = "", lasts_s: float = 0.0) -> tuple[str, TokenRow]:
    """Return a new token, which is shown once, and its row.

    Args:
        name: who or what uses it; the journal has it as the actor.
        roles: what it allows, together.
        now: seconds since the epoch.
        tenant: its runs are all that the token reaches.
        lasts_s: seconds until it expires; 0 for never.

    Raises:
        InvalidInput: the name or the tenant cannot be used, or it has no role.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:100]!r} cannot be the name of a token; use 1 to 64 of A-Z, a-z, 0-9, ., _ and -, and do not start with a sign"
        )
    if tenant and not _NAME.fullmatch(tenant):
        raise InvalidInput(f"{tenant[:100]!r} cannot be the name of a tenant; use 1 to 64 of A-Z, a-z, 0-9, ., _ and -")
    if not 0 <= lasts_s < 100 * 366 * 86_400:
        raise InvalidInput("a token lasts up to 100 years, or forever")
    given = set(roles)
    if not given:
        raise InvalidInput(f"a token has at least one role: {', '.join(ROLES)}")
    ordered = tuple(role for role in ROLES if role in given)
    return _made("token", name, ordered, now, tenant=tenant, expires_at=now + lasts_s if lasts_s else 0.0)


def _made(
    kind: TokenKind, name: str, roles: tuple[Role, ...], now: float, *, tenant: str, expires_at: float, parent: str = ""
) -> tuple[str, TokenRow]:
    token_id = secrets.token_hex(6)
    token = f"ast_{token_id}_{secrets.token_hex(32)}"
    row = TokenRow(
        token_id=token_id,
        kind=kind,
        hash=_hash(token),
        name=name,
        roles=roles,
        tenant=tenant,
        parent=parent,
        created_at=now,
        expires_at=expires_at,
    )
    return token, row


async def authenticated(rows: TokenRows, token: str, kind: TokenKind, now: float) -> TokenRow | None:
    """Return the row of a token that can be used now; None for any other text."""
    named = _TOKEN.fullmatch(token)
    row = await rows.token(named[1]) if named else None
    is_same = hmac.compare_digest(_hash(token), row.hash if row else _NOBODY)  # the same work for an unknown id
    if row is None or not is_same or row.kind != kind or not row.usable(now):
        return None
    if not row.parent:
        return row
    parent = await rows.token(row.parent)
    return row if parent is not None and parent.usable(now) else None


async def login_link(rows: TokenRows, owner: TokenRow, now: float) -> str:
    """Add a login link for the user of a token, or of a session of it; return the text that is exchanged for a session."""
    parent = owner.parent or owner.token_id
    token, row = _made("link", owner.name, owner.roles, now, tenant=owner.tenant, expires_at=now + LINK_S, parent=parent)
    await rows.add_token(row)
    return token


async def exchange(rows: TokenRows, link: str, now: float) -> tuple[str, TokenRow] | None:
    """Exchange a login link for a session: the value of a cookie, and its row. A link is exchanged once; None after that."""
    row = await authenticated(rows, link, "link", now)
    if row is None or not await rows.revoke_token(row.token_id, now):
        return None
    session = _made("session", row.name, row.roles, now, tenant=row.tenant, expires_at=now + SESSION_S, parent=row.parent)
    await rows.add_token(session[1])
    return session


async def named_token(rows: TokenRows, named: str) -> TokenRow:
    """Return the token with this id, or the newest with this name.

    Raises:
        InvalidInput: there is none.
    """
    found = [row for row in await rows.tokens() if named in (row.token_id, row.name)]
    if not found:
        raise InvalidInput(f"there is no token {named[:100]!r}; `asterism token list` lists them")
    return found[-1]


def shown(row: TokenRow) -> dict[str, object]:
    """Return a row as people see it: without its hash."""
    data: dict[str, object] = msgspec.to_builtins(row)
    return {name: value for name, value in data.items() if name not in ("hash", "kind", "parent")}


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
