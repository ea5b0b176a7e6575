"""The console: one document for every page, and the files that it loads. They hold no data, so they need no token."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import HTMLResponse, Response

from asterism.console.assets import POLICY, PREFIX, assets
from asterism.service.api.problems import Problem

router = APIRouter(include_in_schema=False)

ADDRESSES = (
    "/",
    "/runs",
    "/runs/{run_id}",
    "/submit",
    "/inbox",
    "/conversations",
    "/conversations/{run_id}",
    "/devices",
    "/schedules",
    "/machines",
    "/settings",
    "/compare",
)
"""Addresses of pages."""

_PUBLIC = re.compile("|".join([re.sub(r"\{\w+\}", "[^/]+", address) for address in ADDRESSES] + [rf"{PREFIX}/[0-9a-f]+/.*"]))
_PAGE_HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
_ASSET_HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


def is_public(method: str, path: str) -> bool:
    """Return True for a request that needs no token because its answer holds no data."""
    return method == "GET" and _PUBLIC.fullmatch(path) is not None


async def read_page() -> HTMLResponse:
    """Return the document, which is the same for every page."""
    return HTMLResponse(assets().document, headers=_PAGE_HEADERS)


for _address in ADDRESSES:
    router.add_api_route(_address, read_page)


@router.get(PREFIX + "/{version}/{name:path}")
async def read_asset(version: str, name: str, accept_encoding: Annotated[str, Header()] = "") -> Response:
    """Return a file of this version of the console."""
    found = assets()
    asset = found.files.get(name) if version == found.version else None
    if asset is None:
        raise Problem(404, "this version of the console has no such file; load the page again")
    if "gzip" in accept_encoding:
        return Response(asset.packed, media_type=asset.media_type, headers={**_ASSET_HEADERS, "Content-Encoding": "gzip"})
    return Response(asset.data, media_type=asset.media_type, headers=_ASSET_HEADERS)
