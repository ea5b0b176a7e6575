"""The command line. Each command is a function in one of these modules, which is imported when the command is called.

- ``run_commands``: run, follow, resume, pause, unpause, lift, cancel, retry.
- ``plan_commands``: plan, diagram, schema. ``completion_command``: completion.
- ``fleet_commands``: fleet show, fleet check, fleet add.
- ``show_commands``: runs, show, log, why. ``logs_command``: logs. ``files_command``: files.
- ``inquiry_commands``: inbox, answer. ``edit_command``: mcp edit.
- ``serve_command``: serve. ``status_command``: status. ``loop_command``: loop run. ``chat_command``: chat. ``flow_commands``: flow run.
- ``schedule_commands``: schedule. ``event_commands``: event send, event list.
- ``journal_commands``: fork, export, import, prune, backup.
- ``token_commands``: token create, token list, token revoke.

Shared by the commands: ``options`` declares parameters, ``plan_values`` reads those of a plan,
``run_access`` opens the database and reads a run, ``foreground`` drives a run and handles signals, ``served_runs``
follows one that a server drives, ``reporters`` show its progress, ``questions`` asks a person at the terminal,
and reads yes and no, ``file_previews`` shows the files of a question, ``keyboard`` reads input,
``chat`` reads messages and prints the answers of agents of this computer (``local_chat``) or of a
server (``chat_command``), ``time_zone`` is that of the machine, ``output`` prints lines of
``asterism.views.text``, ``server_variable`` refuses commands that know no servers, and ``exit_codes`` names the exit codes.

Exit codes: 0 finished, 1 failed or refused, 2 unusable input (nothing was written), 3 waiting for a
person, 130 cancelled or interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter

from asterism.cli.exit_codes import FAILED, INTERRUPTED, UNUSABLE
from asterism.errors import DISTRIBUTION, AsterismError, InvalidInput, MissingExtra, RunNewer, RunNotFound, StoreUnavailable, did_you_mean

_UNUSABLE = (InvalidInput, MissingExtra, RunNewer, RunNotFound, StoreUnavailable)


def _version() -> str:
    import importlib.metadata  # noqa: PLC0415 - only --version needs it

    return importlib.metadata.version(DISTRIBUTION)


def _shown_default(default: object) -> str | None:
    """Return a default for the help: nothing for a flag, an empty value or none."""
    return f"{default:g}" if isinstance(default, float) else str(default) if default else None


app = App(
    name="asterism",
    help="Run durable plans, loops and conversations.",
    version=_version,
    group_commands=Group("Help", sort_key=9),
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
    default_parameter=Parameter(show_default=_shown_default),
)
_WORK, _LOOK, _STEER, _JOURNALS, _SERVE = (
    Group(name, sort_key=place) for place, name in enumerate(("Run", "Inspect", "Control and answer", "Journals", "Serve"))
)
_commands = Group("Commands")  # of the apps below; the first app's own are in the groups above
_fleet = App(name="fleet", help="Show, check and add the devices of a fleet.", group=_LOOK, group_commands=_commands)
_fleet.command("asterism.cli.fleet_commands:show", name="show", help="Show the devices of a fleet; the default.")
_fleet.command("asterism.cli.fleet_commands:check", name="check", help="Check a fleet file and list its devices and skills.")
_add = App(name="add", help="Add a device to a fleet file, after asking it what it can do.", group_commands=_commands)
_add.command("asterism.cli.fleet_commands:mcp", name="mcp", help="Add an MCP server: -- COMMAND ARGUMENT…, or --url URL.")
_add.command("asterism.cli.fleet_commands:a2a", name="a2a", help="Add an A2A agent.")
_add.command("asterism.cli.fleet_commands:ssh", name="ssh", help="Add a host that SSH reaches.")
_add.command("asterism.cli.fleet_commands:device", name="device", help="Add a device of any kind, with the keys of its table.")
_fleet.command(_add)
_mcp = App(name="mcp", help="Let MCP clients edit runs and plans.", group=_WORK, group_commands=_commands)
_mcp.command("asterism.cli.edit_command:edit", name="edit", help="Serve an unfinished run, or a plan file, to MCP clients for editing.")
_flow = App(name="flow", help="Run a flow agent.", group=_WORK, group_commands=_commands)
_flow.command(
    "asterism.cli.flow_commands:run_flow", name="run", help="Run a flow agent with given fields; missing ones become open questions."
)
_schedule = App(name="schedule", help="Start runs at times of a cron expression.", group=_WORK, group_commands=_commands)
_event = App(name="event", help="Send events to runs that wait for them.", group=_STEER, group_commands=_commands)
_event.command("asterism.cli.event_commands:send", name="send", help="Send an event.")
_event.command("asterism.cli.event_commands:list_events", name="list", help="List the events, newest first.")
_loop = App(name="loop", help="Run a loop that is defined in Python or TOML.", group=_WORK, group_commands=_commands)
_loop.command("asterism.cli.loop_command:run", name="run", help="Run a request through a loop.")

_token = App(name="token", help="Manage the tokens of a server.", group=_SERVE, group_commands=_commands)
_token.command("asterism.cli.token_commands:create", name="create", help="Create a token and print it.")
_token.command("asterism.cli.token_commands:list_tokens", name="list", help="List the tokens, without their secrets.")
_token.command("asterism.cli.token_commands:revoke", name="revoke", help="Revoke a token.")

app.command("asterism.cli.run_commands:run", name="run", help="Run a request or a plan file.", group=_WORK)
app.command("asterism.cli.serve_command:serve", name="serve", help="Drive all runs of a database until it is stopped.", group=_WORK)
app.command("asterism.cli.plan_commands:plan", name="plan", help="Show the plan for a request or a file without running it.", group=_LOOK)
app.command("asterism.cli.show_commands:runs", name="runs", help="List the runs, newest first.", group=_LOOK)
app.command("asterism.cli.status_command:status", name="status", help="Show the servers of a database and their work.", group=_LOOK)
app.command("asterism.cli.show_commands:show", name="show", help="Show a run: its plan, states, tasks and metrics.", group=_LOOK)
app.command("asterism.cli.show_commands:why", name="why", help="Explain why a task exists and what happened to it.", group=_LOOK)
app.command("asterism.cli.show_commands:log", name="log", help="Print the journal of a run in words.", group=_LOOK)
app.command("asterism.cli.logs_command:logs", name="logs", help="Print what the tasks of a run have printed.", group=_LOOK)
app.command("asterism.cli.files_command:files", name="files", help="List the files of a run, or save them.", group=_LOOK)
app.command(
    "asterism.cli.run_commands:resume",
    name="resume",
    usage="Usage: asterism resume [OPTIONS] [RUN]",
    help="Resume a run that was paused or interrupted.",
    group=_STEER,
)
app.command("asterism.cli.run_commands:retry", name="retry", help="Run the failed tasks of a run again.", group=_STEER)
app.command("asterism.cli.run_commands:follow", name="follow", help="Run the next round of a session after a run has ended.", group=_WORK)
app.command(
    "asterism.cli.run_commands:pause",
    name="pause",
    help="Pause a run: running tasks continue to their end, no new ones start.",
    group=_STEER,
)
app.command(
    "asterism.cli.run_commands:unpause",
    name="unpause",
    help="Unpause a run that a process still drives; else the same as resume.",
    group=_STEER,
)
app.command("asterism.cli.run_commands:lift", name="lift", help="Lift a guard that the plan of a run has set.", group=_STEER)
app.command(
    "asterism.cli.run_commands:cancel", name="cancel", help="Cancel a run: running tasks are killed, no new ones start.", group=_STEER
)
app.command("asterism.cli.inquiry_commands:inbox", name="inbox", help="List the open questions to people.", group=_STEER)
app.command("asterism.cli.inquiry_commands:answer", name="answer", help="Answer a question and resume its run.", group=_STEER)
app.command(
    "asterism.cli.journal_commands:fork", name="fork", help="Start a new run as a copy of another, up to an entry.", group=_JOURNALS
)
app.command(
    "asterism.cli.journal_commands:export",
    name="export",
    help="Export a run and its child runs: journals, or a page for a browser.",
    group=_JOURNALS,
)
app.command(
    "asterism.cli.journal_commands:import_journal", name="import", help="Import a run from a file that export wrote.", group=_JOURNALS
)
app.command("asterism.cli.journal_commands:backup", name="backup", help="Copy the database while processes use it.", group=_JOURNALS)
app.command(
    "asterism.cli.journal_commands:prune",
    name="prune",
    help="Delete ended runs that the options choose, and reclaim space.",
    group=_JOURNALS,
)
for _name, _function, _help in (
    ("add", "add", "Add a schedule."),
    ("list", "show", "List the schedules."),
    ("next", "upcoming", "Print the next due times of a schedule."),
    ("history", "history", "List the past due times of a schedule, with their runs."),
    ("run", "run", "Start a run of a schedule now."),
    ("pause", "pause", "Pause a schedule."),
    ("resume", "resume", "Resume a schedule."),
    ("remove", "remove", "Remove a schedule; its runs stay."),
):
    _schedule.command(f"asterism.cli.schedule_commands:{_function}", name=_name, help=_help)
app.command(_schedule)
app.command(_event)


@_fleet.default
def _show_fleet(*given: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]) -> int:
    """Show the devices of a fleet; cyclopts imports only named commands when they are called."""
    done = app(["fleet", "show", *given])
    return done if isinstance(done, int) else 0


app.command(_fleet)
app.command(_mcp)
app.command(_loop)
app.command(_flow)
app.command(_token)
app.command("asterism.cli.chat_command:chat", name="chat", help="Chat with flow agents.", group=_WORK)
app.command("asterism.cli.plan_commands:schema", name="schema", help="Print the JSON Schema of a kind of file, for editors.", group=_LOOK)
app.command("asterism.cli.completion_command:completion", name="completion", help="Print the completion script of a shell.", group=_LOOK)
app.command("asterism.cli.plan_commands:diagram", name="diagram", help="Print a state machine as a Mermaid diagram.", group=_LOOK)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; an expected error is printed without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character
    try:
        _start_logs()
        _check_folder()
        done = app(_allowed(sys.argv[1:] if arguments is None else arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        command = " ".join(["asterism", *(error.command_chain or ())])
        return _fail(f"{_one_line(error)} See `{command} --help`.", UNUSABLE)
    except AsterismError as error:
        return _fail(str(error), UNUSABLE if isinstance(error, _UNUSABLE) else FAILED)
    except BrokenPipeError:
        # The reader closed the pipe. Nothing may be left to flush when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(_words_of(error), FAILED)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    return done if isinstance(done, int) else 0


def _words_of(error: OSError) -> str:
    """Return the words of an error of the system: only what cannot be flushed now is one of the output."""
    why = error.strerror or str(error) or type(error).__name__
    try:
        sys.stdout.flush()
    except OSError:
        return f"cannot write the output: {why}"
    return f"cannot use {error.filename}: {why}" if error.filename else why


def _check_folder() -> None:
    """Check that the current folder exists: relative paths start there.

    Raises:
        InvalidInput: the folder was removed.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        raise InvalidInput("the current folder was removed; change to another one") from None


def _allowed(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments to carry out. Raises InvalidInput for a command that knows no servers, if the environment names one."""
    if not os.environ.get("ASTERISM_SERVER"):
        return arguments
    from asterism.cli.server_variable import without_server  # noqa: PLC0415 - loaded only where a server is named

    return without_server(arguments)


def _start_logs() -> None:
    if level := os.environ.get("ASTERISM_LOG"):
        from asterism.service.telemetry.logs import configure_logs  # noqa: PLC0415 - loaded only where logs are wanted

        configure_logs(level, sys.stderr)


def _one_line(error: CycloptsError) -> str:
    if isinstance(error, MissingArgumentError) and error.argument is not None and error.keyword is None:
        needs = f'Command "{" ".join(error.command_chain or ())}" needs {error.argument.name}'
        unknown = next((token.partition("=")[0] for token in error.unused_tokens or () if token.startswith("-")), "")
        return f"{needs}, and {unknown} is unknown{did_you_mean(unknown, error.argument.names) or '.'}" if unknown else f"{needs}."
    return " ".join(str(error).split())


def _fail(text: str, code: int) -> int:
    from asterism.cli.output import complain  # noqa: PLC0415 - only a failed command loads it

    complain(text)
    return code
