"""Tokens: create, list and revoke them. A token without a tenant manages those of all tenants."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from asterism.engine.ports.tokens import Role, TokenRow
from asterism.engine.runtime.clock import DAY_S
from asterism.service.api.context import Context
from asterism.service.api.identity import Manager
from asterism.service.api.models import FromRow, Given
from asterism.service.api.problems import Problem, documented
from asterism.service.tokens import new_token

router = APIRouter(tags=["tokens"])

BROWSER_DAYS = 90
"""The most days for which a token lasts that a browser creates: what takes over a page must not gain access for ever."""
TokenId = Annotated[str, Path(max_length=100)]


class TokenModel(FromRow):
    """A token, without its secret."""

    id: str = Field(validation_alias="token_id")
    name: str
    roles: list[Role]
    tenant: str = Field(description="Its runs are all that the token reaches.")
    created_at: float
    expires_at: float = Field(description="0 for never.")
    revoked_at: float = Field(description="0 while it is not revoked.")


class TokenList(BaseModel):
    """Tokens, oldest first."""

    tokens: list[TokenModel]


class NewToken(TokenModel):
    """A new token; this response is the only one that has the secret."""

    token: str


class GivenToken(Given):
    """A token to create."""

    name: str = Field(min_length=1, max_length=64)
    roles: list[Role] = Field(min_length=1, max_length=4)
    tenant: str | None = Field(default=None, max_length=64, description="By default the tenant of the sender.")
    days: float | None = Field(default=None, gt=0, le=36_500, description="Days until it expires; by default it never does.")


@router.get("/tokens", responses=documented())
async def list_tokens(context: Context, sender: Manager) -> TokenList:
    """Return the tokens of the sender's tenant, or of all tenants."""
    return TokenList.model_validate({"tokens": [row for row in await context.store.tokens() if _reaches(sender, row.tenant)]})


@router.post("/tokens", status_code=201, responses=documented(413, 422))
async def create_token(given: GivenToken, context: Context, sender: Manager) -> NewToken:
    """Create a token. The response is the only one that has its secret. One that a browser creates lasts 90 days at most."""
    if sender.kind != "token" and not (given.days and given.days <= BROWSER_DAYS):
        raise Problem(403, f"a token that is created in a browser expires within {BROWSER_DAYS} days; use a token itself to create others")
    tenant = sender.tenant if given.tenant is None else given.tenant
    if not _reaches(sender, tenant):
        raise Problem(403, f"this token manages the tokens of the tenant {sender.tenant}")
    token, row = new_token(given.name, given.roles, context.clock.now(), tenant=tenant, lasts_s=(given.days or 0.0) * DAY_S)
    await context.store.add_token(row)
    return NewToken.model_validate({**msgspec.structs.asdict(row), "token": token})


@router.delete("/tokens/{token_id}", status_code=204, responses=documented(404, 422))
async def revoke_token(token_id: TokenId, context: Context, sender: Manager) -> None:
    """Revoke a token, with the logins that were made with it."""
    row = await context.store.token(token_id)
    if row is None or row.kind != "token" or not _reaches(sender, row.tenant):
        raise Problem(404, f"there is no token {token_id!r}")
    await context.store.revoke_token(token_id, context.clock.now())


def _reaches(sender: TokenRow, tenant: str) -> bool:
    return sender.tenant in ("", tenant)
