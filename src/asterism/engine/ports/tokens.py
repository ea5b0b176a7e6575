"""Port of the tokens that programs and people present to a server."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from asterism.engine.kernel.permissions import ALL_BUT_LOCAL, LOWEST, Permission, Permissions, permissions_of

Role = Literal["viewer", "sender", "operator", "approver", "admin"]
"""A named set of permissions, for a token, which has one or more."""
ROLES: dict[Role, Permissions] = {
    "viewer": LOWEST,
    "sender": (Permission.EVENT,),
    "operator": (Permission.VIEW, Permission.SUBMIT, Permission.COMMAND, Permission.EDIT),
    "approver": (Permission.VIEW, Permission.ANSWER),
    "admin": ALL_BUT_LOCAL,
}
TokenKind = Literal["token", "link", "session"]
"""``link``: exchanged once for a ``session``, which a browser presents as a cookie."""

MAX_TOKENS = 10_000
"""Tokens that one read returns."""


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a token, without its secret.

    Attributes:
        token_id: the public part of the token.
        hash: SHA-256 of the whole token, in hexadecimal digits.
        name: who or what uses it; unique among the tokens of its tenant that can be used, so that a journal names one.
        roles: in the order of ``ROLES``, each once.
        tenant: its runs are all that the token reaches.
        parent: for a link or a session, the id of the token that it was made for.
        created_at: seconds since the epoch.
        expires_at: seconds since the epoch; 0 for never.
        revoked_at: seconds since the epoch; 0 while it is not revoked.
    """

    token_id: str = msgspec.field(name="id")
    kind: TokenKind = "token"
    hash: str
    name: str
    roles: tuple[Role, ...]
    tenant: str = ""
    parent: str = ""
    created_at: float
    expires_at: float = 0.0
    revoked_at: float = 0.0

    @property
    def permissions(self) -> Permissions:
        """Return what the token allows."""
        return permissions_of(permission for role in self.roles for permission in ROLES[role])

    def usable(self, now: float) -> bool:
        """Return True if the token is neither revoked nor expired."""
        return not self.revoked_at and not 0 < self.expires_at <= now


class TokenRows(Protocol):
    """Holds the rows of tokens; a part of every store."""

    async def add_token(self, row: TokenRow) -> None:
        """Add a token, and remove the links and sessions that have expired at ``row.created_at``.

        Raises:
            InvalidInput: the id is taken, or another usable token of this kind ``token`` and tenant has the name.
        """
        ...

    async def token(self, token_id: str) -> TokenRow | None:
        """Return a token; None if there is none with this id."""
        ...

    async def tokens(self) -> list[TokenRow]:
        """Return the rows of the kind ``token``, oldest first."""
        ...

    async def revoke_token(self, token_id: str, at: float) -> bool:
        """Revoke a token; return True if it was usable at this time and now is not: of two callers, one gets True."""
        ...
