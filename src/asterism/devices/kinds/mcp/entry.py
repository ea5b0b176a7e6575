"""The table of a device of the kind ``mcp`` in a fleet file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asterism.devices.fleet.fleet_file import DeviceEntry
from asterism.errors import InvalidInput

Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class McpEntry(DeviceEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of kind ``mcp``.

    Attributes:
        command: program and arguments of a server over stdio.
        url: URL of a server over HTTP.
        headers: headers of each request; ``$NAME`` in a value is an environment variable.
        env: environment variables of the program, in the same form.
        folder: working folder of the program, relative to the fleet file; empty for its folder.
        allow: names of the tools that become skills; empty for all.
        trust_hints: take a tool that declares itself read-only or idempotent for repeatable.
        held_s: seconds that a call which the server holds open waits for a person's answer.
        silent_s: seconds of silence after which a server is lost, while it has a call.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    folder: str = ""
    allow: tuple[str, ...] = ()
    trust_hints: bool = False
    held_s: Seconds = 600.0
    silent_s: Seconds = 300.0

    def check(self, folder: Path) -> None:
        """Check the table. Raises InvalidInput that begins with the key."""
        if bool(self.command) == bool(self.url):
            raise InvalidInput('command: write either a command, like ["my-server", "--stdio"], or a url')
        if self.url and not self.url.startswith(("http://", "https://")):
            raise InvalidInput(f"url: {self.url!r} is not the URL of an MCP server; it begins with https:// or http://")
        if odd := [name for name in ("env", "folder") if self.url and getattr(self, name)]:
            raise InvalidInput(f"{odd[0]}: only for a server that is a command")
        if self.headers and not self.url:
            raise InvalidInput("headers: only for a server with a url")
        if self.folder and not (folder / self.folder).is_dir():
            raise InvalidInput(f"folder: there is no folder {folder / self.folder}; make it")
