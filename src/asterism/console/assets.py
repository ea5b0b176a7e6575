"""The files of the live console, as a server delivers them: a small document, and the scripts and the style that it loads."""

from __future__ import annotations

import functools
import gzip
import hashlib
from pathlib import Path

import msgspec

from asterism.console.export import STYLES
from asterism.console.scripts import WEB, linked, source, split

LIVE = "live/main.js"
WORKER = "live/worker.js"
STYLE = "live/style.css"
PREFIX = "/console"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy of the document, and of the worker's script, which has a policy of its own."""

_TYPES = {".js": "text/javascript", ".css": "text/css"}


class Asset(msgspec.Struct, frozen=True):
    """A file of the console.

    Attributes:
        data, packed: its bytes, and those compressed by gzip.
        media_type: its type in HTTP.
    """

    data: bytes
    packed: bytes
    media_type: str


class Assets(msgspec.Struct, frozen=True):
    """All files of one version of the console.

    Attributes:
        version: hash of all files; it is a part of their addresses, so that a browser can store them for ever.
        document: the HTML of every page.
        files: the assets by their name below ``web``.
    """

    version: str
    document: str
    files: dict[str, Asset]


@functools.cache
def assets() -> Assets:
    """Return the assets, which are read once."""
    texts = {**split(LIVE), WORKER: linked(WORKER), STYLE: "".join(map(source, styles()))}
    files = {}
    digest = hashlib.sha256()
    for name, text in texts.items():
        data = text.encode()
        files[name] = Asset(data, gzip.compress(data, mtime=0), _TYPES[Path(name).suffix])
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    version = digest.hexdigest()[:16]
    return Assets(version, _document(f"{PREFIX}/{version}"), files)


def styles() -> list[str]:
    """Return the names of the style sheets in the order in which they apply: those of a run's page, the shell's, those of other pages."""
    others = sorted(path.relative_to(WEB).as_posix() for path in WEB.rglob("*.css"))
    return [*STYLES, *sorted((name for name in others if name not in STYLES), key=lambda name: name != "live/live.css")]


def _document(base: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        '<title>Asterism</title>\n<link rel="icon" href="data:,">\n'
        f'<link rel="stylesheet" href="{base}/{STYLE}">\n'
        f'<script type="module" src="{base}/{LIVE}"></script>\n</head>\n<body>\n'
        "<noscript>The console needs JavaScript. The commands of asterism do not.</noscript>\n</body>\n</html>\n"
    )
