"""Commands that need no run: plan, fleet check, diagram."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from asterism.app.bootstrap import open_devices, open_planner, read_fleet
from asterism.app.settings import model_choice
from asterism.cli.exit_codes import FINISHED, UNUSABLE
from asterism.cli.options import BackupModel, FleetFile, Mermaid, Model, WhatToRun
from asterism.cli.output import complain, console, put, put_line
from asterism.cli.plan_values import Values, with_values
from asterism.cli.run_access import connected
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.machine.task_lifecycle import TASK_LIFECYCLE
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.python.early_check import check_before_opening, needed_devices
from asterism.constellation.python.goal import Goal, check_fleet_given, fleet_for, goal_of, rehearse
from asterism.constellation.python.plans import plan_of, plan_text
from asterism.constellation.python.resumption import check_constellation, first_event_of
from asterism.constellation.view.graph import mermaid_flowchart
from asterism.constellation.view.task_lines import plan_lines
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.plans import check_on_fleet
from asterism.conversation.python.registry import agent_class
from asterism.devices.attempts.secrets import missing_secrets, secret
from asterism.devices.fleet.fleet_file import read_channels
from asterism.devices.kinds.here import here_of
from asterism.devices.kinds.plan_functions import rebase_plan
from asterism.engine.kernel.diagram import mermaid as mermaid_diagram
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.profile import AgentProfile, Fleet
from asterism.engine.runtime.lookup import find_run
from asterism.errors import InvalidInput
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.service.notifications.sending import check_channel
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import count, plain

_MACHINES: Mapping[str, Machine[Any]] = {
    "constellation-agent": CONSTELLATION_AGENT,
    "orchestration-loop": ORCHESTRATION_LOOP,
    "flow-agent": FLOW_AGENT,
    "task": TASK_LIFECYCLE,
}


def plan(
    what: WhatToRun,
    /,
    *,
    fleet: FleetFile = None,
    model: Model = None,
    backup_model: BackupModel = None,
    mermaid: Mermaid = False,
    values: Values = (),
    json: Annotated[bool, Parameter(name="--json", negative=(), help="Print a plan file for `asterism run`.")] = False,
) -> int:
    """Show the plan for a request, a file or a constellation without running it. The plan is checked as for a run."""
    if mermaid and json:
        raise InvalidInput("--mermaid and --json exclude each other; choose one")
    goal, choice = with_values(goal_of(what), values), model_choice(model, backup_model)
    check_fleet_given(goal, fleet, "plan", what)
    check_before_opening(goal, fleet)
    document, constellation, reasons = asyncio.run(_planned(goal, fleet, choice))
    if json:
        put(plan_text(document).rstrip())
    elif mermaid:
        put(mermaid_flowchart(constellation).rstrip())
    else:
        out = console()
        for line in plan_lines(constellation):
            put_line(out, line)
    for reason in reasons:
        complain(reason)
    return UNUSABLE if reasons else FINISHED


async def _planned(goal: Goal, fleet_file: Path | None, choice: ModelChoice | None) -> tuple[PlanDocument, TaskConstellation, list[str]]:
    """Return a plan, its constellation, and the reasons why secrets of it cannot be used here."""
    needed = needed_devices(goal.plan, fleet_file)
    async with open_planner(None if goal.plan else choice) as planner, open_devices(fleet_file, needed=needed) as (fleet, devices):
        document, constellation = await rehearse(goal, await fleet_for(goal, fleet, here_of(devices)), planner, devices)
    return document, constellation, missing_secrets(document, devices)


def check_fleet(file: Annotated[Path, Parameter(name="FILE", help="The fleet file.")], /) -> int:
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
    skills = sum(len(profile.skills) for profile in fleet.values())
    out.print(f"{count(len(fleet), 'device')}, {count(skills, 'skill')}: {plain(file)} is valid")
    return FINISHED


async def _checked_fleet(file: Path) -> Fleet:
    """Return the profiles of a fleet file. Raises InvalidInput, also for a plan of a flow agent that cannot run on it."""
    fleet = await read_fleet(file, every=True)
    for profile in fleet.values():
        if profile.child is not None and profile.child.machine == FLOW_AGENT.name:
            await check_on_fleet(agent_class(profile.child.definition["agent"]), fleet, None)
    return fleet


def diagram(
    machine: Annotated[
        Literal["constellation-agent", "orchestration-loop", "flow-agent", "task"],
        Parameter(name="MACHINE", help="State machine to print."),
    ],
    /,
) -> int:
    """Print a state machine as a Mermaid diagram."""
    put(mermaid_diagram(_MACHINES[machine]).rstrip())
    return FINISHED


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
    return lines


async def plan_of_run(named: str, database: Path | None) -> str:
    """Return the plan of a run, as the text of a plan file in the current folder.

    Raises:
        InvalidInput: the run is not a constellation's, or has no plan yet.
    """
    async with connected(database) as client:
        row = await find_run(client.store, named)
        check_constellation(row)
        memory, first = (await client.load(row.run_id)).memory, await first_event_of(client, row)
    params = first.plan.params if isinstance(first, ConstellationSubmitted) and first.plan else {}
    plan, here = plan_of(memory.constellation, row.title, params), Path.cwd()
    return plan_text(rebase_plan(plan, Path(memory.working_directory or here), here)).rstrip()
