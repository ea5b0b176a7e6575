"""Log a browser in and out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from asterism.engine.kernel.permissions import Permission
from asterism.engine.ports.tokens import Role
from asterism.service.api.context import Context
from asterism.service.api.identity import Reader, cookie_name
from asterism.service.api.models import FromRow, Given
from asterism.service.api.problems import Problem, documented
from asterism.service.tokens import SESSION_S, exchange, login_link

router = APIRouter(tags=["logins"])


class Login(Given):
    """The text of a login link."""

    link: str = Field(max_length=200)


class LoginLink(BaseModel):
    """A login link, which can be used once within five minutes."""

    link: str


class Sender(FromRow):
    """Who is logged in."""

    name: str
    roles: list[Role]
    permissions: list[Permission] = Field(description="What the roles allow, together.")
    tenant: str
    expires_at: float = Field(description="0 for never.")


@router.post("/login", responses=documented(413, 422))
async def log_in(given: Login, context: Context, request: Request, response: Response) -> Sender:
    """Exchange a login link for a cookie."""
    context.limits.logins.count(request.client.host if request.client else "")
    found = await exchange(context.store, given.link, context.clock.now())
    if found is None:
        raise Problem(401, "this login link was used before, or is older than five minutes; make another one")
    cookie, row = found
    name, is_secure = cookie_name(request.headers), context.options.secure
    response.set_cookie(name, cookie, max_age=round(SESSION_S), httponly=True, samesite="strict", secure=is_secure, path="/")
    return Sender.model_validate(row)


@router.post("/login-links", status_code=201, responses=documented())
async def make_link(context: Context, sender: Reader) -> LoginLink:
    """Make a login link for the sender's own token; a browser makes one for the token that it has logged in with."""
    return LoginLink(link=await login_link(context.store, sender, context.clock.now()))


@router.get("/session", responses=documented())
async def read_session(sender: Reader) -> Sender:
    """Return who sends this request."""
    return Sender.model_validate(sender)


@router.delete("/session", status_code=204, responses=documented())
async def log_out(context: Context, sender: Reader, request: Request, response: Response) -> None:
    """Log a browser out; a token is not affected."""
    if sender.kind == "session":
        await context.store.revoke_token(sender.token_id, context.clock.now())
        response.delete_cookie(cookie_name(request.headers), path="/", httponly=True, samesite="strict", secure=context.options.secure)
