"""Commands that add a device to a fleet file: fleet add mcp, fleet add a2a, fleet add ssh."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from asterism.app.bootstrap import open_devices
from asterism.app.schemas import DEVICE_TABLES
from asterism.cli.exit_codes import FINISHED
from asterism.cli.fleet_commands import DEFAULT_FILE
from asterism.cli.output import complain, console, put, put_line
from asterism.cli.plan_commands import device_lines
from asterism.constellation.model.references import secrets_of
from asterism.constellation.python.availability import cause_of
from asterism.devices.attempts.secrets import secret
from asterism.devices.fleet.credentials import check_arguments, check_url, check_values
from asterism.devices.fleet.fleet_addition import append_device, checked_addition
from asterism.devices.fleet.python_fleet import Fleet
from asterism.devices.kinds.ssh.device import SshDevice
from asterism.devices.kinds.ssh.shell import HostError
from asterism.devices.kinds.ssh.system import system_of
from asterism.devices.port import Device
from asterism.errors import InvalidInput, MissingExtra
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import count

Name = Annotated[str, Parameter(name="NAME", help="Id of the device in plans.")]
InFile = Annotated[Path, Parameter(name=["--fleet", "-f"], help="Fleet file; made if it does not exist.")]
Offline = Annotated[bool, Parameter(negative=(), help="Add the device without asking it.")]
Headers = Annotated[
    tuple[str, ...],
    Parameter(
        name="--header", negative=(), help="Header of each request, as 'NAME: VALUE'; a credential as '${secret.NAME}' or '$VARIABLE'."
    ),
]

_NEXT_OF_SSH = """it has no skills yet; add its programs to {file}, below the device:

[[devices.commands]]
name = "count"
argv = ["wc", "-l", "{{path}}"]
"""


def mcp(
    name: Name,
    /,
    *command: Annotated[str, Parameter(name="COMMAND", help="After --: program and arguments of a server over standard input and output.")],
    url: Annotated[str, Parameter(help="URL of a server over HTTP.")] = "",
    headers: Headers = (),
    env: Annotated[
        tuple[str, ...],
        Parameter(
            name="--env", negative=(), help="Variable of the program, as NAME=VALUE; a credential as '${secret.NAME}' or '$VARIABLE'."
        ),
    ] = (),
    fleet: InFile = DEFAULT_FILE,
    offline: Offline = False,
) -> int:
    """Add an MCP server to a fleet file, after asking it for its tools; those that may destroy something then ask a person."""
    if bool(command) == bool(url):
        raise InvalidInput(f"fleet add mcp {name}: give either a program, after --, or --url URL")
    check_url(url)
    check_arguments(command, name)
    given = {
        "command": _from_here(command, fleet),
        "url": url,
        "headers": _pairs(headers, ":", "--header", "NAME: VALUE"),
        "env": _pairs(env, "=", "--env", "NAME=VALUE"),
        "approval": "destructive",
    }
    return _add(name, "mcp", given, fleet, offline=offline)


def a2a(
    name: Name,
    url: Annotated[str, Parameter(name="URL", help="Address of the agent, or of its card if it ends in .json.")],
    /,
    *,
    headers: Headers = (),
    bearer: Annotated[str, Parameter(help="Environment variable with a bearer token, as '$NAME'.")] = "",
    fleet: InFile = DEFAULT_FILE,
    offline: Offline = False,
) -> int:
    """Add an A2A agent to a fleet file, after reading its card."""
    check_url(url)
    if bearer and not bearer.startswith("$"):
        raise InvalidInput(
            "--bearer: name an environment variable, as '$NAME'; the fleet file is plain text, and must not contain the token"
        )
    given = {"url": url, "bearer": bearer, "headers": _pairs(headers, ":", "--header", "NAME: VALUE")}
    return _add(name, "a2a", given, fleet, offline=offline)


def ssh(
    name: Name,
    host: Annotated[str, Parameter(name="HOST", help="host, user@host or user@host:port, or a name of your SSH configuration.")],
    /,
    *,
    keys: Annotated[
        tuple[Path, ...], Parameter(name="--key", negative=(), help="File with a private key; by default your keys and those of the agent.")
    ] = (),
    jump: Annotated[
        tuple[str, ...],
        Parameter(name="--jump", negative=(), help="Host to go through, as HOST; in order, if there are several."),
    ] = (),
    fleet: InFile = DEFAULT_FILE,
    offline: Offline = False,
) -> int:
    """Add a host to a fleet file, after connecting to it. Its programs are added by hand."""
    given = {"host": host, "jump": jump, "keys": tuple(_path_from(fleet, str(key)) for key in keys), "no_options": ("*",)}
    return _add(name, "ssh", given, fleet, offline=offline)


def _add(name: str, kind: str, given: Mapping[str, Any], file: Path, *, offline: bool) -> int:
    for what in ("headers", "env"):
        check_values({"headers": "header", "env": "variable"}[what], given.get(what, {}), name)
    table = {"id": name, "kind": kind, **{key: value for key, value in given.items() if value}}
    checked_addition(file, table, DEVICE_TABLES)
    out = console()
    if not offline:
        for line in asyncio.run(_asked(table, file)):
            put_line(out, line)
    append_device(file, table, DEVICE_TABLES)
    put(f"added {name} to {file}")
    for text in (text for what in ("headers", "env") for text in given.get(what, {}).values()):
        _complain_of_missing(text)
    if kind == "ssh":
        put(_NEXT_OF_SSH.format(file=file))
    put(f"next: asterism fleet {file}" if offline or kind == "ssh" else f'next: asterism plan "REQUEST" --fleet {file}')
    return FINISHED


async def _asked(table: dict[str, Any], file: Path) -> list[StyledLine]:
    """Return what a device can do, in words. Raises InvalidInput if it cannot be reached."""
    alone = Fleet()
    alone.tables, alone.folder = (table,), file.absolute().parent  # noqa: ASYNC240 - no disk is touched
    async with open_devices(alone) as (profiles, devices):
        device = devices[table["id"]]
        if why := await cause_of(device) or await _refusal(device):
            raise InvalidInput(f"device {table['id']!r} was not added: {why}; --offline adds it without asking it")
        lines = device_lines(profiles[table["id"]])
        if isinstance(device, SshDevice):
            lines.append(StyledLine(f"  {await system_of(device.host)}"))
        else:
            lines.append(StyledLine(f"  {count(len(device.profile.skills), 'skill')}", "dim"))
        return lines


async def _refusal(device: Device) -> str:
    """Return why a host cannot run programs; empty for any other device."""
    try:
        return "" if not isinstance(device, SshDevice) or await system_of(device.host) else "it does not run /bin/sh"
    except HostError as error:
        return str(error)


def _complain_of_missing(text: str) -> None:
    """Say which secrets of a text are not set here."""
    for name in secrets_of(text):
        try:
            secret(name)
        except (InvalidInput, MissingExtra) as error:
            complain(str(error))


def _from_here(command: tuple[str, ...], file: Path) -> tuple[str, ...]:
    """Return a command whose program, if it is a path of the current folder, is relative to that of the fleet file."""
    if os.sep not in (program := command[0] if command else ""):
        return command
    path = _path_from(file, program)
    return (path if os.sep in path else f".{os.sep}{path}", *command[1:])


def _path_from(file: Path, path: str) -> str:
    """Return a path of the current folder as one that is relative to the folder of a fleet file."""
    is_fixed = Path(path).is_absolute() or path.startswith("~")
    return path if is_fixed else os.path.relpath(path, file.absolute().parent)


def _pairs(given: Iterable[str], between: str, option: str, form: str) -> dict[str, str]:
    """Return options as a table. Raises InvalidInput."""
    pairs: dict[str, str] = {}
    for each in given:
        name, found, value = each.partition(between)
        if not found or not name.strip() or not value.strip():
            raise InvalidInput(f"{option}: {each.split(between)[0]!r} has no value; write it as {option} '{form}'")
        if name.strip() in pairs:
            raise InvalidInput(f"{option} {name.strip()} is given twice")
        pairs[name.strip()] = value.strip()
    return pairs
