"""The page that ``asterism export RUN run.html`` writes: one file that shows a run in a browser, without a server."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from asterism.console.scripts import linked, source
from asterism.engine.kernel.machine import Machine
from asterism.views import Delta

STYLES = ("tokens.css", "page.css", "plan.css", "side.css", "timeline.css")
ENTRY = "export.js"

LOG_BYTES = 16 << 10
"""Bytes of output of one attempt that a page has."""
LOGS = 500
"""Attempts whose output a page has: the last ones."""


class PageLog(msgspec.Struct, frozen=True):
    """The end of the output of an attempt.

    Attributes:
        text: the output.
        skipped: bytes before it that the page does not have.
    """

    text: str
    skipped: int = 0


class LogTails:
    """Collects the end of the output of each attempt, both streams in the order in which they were stored."""

    def __init__(self) -> None:
        self._tails: dict[str, tuple[bytearray, int]] = {}

    def add(self, effect_id: str, data: bytes, skipped: int = 0) -> None:
        """Append output of an attempt; ``skipped`` bytes before it were not stored."""
        tail, left_out = self._tails.pop(effect_id, (bytearray(), 0))
        tail += data
        beyond = max(0, len(tail) - LOG_BYTES)
        del tail[:beyond]
        self._tails[effect_id] = tail, left_out + skipped + beyond  # the last one now
        if len(self._tails) > LOGS:
            del self._tails[next(iter(self._tails))]

    def logs(self) -> dict[str, PageLog]:
        """Return the logs by effect id."""
        return {key: PageLog(tail.decode(errors="replace"), left_out) for key, (tail, left_out) in self._tails.items()}


class PageRun(msgspec.Struct, frozen=True):
    """A run of a page.

    Attributes:
        run, parent: its id, and that of its parent; empty for a root.
        machine: its machine, from ``machine_data``.
        deltas: all deltas of its journal.
        logs: the end of the output of its attempts, by effect id.
    """

    run: str
    parent: str
    machine: Mapping[str, Any]
    deltas: Sequence[Delta]
    logs: Mapping[str, PageLog] = {}


def machine_data(machine: Machine[Any]) -> dict[str, Any]:
    """Return the states of a machine and the edges between them, for the page to draw."""
    moves = {(str(state), str(target)): None for state, rows in machine.table.items() for row in rows.values() for target in row.to}
    return {
        "name": machine.name,
        "initial": str(machine.initial),
        "states": [str(state) for state in machine.states],
        "ends": [str(state) for state in machine.states if machine.is_terminal(state)],
        "moves": [list(move) for move in moves],
    }


def run_page(runs: Sequence[PageRun]) -> str:
    """Return the page of a run and the runs below it, the root first.

    Its content security policy allows the script and the style in it by their hashes, and no request. The runs are
    JSON in a block that browsers do not execute; no text of them can end the block.
    """
    style, script = "".join(map(source, STYLES)), linked(ENTRY)
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = msgspec.json.encode(runs).decode()
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="data:,">\n<title>{html.escape(runs[0].run)}</title>\n<style>{style}</style>\n</head>\n<body>\n'
        "<noscript>This page needs JavaScript. The run is in the JSON below.</noscript>\n"
        f'<script type="module">{script}</script>\n'  # before the data, so that half of a file says that it is one
        f'<script type="application/json" id="runs">{data}</script>\n</body>\n</html>\n'
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
