"""The parts of the site that are made while it is built: help of the commands, the Python reference, drawn diagrams.

A page has a comment where such a part belongs: ``<!-- commands -->`` or ``<!-- public names -->``.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import inspect
import io
import re
from collections.abc import Iterator, Sequence
from unittest import mock

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import ExtensionMetadata

import asterism
from asterism.cli import app, main

_MERMAID = re.compile(r"^```mermaid\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r'<picture>.*?<img alt="([^"]*)" src="([^"]*)">\s*</picture>', re.DOTALL)
_EDGE = re.compile(r"^ *(\w+) --> (\w+)(?:: (.*))?$", re.MULTILINE)
_SECTIONS = {
    "Open a database and run": ("app.bootstrap",),
    "Connect to a database or a server": ("app.connect",),
    "The runs of a server": ("service",),
    "Constellations": ("constellation.python",),
    "Skills and devices": ("devices",),
    "Plans as data": ("constellation.model", "engine.kernel"),
    "Loops": ("loop.python",),
    "Conversations": ("conversation.python",),
    "Events and options": ("constellation.machine", "conversation.machine", "loop.machine"),
    "The runtime": ("engine.runtime",),
    "A planner of your own": ("constellation.planner",),
    "Errors": ("errors",),
}
"""The sections of the public names, each with the packages or modules that it has."""
_WIDTH, _HEIGHT, _GAP, _REACH, _SPAN = 190, 30, 26, 38, 230
"""Pixels of the diagrams: box width and height, distance of the boxes, reach of an arc by boxes passed, room beside the boxes."""


def setup(application: Sphinx) -> ExtensionMetadata:
    """Connect the extension."""
    application.connect("source-read", _fill)
    return {"parallel_read_safe": True}


def _fill(_: Sphinx, __: str, source: list[str]) -> None:
    text = _PICTURE.sub(r"![\1](\2)", source[0])  # of a picture in light and dark, the site has the light one
    text = _MERMAID.sub(lambda block: _drawn(block[1]), text)
    if "<!-- commands -->" in text:
        text = text.replace("<!-- commands -->", "\n".join(_help(app, [])))
    if "<!-- public names -->" in text:
        text = text.replace("<!-- public names -->", _names())
    source[0] = text


def _help(command: object, path: list[str]) -> Iterator[str]:
    """Yield the help of a command and of its subcommands as Markdown."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), mock.patch.dict("os.environ", {"COLUMNS": "80"}):
        main([*path, "--help"])
    text = "\n".join(line.rstrip() for line in shown.getvalue().strip().splitlines())
    yield f"\n## {' '.join(['asterism', *path])}\n\n```text\n{text}\n```"
    for name in sorted(command):  # type: ignore[call-overload]
        if not name.startswith("-"):
            yield from _help(command[name], [*path, name])  # type: ignore[index]


def _names() -> str:
    """Return the public names with their docstrings, by section."""
    public = asterism._HOME_OF  # noqa: SLF001
    of = {
        title: [it for it in public if f"{public[it]}.".startswith(tuple(f"asterism.{home}." for home in homes))]
        for title, homes in _SECTIONS.items()
    }
    return "\n".join(f"\n## {title}\n\n```{{eval-rst}}\n{''.join(map(_directive, names))}```" for title, names in of.items() if names)


def _directive(name: str) -> str:
    found = getattr(importlib.import_module("asterism"), name)
    if inspect.isclass(found):
        return f".. autoclass:: asterism.{name}\n   :members:\n\n"
    if callable(found):
        return f".. autofunction:: asterism.{name}\n\n"
    home = asterism._HOME_OF[name]  # noqa: SLF001
    lines = ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), [])
    return f".. py:data:: asterism.{name}\n\n   {' '.join(lines).strip()}\n\n"


def _drawn(text: str) -> str:
    """Return a state diagram of Mermaid as a picture: states in one column, arcs down on the right and up on the left.

    The events of an arc, or of a state that can stay as it is, are shown when the pointer is on it.
    """
    edges = [(start, end, events or "") for start, end, events in _EDGE.findall(text.replace("[*]", "_"))]
    states = list(dict.fromkeys(name for start, end, _ in edges for name in (start, end) if name != "_"))
    last = {start for start, end, _ in edges if end == "_"}
    top = {state: 12 + number * (_HEIGHT + _GAP) for number, state in enumerate(states)}
    parts = [_arc(states, top, edge) for edge in edges if "_" not in edge[:2] and edge[0] != edge[1]]
    again = {start: events for start, end, events in edges if start == end}
    for state in states:
        width = 3 if state in last else 1
        loop = f"<title>stays in {state}: {html.escape(again[state])}</title>" if state in again else ""
        box = f'<rect x="{_SPAN}" y="{top[state]}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" stroke-width="{width}"/>'
        at = f'x="{_SPAN + _WIDTH / 2}" y="{top[state] + 20}" text-anchor="middle"'
        parts.append(f'<g>{loop}{box}<text {at} class="state">{state}{" ↻" if loop else ""}</text></g>')
    height = len(states) * (_HEIGHT + _GAP)
    return (
        f'<div class="machine"><svg viewBox="0 0 {2 * _SPAN + _WIDTH} {height}" role="img" aria-label="State diagram">'
        f'<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
        f"{''.join(parts)}</svg></div>"
    )


def _arc(states: Sequence[str], top: dict[str, int], edge: tuple[str, str, str]) -> str:
    start, end, events = edge
    passed = states.index(end) - states.index(start)
    side = 1 if passed > 0 else -1
    x = _SPAN + (_WIDTH if passed > 0 else 0)
    ports = (_HEIGHT * 3 // 4, _HEIGHT // 4) if passed > 0 else (_HEIGHT // 4, _HEIGHT * 3 // 4)
    from_y, to_y = top[start] + ports[0], top[end] + ports[1]
    reach = x + side * min(_REACH * abs(passed) + 10, _SPAN + 60)
    return (
        f"<g><title>{start} to {end}: {html.escape(events)}</title>"
        f'<path d="M{x},{from_y} C{reach},{from_y} {reach},{to_y} {x},{to_y}" marker-end="url(#head)" class="arc"/></g>'
    )
