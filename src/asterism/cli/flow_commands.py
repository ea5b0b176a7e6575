"""Commands for flow agents: chat, and flow run."""

from __future__ import annotations

import asyncio
import contextlib
import json as json_text
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from cyclopts import Parameter

from asterism.bootstrap import ModelServices, open_model_services
from asterism.bootstrap import open as open_all
from asterism.cli.exit_codes import FAILED, FINISHED, INTERRUPTED, WAITING
from asterism.cli.foreground import drive_shown, print_end
from asterism.cli.keyboard import terminal, typed_answer
from asterism.cli.options import BackupModel, Database, Json, Record
from asterism.cli.output import put
from asterism.cli.questions import can_ask
from asterism.cli.run_access import actor, connected
from asterism.cli.time_zone import local_zone
from asterism.constellations.app import App
from asterism.constellations.resumption import fleet_file_below
from asterism.errors import AsterismError, InvalidInput, StoreUnavailable, first_of
from asterism.flows.agent import StandardAgent
from asterism.flows.agent_state import AgentResult
from asterism.flows.conversation import Conversation
from asterism.flows.orchestrator import Orchestrator
from asterism.flows.plans import check_on_fleet
from asterism.flows.slot_filling import value_words
from asterism.flows.source import agent_of, agents_of
from asterism.machines.flow_agent.events import AgentStatus
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.run_control import Pause
from asterism.planner.model_choice import ModelChoice
from asterism.reading.setting import DEFAULT_LANGUAGE, DEFAULT_ZONE, zone_of
from asterism.reading.words import words_of
from asterism.runtime.lookup import MAX_RUNS
from asterism.runtime.runtime import Runtime
from asterism.settings import database_path, model_choice
from asterism.views.text.proposals import answer_line
from asterism.views.words import plain

Agents = Annotated[
    str, Parameter(name="AGENTS", help="Source of the agents: file.py, package.module or an entry point; file.py:Name for one agent.")
]
Fleet = Annotated[Path | None, Parameter(name=["--fleet", "-f"], help="Fleet file (TOML), for agents that start constellations.")]
_MODELS = "openai:…, anthropic:…, google:… or ollama:…, or replay:FILE to replay a recording [default: $ASTERISM_MODEL, else no model]."
ChatModel = Annotated[str | None, Parameter(name="--model", help=f"Extract fields, choose agents and plan with this model: {_MODELS}")]
FlowModel = Annotated[str | None, Parameter(name="--model", help=f"Extract fields and plan with this model: {_MODELS}")]
Language = Annotated[
    str | None, Parameter(help="Language of your messages: de, en or es, or a language file (.toml) [default: the agent's].")
]
TimeZone = Annotated[str | None, Parameter(help="Your time zone, as Europe/Berlin [default: the agent's, else the machine's].")]
Opened = contextlib.AbstractAsyncContextManager[tuple[App, ModelServices]]
MAX_SHOWN = 2000
"""Characters of an answer that are printed at most."""
_CODES = {AgentStatus.COMPLETED: FINISHED, AgentStatus.ERROR: FAILED, AgentStatus.CANCELLED: INTERRUPTED}
PAUSED = -1
HELP = """\
/pause    pause the conversation
/resume   resume a paused conversation
/cancel   cancel the conversation
/fields   list the fields collected so far
/history  list the messages so far
/quit     leave; an open conversation stays open
End a line with a backslash to continue it on the next."""


class Heard(NamedTuple):
    """How messages are read: the options, and the time zone of the machine."""

    language: str = ""
    time_zone: str = ""
    local_zone: str = ""


def chat(
    source: Agents,
    /,
    *,
    user: Annotated[str | None, Parameter(help="Name under which you chat [default: your login name].")] = None,
    fleet: Fleet = None,
    model: ChatModel = None,
    backup_model: BackupModel = None,
    record: Record = None,
    language: Language = None,
    time_zone: TimeZone = None,
    database: Database = None,
) -> int:
    """Chat with flow agents. An open conversation continues; /quit leaves it open.

    Ctrl-C while the agent works pauses the conversation; a second one stops at once.
    At a terminal, a line typed before an approval is shown does not answer it. Lines from a pipe are read in order, and the
    exit code is that of the last conversation: 0 completed, 1 failed, 3 waiting, 130 cancelled.
    """
    if sys.stdin is None:
        raise InvalidInput("standard input is closed; chat reads your messages from it")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - line editing and history at a terminal
    agents = agents_of(source, Path.cwd())
    user = user or actor()
    fleet = fleet or asyncio.run(_fleet_of(user, database_path(database)))
    with terminal():
        heard = Heard(language or "", time_zone or "", local_zone())
        words_of(heard.language or DEFAULT_LANGUAGE)
        zone_of(heard.time_zone or DEFAULT_ZONE)
        return asyncio.run(_chat(agents, user, heard, _open(database, fleet, model_choice(model, backup_model, record))))


async def _fleet_of(user: str, database: Path) -> Path | None:
    """Return the fleet file of the runs below a user's open conversations; None if they have none."""
    with contextlib.suppress(StoreUnavailable):  # no database yet, or one that fails below with its reason
        async with connected(database) as client:
            for row in await client.runs(limit=MAX_RUNS):
                is_open = row.machine == FLOW_AGENT.name and row.actor == user and not row.parent and row.status != "ended"
                if is_open and (found := await fleet_file_below(client, row)):
                    return found
    return None


async def _chat(agents: Sequence[type[StandardAgent]], user: str, heard: Heard, opened: Opened) -> int:
    async with opened as (runtime, services):
        for known in agents:
            await check_on_fleet(known, runtime.fleet, runtime.here, runtime.devices)
        orchestrator = Orchestrator(
            agents,
            runtime=runtime,
            router=services.router,
            language=heard.language,
            time_zone=heard.time_zone,
            local_zone=heard.local_zone,
        )
        put(f"{'; '.join(agent.description or agent.__name__ for agent in agents)}. Type /help for commands.")
        for run, agent in (await orchestrator.missing(user)).items():
            put(f"(run {run} waits: the agent {plain(agent)} cannot be found; restore it, or cancel the run: asterism cancel {run})")
        code = FINISHED
        if conversation := await orchestrator.current(user):
            code = _print_result(await conversation.settle()) or code  # an interrupted answer is completed first
        while (line := await _next_message(orchestrator, runtime, user)) is not None:  # until the person leaves
            if line.strip() == "/quit":
                return FINISHED
            try:
                done = await _interruptible(_handle(orchestrator, runtime, user, line), orchestrator, user)
            except AsterismError as error:
                put(f"({plain(str(error).partition(chr(10))[0], MAX_SHOWN)})")
                code = FAILED
                continue
            if done == PAUSED:
                return INTERRUPTED
            code = code if done is None else done
    return FINISHED if sys.stdin.isatty() else code


async def _interruptible(turn: Coroutine[Any, Any, int | None], orchestrator: Orchestrator, user: str) -> int | None:
    """Take a turn. The first Ctrl-C pauses the conversation after the running handler, a second one stops at once.

    Returns:
        The result of the turn; ``PAUSED`` if Ctrl-C has paused the conversation.
    """
    pressed, before = asyncio.Queue[None](), signal.getsignal(signal.SIGINT)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, pressed.put_nowait, None)
    paused: list[str] = []
    try:
        async with asyncio.TaskGroup() as group:
            taken = group.create_task(turn)
            pausing = group.create_task(_pause_at_ctrl_c(pressed, taken, orchestrator, user, paused))
            await asyncio.wait([taken])
            pausing.cancel()
    except* AsterismError as failed:
        raise first_of(failed) from None
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
    if taken.cancelled():
        raise KeyboardInterrupt
    for run in paused:
        if (await orchestrator.runtime.describe(run)).status == "paused":
            put(f"paused; nothing is lost. Continue with the same command, or with: asterism resume {run}")
            return PAUSED
    return taken.result()


async def _pause_at_ctrl_c(
    pressed: asyncio.Queue[None], taken: asyncio.Task[int | None], orchestrator: Orchestrator, user: str, paused: list[str]
) -> None:
    await pressed.get()
    put("pausing: the running handler finishes first; press Ctrl-C again to stop now")
    if conversation := await orchestrator.current(user):
        runtime = orchestrator.runtime
        await runtime.post(conversation.run_id, Pause(reason="Ctrl-C"), actor=user, key=runtime.clock.new_id())
        paused.append(conversation.run_id)
    await pressed.get()
    taken.cancel()


async def _next_message(orchestrator: Orchestrator, runtime: Runtime, user: str) -> str | None:
    """Return the next message, the answer to an open question if there is one; None at the end of the input."""
    conversation = await orchestrator.current(user)
    return await typed_answer(await conversation.asked(runtime) if conversation else None)


@contextlib.asynccontextmanager
async def _open(database: Path | None, fleet: Path | None, choice: ModelChoice | None) -> AsyncIterator[tuple[App, ModelServices]]:
    async with (
        open_model_services(choice) as services,
        open_all(database, fleet=fleet, planner=services.planner, extractor=services.extractor) as runtime,
    ):
        yield runtime, services


async def _handle(orchestrator: Orchestrator, runtime: Runtime, user: str, line: str) -> int | None:
    """Handle a line, and print the answer; return the exit code of a conversation that has answered."""
    if not line.startswith("/"):
        return _print_result(await orchestrator.handle(line, user=user))
    conversation = await orchestrator.current(user)
    command = line.strip()[1:]
    if command not in ("pause", "resume", "cancel", "fields", "history"):
        put(HELP)
    elif conversation is None:
        put("(no conversation is open)")
    elif command == "fields":
        fields = (await conversation.result(runtime)).fields
        put("\n".join(f"{name}: {plain(value_words(value), MAX_SHOWN)}" for name, value in fields.items()) or "(none yet)")
    elif command == "history":
        for said in await conversation.history(runtime):
            put(f"{plain(said.by)}: {plain(said.text, MAX_SHOWN)}")
    else:
        return _print_result(await getattr(conversation, command)())
    return None


def _print_result(result: AgentResult) -> int | None:
    """Print a result; return the exit code of its status, or None if no agent has answered."""
    put(plain(result.raw_message, MAX_SHOWN))
    if not result.run_id:
        return None
    put(f"  [{result.status}]")
    return _CODES.get(result.status, WAITING)


def run_flow(
    source: Annotated[str, Parameter(name="AGENT", help="The agent: file.py:Name; or a file, module or entry point with one agent.")],
    /,
    *,
    field: Annotated[Sequence[str], Parameter(name="--field", help="NAME=VALUE; may be repeated.", negative=())] = (),
    text: Annotated[str, Parameter(help="First message to the agent.")] = "",
    fleet: Fleet = None,
    model: FlowModel = None,
    backup_model: BackupModel = None,
    record: Record = None,
    database: Database = None,
    json: Json = False,
) -> int:
    """Run a flow agent with given fields. At a terminal it asks for missing ones, and for approvals; else its question stays open."""
    agent = agent_of(source, Path.cwd())
    opened = _open(database, fleet, model_choice(model, backup_model, record))
    return asyncio.run(_run(agent, _values(agent, field), text, opened, as_json=json))


def _values(agent: type[StandardAgent], given: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in given:
        name, sign, value = item.partition("=")
        if not sign or name not in agent.input_fields():
            raise InvalidInput(
                f"--field {item}: {agent.__name__} has {', '.join(f'{known}=…' for known in agent.input_fields()) or 'no fields'}"
            )
        if agent.input_fields()[name].secret:
            raise InvalidInput(
                f"--field {name}: this field is a secret, and others can read a command line; leave it out to be asked at the terminal"
            )
        if name in values:
            raise InvalidInput(f"--field {name} was given twice")
        values[name] = value
    return values


async def _run(agent: type[StandardAgent], values: dict[str, Any], text: str, opened: Opened, *, as_json: bool) -> int:
    async with opened as (runtime, _):
        await check_on_fleet(agent, runtime.fleet, runtime.here, runtime.devices)
        conversation = Conversation(agent, runtime=runtime, user=actor())
        if as_json:
            result = await conversation.say(text, values)
            put(json_text.dumps(msgspec.to_builtins(result), ensure_ascii=False))
        else:
            put(f"run {await conversation.begin(runtime, text, values)}")
            if can_ask():
                history, driven = await drive_shown(runtime, conversation.run_id)
                if driven is None or driven.status == "paused":
                    await print_end(runtime.store, history, driven)
                    return INTERRUPTED
                result = await conversation.result(runtime)
            else:
                result = await conversation.settle()
            _print_result(result)
            for asked in await runtime.store.inquiries(root=result.run_id):
                put(f"  {answer_line(asked, result.run_id)}")
    return _CODES.get(result.status, WAITING)
