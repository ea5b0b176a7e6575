"""The command flow run."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import ModelServices
from asterism.app.settings import model_choice
from asterism.cli.chat import CODES, print_result
from asterism.cli.chat_command import MODELS, AgentFleet
from asterism.cli.exit_codes import INTERRUPTED, WAITING
from asterism.cli.foreground import drive_shown, print_end
from asterism.cli.local_chat import open_with_models
from asterism.cli.options import BackupModel, Database, Json, Record
from asterism.cli.output import put
from asterism.cli.questions import can_ask
from asterism.cli.run_access import actor
from asterism.constellation.python.app import App
from asterism.conversation.python.agent import StandardAgent
from asterism.conversation.python.conversation import Conversation
from asterism.conversation.python.plans import check_on_fleet
from asterism.conversation.python.source import agent_of
from asterism.errors import InvalidInput
from asterism.views.text.questions import answer_line


def run_flow(
    source: Annotated[str, Parameter(name="AGENT", help="The agent: file.py:Name; or a file, module or entry point with one agent.")],
    /,
    *,
    field: Annotated[Sequence[str], Parameter(name="--field", help="NAME=VALUE; may be repeated.", negative=())] = (),
    text: Annotated[str, Parameter(help="First message to the agent.")] = "",
    fleet: AgentFleet = None,
    model: Annotated[str | None, Parameter(name="--model", help=f"Extract fields and plan with this model: {MODELS}")] = None,
    backup_model: BackupModel = None,
    record: Record = None,
    database: Database = None,
    json: Json = False,
) -> int:
    """Run a flow agent with given fields. At a terminal it asks for missing ones, and for approvals; else its question stays open."""
    agent = agent_of(source, Path.cwd())
    opened = open_with_models(database, fleet, model_choice(model, backup_model, record))
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


async def _run(
    agent: type[StandardAgent],
    values: dict[str, Any],
    text: str,
    opened: AbstractAsyncContextManager[tuple[App, ModelServices]],
    *,
    as_json: bool,
) -> int:
    async with opened as (runtime, _):
        await check_on_fleet(agent, runtime.fleet, runtime.here, runtime.devices)
        conversation = Conversation(agent, runtime=runtime, user=actor())
        if as_json:
            result = await conversation.say(text, values)
            put(json_text.dumps(msgspec.to_builtins(result), ensure_ascii=False))
        else:
            put(f"run {await conversation.begin(runtime, text, values)}")
            if can_ask():
                history, driven = await drive_shown(runtime, conversation.run_id, driver=runtime)
                if driven is None or driven.status == "paused":
                    await print_end(runtime.store, history, driven)
                    return INTERRUPTED
                result = await conversation.result()
            else:
                result = await conversation.settle()
            print_result(result)
            for asked in await runtime.store.inquiries(root=result.run_id):
                put(f"  {answer_line(asked, result.run_id)}")
    return CODES.get(result.status, WAITING)
