"""Commands for flow agents: chat, and flow run."""

from __future__ import annotations

import asyncio
import contextlib
import json as json_text
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from asterism.bootstrap import ModelServices, open_model_services
from asterism.bootstrap import open as open_all
from asterism.cli.codes import FAILED, FINISHED, INTERRUPTED, WAITING
from asterism.cli.finding import actor, connected
from asterism.cli.keyboard import confided, heard, terminal
from asterism.cli.options import BackupModel, Database, Json, Record
from asterism.cli.output import put
from asterism.cli.stories.proposals import answer_line
from asterism.constellations.resumption import fleet_file_below
from asterism.errors import AsterismError, InvalidInput, StoreUnavailable
from asterism.flows.agent import StandardAgent
from asterism.flows.agent_state import AgentResult
from asterism.flows.conversation import Conversation
from asterism.flows.orchestrator import Orchestrator
from asterism.flows.slot_filling import in_words
from asterism.flows.source import agent_of, agents_of
from asterism.machines.flow_agent.events import AgentStatus
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.planner.model_choice import ModelChoice
from asterism.runtime.lookup import MAX_RUNS
from asterism.runtime.runtime import Runtime
from asterism.settings import database_path, model_choice
from asterism.views.words import plain

Agents = Annotated[
    str, Parameter(name="AGENTS", help="Where the agents are: file.py, package.module or an entry point; file.py:Name for one.")
]
Fleet = Annotated[
    Path | None, Parameter(name=["--fleet", "-f"], help="TOML file that names the devices, for agents that start constellations.")
]
Model = Annotated[
    str | None,
    Parameter(
        name="--model",
        help="Find fields, choose agents and plan with this model: openai:…, anthropic:…, google:… or ollama:…, "
        "or replay:FILE for a recording [default: $ASTERISM_MODEL, else without a model].",
    ),
]
Opened = contextlib.AbstractAsyncContextManager[tuple[Runtime, ModelServices]]
MAX_SHOWN = 2000
"""Characters of an answer that are printed."""
HELP = """\
/pause    suspend the conversation
/resume   go on where it was paused
/cancel   stop it for good
/fields   what it has taken from what was said
/history  what was said
/quit     leave; what is open stays open
A line that ends with a backslash goes on in the next."""


def chat(
    source: Agents,
    /,
    *,
    user: Annotated[str | None, Parameter(help="Who talks [default: you].")] = None,
    fleet: Fleet = None,
    model: Model = None,
    backup_model: BackupModel = None,
    record: Record = None,
    database: Database = None,
) -> int:
    """Talk to flow agents. What was left open the last time goes on; /quit leaves it open again.

    At a terminal, a line that was typed before an approval was shown does not answer it. The lines of a pipe are taken in their order.
    """
    if sys.stdin is None:
        raise InvalidInput("there is no standard input to hear you by")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - line editing and history, where there is a terminal
    agents = agents_of(source, Path.cwd())
    user = user or actor()
    fleet = fleet or asyncio.run(_fleet_of(user, database_path(database)))
    with terminal():
        return asyncio.run(_chat(agents, user, _open(database, fleet, model_choice(model, backup_model, record))))


async def _fleet_of(user: str, database: Path) -> Path | None:
    """The fleet file of what runs below a user's open conversations, so that it goes on over its devices; None where nothing does."""
    with contextlib.suppress(StoreUnavailable):  # there is none yet, or it is told when it is opened
        async with connected(database) as client:
            for row in await client.runs(limit=MAX_RUNS):
                is_open = row.machine == FLOW_AGENT.name and row.actor == user and not row.parent and row.status != "ended"
                if is_open and (found := await fleet_file_below(client, row)):
                    return found
    return None


async def _chat(agents: Sequence[type[StandardAgent]], user: str, opened: Opened) -> int:
    async with opened as (runtime, minds):
        desk = Orchestrator(agents, runtime=runtime, router=minds.router)
        put(f"{'; '.join(agent.description or agent.__name__ for agent in agents)}. /help says more.")
        if there := await desk.current(user):
            _say(await there.settle())  # what was interrupted goes on first
        while (line := await _heard(desk, runtime, user)) is not None:  # until the person leaves
            if line.strip() == "/quit":
                break
            try:
                await _take(desk, runtime, user, line)
            except AsterismError as error:
                put(f"({plain(str(error).partition(chr(10))[0], MAX_SHOWN)})")
    return FINISHED


async def _heard(desk: Orchestrator, runtime: Runtime, user: str) -> str | None:
    """What the person says next, to what is asked now; None at the end of the input."""
    there = await desk.current(user)
    return await heard(await there.asked(runtime) if there else None)


@contextlib.asynccontextmanager
async def _open(database: Path | None, fleet: Path | None, choice: ModelChoice | None) -> AsyncIterator[tuple[Runtime, ModelServices]]:
    async with (
        open_model_services(choice) as minds,
        open_all(database, fleet=fleet, planner=minds.planner, extractor=minds.extractor) as runtime,
    ):
        yield runtime, minds


async def _take(desk: Orchestrator, runtime: Runtime, user: str, line: str) -> None:
    if not line.startswith("/"):
        _say(await desk.handle(line, user=user))
        return
    there = await desk.current(user)
    command = line.strip()[1:]
    if command not in ("pause", "resume", "cancel", "fields", "history"):
        put(HELP)
    elif there is None:
        put("(no conversation is open)")
    elif command == "fields":
        fields = (await there.result(runtime)).fields
        put("\n".join(f"{name}: {plain(in_words(value), MAX_SHOWN)}" for name, value in fields.items()) or "(none yet)")
    elif command == "history":
        for said in await there.history(runtime):
            put(f"{plain(said.by)}: {plain(said.text, MAX_SHOWN)}")
    else:
        _say(await getattr(there, command)())


def _say(result: AgentResult) -> None:
    put(plain(result.raw_message, MAX_SHOWN))
    if result.run_id:  # else it is nobody's answer
        put(f"  [{result.status}]")


def run_flow(
    source: Agents,
    /,
    *,
    field: Annotated[Sequence[str], Parameter(name="--field", help="NAME=VALUE; as often as there are fields.", negative=())] = (),
    text: Annotated[str, Parameter(help="The first message.")] = "",
    fleet: Fleet = None,
    model: Model = None,
    backup_model: BackupModel = None,
    record: Record = None,
    database: Database = None,
    json: Json = False,
) -> int:
    """Run one flow agent with the fields that are given. What is missing is asked for, and left open; nothing is approved here."""
    agent = agent_of(source, Path.cwd())
    opened = _open(database, fleet, model_choice(model, backup_model, record))
    return asyncio.run(_run(agent, _values(agent, field), text, opened, as_json=json))


def _values(agent: type[StandardAgent], given: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in given:
        name, sign, value = item.partition("=")
        if not sign or name not in agent.input_fields():
            raise InvalidInput(
                f"--field {item}: {agent.__name__} takes {', '.join(f'{known}=…' for known in agent.input_fields()) or 'none'}"
            )
        if agent.input_fields()[name].secret:
            raise InvalidInput(
                f"--field {name}: others can read a command line, and this is a secret; leave it out, and it is asked for at the terminal"
            )
        if name in values:
            raise InvalidInput(f"--field {name} is given twice")
        values[name] = value
    return values


async def _run(agent: type[StandardAgent], values: dict[str, Any], text: str, opened: Opened, *, as_json: bool) -> int:
    async with opened as (runtime, _):
        conversation = Conversation(agent, runtime=runtime, user=actor())
        result = await conversation.say(text, values)
        if as_json:
            put(json_text.dumps(msgspec.to_builtins(result), ensure_ascii=False))
        else:
            put(f"run {result.run_id}")
            while await confided(runtime, result.run_id):  # until the person leaves
                result = await conversation.settle()
            _say(result)
            for asked in await runtime.store.inquiries(root=result.run_id):
                put(f"  {answer_line(asked, None, result.run_id)}")
    codes = {AgentStatus.COMPLETED: FINISHED, AgentStatus.ERROR: FAILED, AgentStatus.CANCELLED: INTERRUPTED}
    return codes.get(result.status, WAITING)
