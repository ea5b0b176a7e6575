"""The guard in front of the API: it refuses a request before any of its body is read.

It checks the Host and Origin headers, the token and the size of the body, bounds the time in which the body arrives,
adds the security headers, and writes the access log. A path needs a token unless it is in ``PUBLIC`` or of a page.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asterism.engine.ports.files import FILE_BYTES
from asterism.engine.runtime.client import NETWORKED
from asterism.errors import StoreUnavailable
from asterism.service.api import pages
from asterism.service.api.context import ApiContext
from asterism.service.api.identity import sender_of
from asterism.service.api.problems import Problem, problem_of

PUBLIC = frozenset({("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/api/login")})
"""Methods and paths that need no token, beside those of the console."""
HOOKS = "/api/hooks/"
"""Begins the paths of hooks, which are verified by a signature in place of a token."""
BODY_BYTES, PLAN_BYTES = 1 << 20, 8 << 20
"""Bytes of a request body, and of one that may have a plan."""
FILE_PATH, FILE_S = "/api/files", 600.0
"""Path of a body that is a file, and the seconds in which it must arrive."""
PLAN_PATHS = frozenset({"/api/runs", "/api/plans/check", "/api/schedules"})
BODY_S = 30.0
"""Seconds in which any other body must arrive."""
DRAIN_BYTES, DRAIN_S = 16 << 20, 1.0
"""Bytes of a refused body that are read and dropped, and the seconds: a client that still sends reads no answer."""
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_PORT = re.compile(r":[0-9]{1,5}$")
_log = logging.getLogger("asterism.access")


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, app: ASGIApp, context: ApiContext) -> None:
        self._app = app
        self._context = context
        self._hosts = frozenset(host.lower() for host in context.options.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 0
        headers, state = Headers(scope=scope), scope.setdefault("state", {})

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    added.setdefault(name, value)
                if self._context.options.secure:
                    added["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        token = NETWORKED.set(True)
        body = _Body(receive, self._limit(scope), FILE_S if scope["path"] == FILE_PATH else BODY_S)
        try:
            body.check_announced(headers)
            self._check_sent_from(scope, headers)
            state["sender"] = await self._sender(scope, headers)
            await self._app(scope, body.receive, answer)
        except Problem as problem:
            if status:  # the response has begun
                raise
            await body.drain()
            await problem.response()(scope, receive, answer)
        except StoreUnavailable as error:
            if status:
                raise
            await problem_of(error).response()(scope, receive, answer)
        finally:
            NETWORKED.reset(token)
            sender = state.get("sender")
            line = {
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "ms": round((time.monotonic() - started) * 1000, 1),
                "token": sender.name if sender else "",
                "client": (scope.get("client") or ("",))[0],
            }
            _log.info("%s", msgspec.json.encode(line).decode())  # JSON escapes line breaks

    def _check_sent_from(self, scope: Scope, headers: Headers) -> None:
        """Check the Host and Origin headers, which no page can change: only a page of this scheme, host and port may send.

        Raises Problem.
        """
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _PORT.sub("", hosts[0].lower()) not in self._hosts:
            raise Problem(421, "this server does not answer to this Host; name it with --host-name when you start the server")
        origins = headers.getlist("origin")
        own = f"{'https' if self._context.options.secure else 'http'}://{hosts[0].lower()}"
        if any(origin.lower() != own for origin in origins):
            raise Problem(403, "a page of another origin may not use this server; a proxy in front of it must pass on the Host header")
        if not origins and "cookie" in headers and "authorization" not in headers and scope["method"] not in ("GET", "HEAD"):
            raise Problem(403, "a browser must send the Origin header")

    async def _sender(self, scope: Scope, headers: Headers) -> object:
        context = self._context
        if (scope["method"], scope["path"]) in PUBLIC or scope["path"].startswith(HOOKS) or pages.is_public(scope["method"], scope["path"]):
            return None
        sender = await sender_of(context.store, headers, context.clock.now())
        if sender is None:
            raise Problem(401, "this needs a token that is valid: Authorization: Bearer …", headers={"WWW-Authenticate": "Bearer"})
        return sender

    def _limit(self, scope: Scope) -> int:
        if scope["path"] == FILE_PATH:
            return FILE_BYTES
        return PLAN_BYTES if scope["path"] in PLAN_PATHS else BODY_BYTES


class _Body:
    """The body of a request: bounded in bytes, and in the time in which it arrives."""

    def __init__(self, receive: Receive, limit: int, within_s: float) -> None:
        self._receive = receive
        self._left = self._limit = limit
        self._within_s = within_s
        self._ends_at = asyncio.get_running_loop().time() + within_s
        self._is_whole = False

    def check_announced(self, headers: Headers) -> None:
        """Raise Problem if the request announces too long a body."""
        announced = headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > self._limit:
            raise _too_large(self._limit)
        self._is_whole = announced == "0" and "transfer-encoding" not in headers

    async def drain(self) -> None:
        """Read and drop the rest of a refused body, within bounds."""
        dropped = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while not self._is_whole and dropped < DRAIN_BYTES:
                    message = await self._receive()
                    dropped += len(message.get("body", b""))
                    self._is_whole = not message.get("more_body", False)

    async def receive(self) -> Message:
        """Return the next message. Raises Problem if the body is too long, or takes too long."""
        if self._is_whole:
            return await self._receive()  # the next one says that the client has gone
        try:
            async with asyncio.timeout_at(self._ends_at):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, f"the body of the request did not arrive in {self._within_s:g} s", headers={"Connection": "close"}) from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _too_large(self._limit)
        self._is_whole = not message.get("more_body", False)
        return message


def _too_large(limit: int) -> Problem:
    return Problem(413, f"the body of this request may have at most {limit:,} bytes", headers={"Connection": "close"})
