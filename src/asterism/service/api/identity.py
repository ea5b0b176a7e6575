"""Who sends a request, and what a resource asks of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from asterism.engine.kernel.permissions import Permission
from asterism.engine.ports.tokens import ROLES, TokenRow, TokenRows
from asterism.service.api.problems import Problem
from asterism.service.tokens import authenticated

COOKIE = "asterism_session"
"""Name of the cookie, followed by the port of the server: browsers send a cookie to every port of a host."""

_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token of `asterism token create`.")
_cookie = APIKeyCookie(
    name=COOKIE,
    auto_error=False,
    scheme_name="session",
    description="Set by a login; its name ends with `_PORT` unless the port is that of the scheme.",
)


async def sender_of(rows: TokenRows, headers: Mapping[str, str], now: float) -> TokenRow | None:
    """Return the token, or the session of a browser, that a request presents; None if it cannot be used."""
    kind, _, presented = headers.get("authorization", "").partition(" ")
    if presented:
        return await authenticated(rows, presented.strip(), "token", now) if kind.lower() == "bearer" else None
    cookie = cookie_of(headers)
    return await authenticated(rows, cookie, "session", now) if cookie else None


def cookie_name(headers: Mapping[str, str]) -> str:
    """Return the name of the session's cookie for the server that a request names as its host."""
    port = re.search(r":([0-9]{1,5})$", headers.get("host", ""))
    return f"{COOKIE}_{port[1]}" if port else COOKIE


def cookie_of(headers: Mapping[str, str]) -> str:
    """Return the session in the cookies of a request; empty if there is none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(cookie_name(headers))
    except CookieError:
        return ""
    return found.value if found else ""


def actor_of(token: TokenRow) -> str:
    """Return the name of a sender in journals: that of the token, and its highest role."""
    return f"{token.name}@{token.roles[-1]}"


def owner_of(token: TokenRow) -> str:
    """Return the id of a token; of a session, that of the token it was made for."""
    return token.parent or token.token_id


async def _sender(request: Request, bearer: Annotated[object, Security(_bearer)], cookie: Annotated[object, Security(_cookie)]) -> TokenRow:  # noqa: ARG001 - named for the OpenAPI
    sender = request.scope["state"].get("sender")
    if not isinstance(sender, TokenRow):
        raise Problem(401, "this needs a token: Authorization: Bearer …", headers={"WWW-Authenticate": "Bearer"})
    return sender


def check_may(sender: TokenRow, *needed: Permission) -> None:
    """Check that a sender has permissions. Raises Problem if not."""
    for permission in needed:
        if permission not in sender.permissions:
            having = " and ".join(role for role, permissions in ROLES.items() if permission in permissions)
            raise Problem(403, f"this takes the permission {permission}, which {having} have; this token has {', '.join(sender.roles)}")


class May:
    """A dependency: the sender's token, if it has permissions."""

    def __init__(self, *needed: Permission) -> None:
        self.needed = needed

    async def __call__(self, sender: Annotated[TokenRow, Depends(_sender)]) -> TokenRow:
        """Return the token of the sender. Raises Problem if it lacks a permission."""
        check_may(sender, *self.needed)
        return sender


def is_of_server(sender: TokenRow) -> bool:
    """Return True for a sender that manages what all tenants share: an administrator without a tenant."""
    return not sender.tenant and Permission.ADMIN in sender.permissions


async def _server_manager(sender: Annotated[TokenRow, Depends(May(Permission.ADMIN))]) -> TokenRow:
    if not is_of_server(sender):
        raise Problem(403, "all tenants share this; it takes an admin's token without a tenant")
    return sender


Known = Annotated[TokenRow, Depends(May())]
"""Any token; the resource checks what the request needs."""
Reader = Annotated[TokenRow, Depends(May(Permission.VIEW))]
Submitter = Annotated[TokenRow, Depends(May(Permission.SUBMIT))]
Commander = Annotated[TokenRow, Depends(May(Permission.COMMAND))]
EventSender = Annotated[TokenRow, Depends(May(Permission.EVENT))]
Answerer = Annotated[TokenRow, Depends(May(Permission.ANSWER))]
Talker = Annotated[TokenRow, Depends(May(Permission.SUBMIT, Permission.ANSWER))]
"""A message may start work, and may answer a question."""
Manager = Annotated[TokenRow, Depends(May(Permission.ADMIN))]
ServerManager = Annotated[TokenRow, Depends(_server_manager)]
