"""Commands that need no run: plan, diagram, schema."""

from __future__ import annotations

import asyncio
import json as json_text
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from asterism.app.bootstrap import FORMS, open_devices, open_planner
from asterism.app.schemas import FileKind, schema_of
from asterism.app.settings import model_choice
from asterism.cli.exit_codes import FINISHED, UNUSABLE
from asterism.cli.options import BackupModel, FleetFile, Mermaid, Model, WhatToRun
from asterism.cli.output import complain, console, put, put_line
from asterism.cli.plan_values import Values, with_values
from asterism.cli.run_access import connected
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.task_lifecycle import TASK_LIFECYCLE
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.planner.plan_file import plan_of, plan_text
from asterism.constellation.python.early_check import check_before_opening, needed_devices
from asterism.constellation.python.goal import Goal, check_fleet_given, fleet_for, goal_of, rehearse
from asterism.constellation.python.resumption import check_constellation
from asterism.constellation.requirements import missing_secrets, rebase_plan
from asterism.constellation.view.graph import mermaid_flowchart
from asterism.constellation.view.task_lines import plan_lines
from asterism.devices.kinds.here import here_of
from asterism.engine.kernel.machine import mermaid as mermaid_diagram
from asterism.engine.runtime.lookup import find_run
from asterism.errors import InvalidInput

_MACHINES = {**{name.replace(" ", "-"): form.machine for name, form in FORMS.items()}, "task": TASK_LIFECYCLE}


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


def schema(
    kind: Annotated[FileKind, Parameter(name="KIND", help="Kind of file.")],
    /,
    *,
    device_kinds: Annotated[
        tuple[str, ...],
        Parameter(name="--device-kind", negative=(), help="Kind of device of an installed package, whose keys a fleet's schema has, too."),
    ] = (),
) -> int:
    """Print the JSON Schema of a kind of file, for editors.

    Store it beside the file and name it in the first line. YAML: `# yaml-language-server: $schema=plan.schema.json`.
    TOML: `#:schema ./fleet.schema.json`. JSON: `"$schema": "plan.schema.json"`.
    """
    put(json_text.dumps(schema_of(kind, device_kinds), indent=2, ensure_ascii=False))
    return FINISHED


async def plan_of_run(named: str, database: Path | None) -> str:
    """Return the plan of a run, as the text of a plan file in the current folder.

    Raises:
        InvalidInput: the run is not a constellation's, or has no plan yet.
    """
    async with connected(database) as client:
        row = await find_run(client.store, named)
        check_constellation(row)
        memory, first = (await client.load(row.run_id)).memory, await client.first_event(row)
    params = first.plan.params if isinstance(first, ConstellationSubmitted) and first.plan else {}
    plan, here = plan_of(memory.constellation, row.title, params), Path.cwd()
    return plan_text(rebase_plan(plan, Path(memory.working_directory or here), here)).rstrip()
