"""Parameters that several commands share, and the options of a new run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.cli.completion_command import run_ids
from asterism.constellation.machine.events import Hold, RaiseLimits, Replan, RunOptions
from asterism.errors import InvalidInput

Database = Annotated[
    Path | None,
    Parameter(
        name=["--database", "-d"], help="Database file with the journals [default: $ASTERISM_DATABASE, else in the user's state folder]."
    ),
]
ServerUrl = Annotated[
    str | None,
    Parameter(
        name="--server",
        help="URL of a server whose runs are meant, instead of those of a database; its token is $ASTERISM_TOKEN, "
        "or the one that a server of the database on this computer has written [default: $ASTERISM_SERVER].",
    ),
]
WhatToRun = Annotated[
    str,
    Parameter(
        name="REQUEST_OR_PLAN",
        help="A request in words, a plan file (.json, .yaml, .yml), or a constellation in Python "
        "(file.py:name, file.py if it has only one, or package.module:name).",
    ),
]
FleetFile = Annotated[
    Path | None, Parameter(name=["--fleet", "-f"], help="Fleet file (TOML) with the devices; a plan of Python functions needs none.")
]
OtherFleet = Annotated[Path | None, Parameter(name=["--fleet", "-f"], help="Fleet file [default: the one the run was started with].")]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON.")]
JsonEvents = Annotated[bool, Parameter(name="--json", negative=(), help="Print each event as a line of JSON, and the result last.")]
EveryItem = Annotated[
    bool, Parameter(name="--every-item", negative=(), help="In a pipe, print each event of a fan-out's items; else a summary.")
]
Mermaid = Annotated[bool, Parameter(name="--mermaid", negative=(), help="Print a Mermaid flowchart.")]
RunId = Annotated[
    str,
    Parameter(name="RUN", help="Id of a run, or the first characters of the id or of its part after the hyphen.", completer=run_ids),
]
Here = Annotated[bool, Parameter(name="--here", negative=(), help="Drive the run in this command, also if a server could.")]
ResultFile = Annotated[Path | None, Parameter(name="--result-file", help="Also write the result to this file, as one JSON object.")]
Model = Annotated[
    str | None,
    Parameter(
        name="--model",
        help="Plan with this model: openai:…, anthropic:…, google:… or ollama:…, or replay:FILE to replay a recording "
        "[default: $ASTERISM_MODEL, else no model].",
    ),
]
BackupModel = Annotated[
    str | None,
    Parameter(name="--backup-model", help="Model to ask when the first one gives no usable answer [default: $ASTERISM_BACKUP_MODEL]."),
]
OtherModel = Annotated[str | None, Parameter(name="--model", help="Plan with this model [default: the one the run was started with].")]
Record = Annotated[Path | None, Parameter(name="--record", help="Record the requests to the model and its replies in this file.")]
MaxTokens = Annotated[
    int | None, Parameter(name="--max-tokens", help="Tokens that planning may use; then the run pauses [default: no limit].")
]
MaxCost = Annotated[
    float | None, Parameter(name="--max-cost", help="US dollars that planning may cost; then the run pauses [default: no limit].")
]
NewMaxTokens = Annotated[
    int | None, Parameter(name="--max-tokens", help="New limit of the tokens for planning [default: that of the run].")
]
NewMaxCost = Annotated[
    float | None, Parameter(name="--max-cost", help="New limit of the cost of planning in US dollars [default: that of the run].")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """The options of a new run."""

    replan: Annotated[
        Replan | None,
        Parameter(help="When to ask the planner again during the run [default: when_needed with a model, else never]."),
    ] = None
    hold: Annotated[
        Hold,
        Parameter(
            help="Which tasks wait while the planner decides: successors (all downstream of the tasks that have just ended), none or all."
        ),
    ] = RunOptions().hold
    approve_plan: Annotated[bool, Parameter(negative=(), help="Require approval of the plan before any task starts.")] = False
    approve_edits: Annotated[bool, Parameter(negative=(), help="Require approval of each change of the plan.")] = False
    accept_failed: Annotated[bool, Parameter(negative=(), help="Let the planner finish the run over failed tasks.")] = False
    max_tokens: MaxTokens = None
    max_cost: MaxCost = None
    wall_limit_s: Annotated[float, Parameter(help="Fail the run after this many seconds.")] = RunOptions().wall_limit_s
    inquiry_timeout_s: Annotated[float | None, Parameter(help="Seconds that a question to a person stays open [default: no limit].")] = None
    notify: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="Channel of the fleet file for the messages of a server about the run; may be repeated [default: all channels].",
        ),
    ] = ()

    def options(self, replan: Replan = "never") -> RunOptions:
        """Return the options of the run.

        Args:
            replan: used where ``--replan`` was not given.

        Raises:
            InvalidInput: a number is out of range.
        """
        for name, seconds in (("--wall-limit-s", self.wall_limit_s), ("--inquiry-timeout-s", self.inquiry_timeout_s)):
            if seconds is not None and not 0 < seconds < float("inf"):
                raise InvalidInput(f"{name} must be a number of seconds above 0, not {seconds:g}")
        limits = raised_limits(self.max_tokens, self.max_cost)
        return RunOptions(
            replan=self.replan or replan,
            hold=self.hold,
            approve_plan=self.approve_plan,
            approve_edits=self.approve_edits,
            accept_failed=self.accept_failed,
            max_tokens=limits.max_tokens,
            max_cost_usd=limits.max_cost_usd,
            wall_limit_s=self.wall_limit_s,
            inquiry_timeout_s=self.inquiry_timeout_s,
            notify=self.notify,
        )


def raised_limits(max_tokens: int | None, max_cost: float | None) -> RaiseLimits:
    """Return the event that raises the limits.

    Raises:
        InvalidInput: a limit is out of range.
    """
    if max_tokens is not None and max_tokens < 1:
        raise InvalidInput(f"--max-tokens must be above 0, not {max_tokens}")
    if max_cost is not None and not 0 < max_cost < float("inf"):
        raise InvalidInput(f"--max-cost must be an amount of dollars above 0, not {max_cost:g}")
    return RaiseLimits(max_tokens=max_tokens, max_cost_usd=max_cost)
