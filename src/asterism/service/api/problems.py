"""Errors as problem details (RFC 9457): every refusal and failure of the API has this form."""

from __future__ import annotations

import http
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from asterism.engine.kernel.refusal import CodedRefusal
from asterism.errors import AsterismError, InvalidInput, MissingExtra, Refused, RunNewer, RunNotFound, RunOwned, StoreUnavailable

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 20
"""Errors of one request body that are listed."""

_STATUS_OF: tuple[tuple[type[AsterismError], int], ...] = (
    (RunNotFound, 404),
    (InvalidInput, 422),
    (Refused, 409),
    (RunNewer, 409),
    (RunOwned, 409),
    (MissingExtra, 501),
    (StoreUnavailable, 503),
)


class ProblemDetails(BaseModel):
    """Why a request was refused, or failed."""

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(default="", description="What is wrong, and what to do.")


class Problem(HTTPException):
    """An error that the client receives as problem details.

    Args:
        status: HTTP status.
        detail: what is wrong, and what to do.
        headers: more headers of the response.
        more: further members, as JSON.
    """

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.more = more

    def response(self) -> Response:
        """Return the problem as a response."""
        title = http.HTTPStatus(self.status_code).phrase
        body = {"type": "about:blank", "title": title, "status": self.status_code, "detail": self.detail, **self.more}
        return Response(msgspec.json.encode(body), self.status_code, self.headers, MEDIA_TYPE)


def problem_of(error: AsterismError) -> Problem:
    """Return an error of Asterism as a problem; ``run`` is the run that it is about, ``index`` the edit."""
    status = next((status for kind, status in _STATUS_OF if isinstance(error, kind)), 409)
    more: dict[str, Any] = {"index": error.refusal.index} if isinstance(error, CodedRefusal) and error.refusal.index is not None else {}
    if run_id := getattr(error, "run_id", ""):
        more["run"] = run_id
    return Problem(status, str(error), **more)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route that has these problems, for its OpenAPI."""
    listed = sorted({400, 401, 403, 421, 429, 503, *statuses})
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {status: {"description": http.HTTPStatus(status).phrase, "content": content} for status in listed}


def methods_of(app: FastAPI, path: str) -> str:
    """Return the methods that a path accepts, as in the header Allow."""
    for template, operations in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", template), path):
            return ", ".join(sorted(method.upper() for method in operations))
    return ""


def install(app: FastAPI) -> None:
    """Let an app answer with problem details."""

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, Problem):
            return error.response()
        if isinstance(error, HTTPException) and error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
            methods = methods_of(app, request.url.path)
            return Problem(405, f"this takes {methods}, not {request.method}", headers={"Allow": methods}).response()
        if isinstance(error, HTTPException):
            return Problem(error.status_code, str(error.detail), headers=error.headers).response()
        if isinstance(error, AsterismError):
            return problem_of(error).response()
        if isinstance(error, RequestValidationError):
            found = [{"at": "/".join(map(str, it["loc"])), "error": it["msg"]} for it in error.errors()[:MAX_ERRORS]]
            detail = "; ".join(f"{it['at']}: {it['error']}" for it in found)
            return Problem(422, detail, errors=found).response()
        return Problem(500, "the server failed to answer; its log says why").response()

    for kind in (HTTPException, AsterismError, RequestValidationError, Exception):
        app.add_exception_handler(kind, refused)
