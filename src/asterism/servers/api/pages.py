"""The page of a login link: it exchanges the text after the ``#`` of its address for a cookie.

A browser does not send that text with the request for the page, so no log of a server or a proxy has it.
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

router = APIRouter(include_in_schema=False)

PATHS = ("/", "/login.js")
"""Paths of the page and its script, which need no token."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Asterism</title>
<h1>Asterism</h1>
<p id="state" role="status">Logging in …</p>
<noscript><p>A login needs JavaScript.</p></noscript>
<script src="/login.js"></script>
</html>
"""
_SCRIPT = """"use strict";
const state = document.getElementById("state");
const link = new URLSearchParams(location.hash.slice(1)).get("login");
history.replaceState(null, "", location.pathname);

async function logIn() {
  const answer = link
    ? await fetch("/api/login", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ link }),
      })
    : await fetch("/api/session");
  const found = await answer.json();
  if (answer.ok) return `You are logged in as ${found.name}, with the role ${found.role}.`;
  return link ? found.detail : "You are not logged in. Open the login link that the server has printed.";
}

logIn().then(
  (text) => { state.textContent = text; },
  () => { state.textContent = "The server cannot be reached."; },
);
"""


@router.get("/")
async def login_page() -> HTMLResponse:
    """Return the page."""
    return HTMLResponse(_PAGE, headers=_HEADERS)


@router.get("/login.js")
async def login_script() -> Response:
    """Return its script."""
    return Response(_SCRIPT, media_type="text/javascript", headers=_HEADERS)
