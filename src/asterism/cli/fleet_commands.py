"""Commands on fleet files: fleet show, fleet check, fleet add mcp, a2a, ssh and device."""

from __future__ import annotations

import asyncio
import json as json_text
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import device_kinds, open_devices, read_fleet
from asterism.app.settings import database_path
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, Json
from asterism.cli.output import complain, console, put, put_line
from asterism.cli.run_access import connected
from asterism.constellation.python.fleet_state import RunsKnowledge, answers_of, knowledge_of, states_of
from asterism.constellation.requirements import cause_of
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.plans import check_on_fleet
from asterism.conversation.python.registry import agent_class
from asterism.devices.attempts.secrets import secret
from asterism.devices.dispatch.places import drains_of
from asterism.devices.fleet import fleet_file
from asterism.devices.fleet.fleet_addition import append_device, check_arguments, check_url, check_values, checked_addition
from asterism.devices.fleet.fleet_file import read_channels, read_hooks
from asterism.devices.fleet.python_fleet import Fleet
from asterism.devices.model.references import secrets_of
from asterism.devices.port import Unreachable
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.runtime.clock import SystemClock
from asterism.errors import InvalidInput, MissingExtra
from asterism.service.hooks import with_keys
from asterism.service.notifications.sending import check_channel
from asterism.views.text.fleet import DeviceState, fleet_lines
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import count, plain

DEFAULT_FILE = Path("fleet.toml")
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


def show(
    file: Annotated[Path, Parameter(name="FILE", help="The fleet file.")] = DEFAULT_FILE,
    /,
    *,
    no_connect: Annotated[
        bool, Parameter(name="--no-connect", negative=(), help="Do not connect to devices, import their skills or start their programs.")
    ] = False,
    database: Database = None,
    json: Json = False,
) -> int:
    """Show the devices of a fleet: health, load, last sign and skills. Asks each device, which has 20 s to answer."""
    now = SystemClock().now()
    states = asyncio.run(_states(file, database_path(database), now, connects=not no_connect))
    if json:
        put(json_text.dumps([msgspec.to_builtins(state) for state in states], indent=2))
        return FINISHED
    out = console()
    for line in fleet_lines(states, now):
        put_line(out, line)
    return FINISHED


async def _states(file: Path, database: Path, now: float, *, connects: bool) -> list[DeviceState]:
    entries = fleet_file.read_fleet(file, device_kinds())
    known = RunsKnowledge()
    if database.exists():  # noqa: ASYNC240 - one look
        async with connected(database) as client:
            known = await knowledge_of(client, file, now)
        known.draining = {name: drain for name, it in drains_of({}, file, database).items() if (drain := it.draining())}
    if not connects:
        return states_of(entries, None, {}, known, now)
    async with open_devices(file) as (_, devices):
        return states_of(entries, devices, await answers_of(devices), known, now)


def check(file: Annotated[Path, Parameter(name="FILE", help="The fleet file.")], /) -> int:
    """Check a fleet file and list its devices and skills."""
    fleet = asyncio.run(_checked_fleet(file))
    out = console()
    for profile in fleet.values():
        for line in device_lines(profile):
            put_line(out, line)
        out.print()
    for channel in read_channels(file):
        check_channel(channel, secret)
        put_line(out, StyledLine(f"notify {channel.name}: {', '.join(channel.on)}", "dim"))
    for hook in with_keys(read_hooks(file), secret).values():
        put_line(out, StyledLine(f"hook /api/hooks/{hook.name}: {hook.signed}", "dim"))
    skills = sum(len(profile.skills) for profile in fleet.values())
    out.print(f"{count(len(fleet), 'device')}, {count(skills, 'skill')}: {plain(file)} is valid")
    return FINISHED


async def _checked_fleet(file: Path) -> Mapping[str, AgentProfile]:
    """Return the profiles of a fleet file. Raises InvalidInput, also for a plan of a flow agent that cannot run on it."""
    fleet = await read_fleet(file, every=True)
    for profile in fleet.values():
        if profile.child is not None and profile.child.machine == FLOW_AGENT.name:
            await check_on_fleet(agent_class(profile.child.definition["agent"]), fleet, None)
    return fleet


def device_lines(profile: AgentProfile) -> list[StyledLine]:
    """Return the lines that describe a device and its skills."""
    head = StyledLine(plain(profile.device_id), "bold").append(f"  {plain(profile.description)}" if profile.description else "", "dim")
    lines = [head]
    known_as = ", ".join(plain(alias) for alias in profile.aliases)
    able = ", ".join(plain(word) for word in profile.capabilities)
    more = [f"kind {profile.kind}", f"{profile.concurrency} at a time"]
    more += [f"also called {known_as}"] if known_as else []
    more += [f"good at {able}"] if able else []
    lines.append(StyledLine(f"  {'; '.join(more)}", "dim"))
    for skill in profile.skills:
        required = skill.required_names()
        parameters = ", ".join(plain(name) if name in required else f"[{plain(name)}]" for name in skill.parameter_names())
        fields = skill.output_fields()
        gives = f" → {', '.join(plain(name) for name in skill.output['properties'])}" if fields and skill.output else ""
        line = StyledLine("  ").append(plain(skill.name), "cyan").append(f"({parameters}){gives}")
        lines.append(line.append("  idempotent" if skill.idempotent else "", "green"))
        lines.append(StyledLine(f"      {plain(skill.description)}", "dim"))
        if untyped := [plain(name) for name, it in skill.parameters.get("properties", {}).items() if not it.keys() - {"default"}]:
            lines.append(StyledLine(f"      without a type, so any value is accepted: {', '.join(untyped)}", "yellow"))
    if absent := [plain(name) for name in profile.guards.skills if profile.skill(name) is None]:
        lines.append(StyledLine(f"  guards of what it does not offer now: {', '.join(absent)}", "yellow"))
    return lines


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


def device(
    name: Name,
    kind: Annotated[str, Parameter(name="KIND", help="Kind of device, also one of an installed package.")],
    /,
    *keys: Annotated[str, Parameter(name="KEY=VALUE", help="Key of its table; a value that is no JSON is a text.")],
    fleet: InFile = DEFAULT_FILE,
    offline: Offline = False,
) -> int:
    """Add a device of any kind to a fleet file, with the keys of its table, after asking it."""
    given = {key: _value(value) for key, value in _pairs(keys, "=", "KEY=VALUE", "KEY=VALUE").items()}
    return _add(name, kind, given, fleet, offline=offline)


def _value(text: str) -> Any:
    try:
        return json_text.loads(text)
    except ValueError:
        return text


def _add(name: str, kind: str, given: Mapping[str, Any], file: Path, *, offline: bool) -> int:
    table = {"id": name, "kind": kind, **{key: value for key, value in given.items() if value not in ("", (), {})}}
    tables = {what: values for what in ("headers", "env") if isinstance(values := given.get(what), Mapping)}
    for what, values in tables.items():
        check_values({"headers": "header", "env": "variable"}[what], values, name)
    check_values("key", {key: value for key, value in given.items() if isinstance(value, str)}, name)
    checked_addition(file, table, kinds := device_kinds())
    out = console()
    if not offline:
        for line in asyncio.run(_asked(table, file)):
            put_line(out, line)
    append_device(file, table, kinds)
    put(f"added {name} to {file}")
    for text in (text for values in tables.values() for text in values.values()):
        _complain_of_missing(str(text))
    if kind == "ssh":
        put(_NEXT_OF_SSH.format(file=file))
    put(f"next: asterism fleet {file}" if offline or kind == "ssh" else f'next: asterism plan "REQUEST" --fleet {file}')
    return FINISHED


async def _asked(table: dict[str, Any], file: Path) -> list[StyledLine]:
    """Return what a device can do, in words. Raises InvalidInput if it cannot be reached."""
    alone = Fleet()
    alone.tables, alone.folder = (table,), file.absolute().parent  # noqa: ASYNC240 - no disk is touched
    async with open_devices(alone) as (profiles, devices):
        added, system, why = devices[table["id"]], "", ""
        try:
            why = await cause_of(added)
            system = "" if why else await added.system()
        except Unreachable as error:
            why = str(error)
        if why:
            raise InvalidInput(f"device {table['id']!r} was not added: {why}; --offline adds it without asking it")
        skills = StyledLine(f"  {count(len(added.profile.skills), 'skill')}", "dim")
        return [*device_lines(profiles[table["id"]]), StyledLine(f"  {system}") if system else skills]


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
