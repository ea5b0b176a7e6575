"""The command line. Each command is a function of one of these modules, imported when it is asked for and not before.

    ``running``    run, resume, cancel, pause, unpause: what drives a run, or tells its driver something
    ``following``  follow: the next round of a session
    ``planning``   plan, fleet check, diagram: what can be said without a run
    ``showing``    runs, show, log: what journals say
    ``reasons``    why: how one task came about
    ``people``     inbox, answer
    ``editing``    mcp edit: a run or a plan file, for MCP clients
    ``looping``    loop run
    ``flowing``    chat, flow run
    ``journals``   fork, export, import, prune: whole journals

What they share: ``options`` and ``behaviour`` parameters · ``finding`` the database, and the story of a run ·
``driving`` a run in the foreground, ``reporting`` while it goes on, ``keyboard`` what is typed · ``stories`` what
journals say, ``words`` foreign text made harmless · ``output`` and ``codes`` how a command ends.

Exit codes: 0 finished, 1 failed or refused, 2 unusable input (nothing was written), 3 waiting for a person, 130 cancelled or interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Group, MissingArgumentError

from asterism.cli.codes import FAILED, INTERRUPTED, UNUSABLE
from asterism.errors import AsterismError, InvalidInput, MissingExtra, RunNewer, RunNotFound, StoreUnavailable

_UNUSABLE = (InvalidInput, MissingExtra, RunNewer, RunNotFound, StoreUnavailable)


def _version() -> str:
    import importlib.metadata  # noqa: PLC0415 - asked for by --version alone

    return importlib.metadata.version("asterism")


app = App(
    name="asterism",
    help="Run plans, loops and conversations over devices and people, so that nothing is lost.",
    version=_version,
    group_commands=Group("Commands", sort_key=9),
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
_WORK, _LOOK, _STEER, _JOURNALS = (
    Group(name, sort_key=place) for place, name in enumerate(("Run", "Look", "People, pauses and crashes", "Journals"))
)
_fleet = App(name="fleet", help="Check a fleet file.", group=_LOOK)
_fleet.command(
    "asterism.cli.planning:check_fleet", name="check", help="List the devices of a fleet file and their skills, or say what is wrong."
)
_mcp = App(name="mcp", help="Let MCP clients edit runs and plans.", group=_WORK)
_mcp.command("asterism.cli.editing:edit", name="edit", help="Let an MCP client watch and edit a run that is under way, or a plan file.")
_flow = App(name="flow", help="Run a flow agent with what is known.", group=_WORK)
_flow.command(
    "asterism.cli.flowing:run_flow", name="run", help="Run a flow agent with the fields that are given; what is missing is asked for."
)

_loop = App(name="loop", help="Run a loop that is defined in Python or TOML.", group=_WORK)
_loop.command("asterism.cli.looping:run", name="run", help="Take a request through a loop.")

app.command("asterism.cli.running:run", name="run", help="Run a request in words, or a plan file.", group=_WORK)
app.command("asterism.cli.planning:plan", name="plan", help="Show the plan of a request or a file, and run nothing.", group=_LOOK)
app.command("asterism.cli.showing:runs", name="runs", help="List the runs, newest first.", group=_LOOK)
app.command("asterism.cli.showing:show", name="show", help="Show one run: its plan, its states, who did what and why.", group=_LOOK)
app.command("asterism.cli.reasons:why", name="why", help="Say in words how a task came about, and what became of it.", group=_LOOK)
app.command("asterism.cli.showing:log", name="log", help="Print the journal of a run in words.", group=_LOOK)
app.command("asterism.cli.running:resume", name="resume", help="Go on with a run that was paused, or whose process ended.", group=_STEER)
app.command("asterism.cli.following:follow", name="follow", help="Run a request as the next round of an ended run's session.", group=_WORK)
app.command("asterism.cli.running:pause", name="pause", help="Let a run start nothing new.", group=_STEER)
app.command("asterism.cli.running:unpause", name="unpause", help="Let a paused run start things again.", group=_STEER)
app.command("asterism.cli.running:cancel", name="cancel", help="Stop a run for good.", group=_STEER)
app.command("asterism.cli.people:inbox", name="inbox", help="List the open questions to people.", group=_STEER)
app.command("asterism.cli.people:answer", name="answer", help="Answer a question, and go on with its run.", group=_STEER)
app.command("asterism.cli.journals:fork", name="fork", help="Begin a new run as a copy of another one, up to an entry.", group=_JOURNALS)
app.command("asterism.cli.journals:export", name="export", help="Write the journal of a run as one file.", group=_JOURNALS)
app.command("asterism.cli.journals:import_journal", name="import", help="Take in an exported run.", group=_JOURNALS)
app.command("asterism.cli.journals:prune", name="prune", help="Forget ended runs, and give their space back.", group=_JOURNALS)
app.command(_fleet)
app.command(_mcp)
app.command(_loop)
app.command(_flow)
app.command("asterism.cli.flowing:chat", name="chat", help="Talk to flow agents.", group=_WORK)
app.command("asterism.cli.planning:diagram", name="diagram", help="Print a state machine as a Mermaid diagram.", group=_LOOK)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line; returns the exit code, and prints an error on purpose as one line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character is no reason to stop
    try:
        _start_logs()
        _check_folder()
        done = app(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        command = " ".join(["asterism", *(error.command_chain or ())])
        return _fail(f"{_one_line(error)} See `{command} --help`.", UNUSABLE)
    except AsterismError as error:
        return _fail(str(error), UNUSABLE if isinstance(error, _UNUSABLE) else FAILED)
    except BrokenPipeError:
        # Whoever read the help has seen enough. Nothing may be left to flush when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"the output cannot be written: {error.strerror}", FAILED)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    return done if isinstance(done, int) else 0


def _check_folder() -> None:
    """See that relative names, and what is run here, have a folder to start from.

    Raises:
        InvalidInput: it was removed.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        raise InvalidInput("the folder that you are in was removed; go to another one") from None


def _start_logs() -> None:
    if level := os.environ.get("ASTERISM_LOG"):
        from asterism.telemetry.logs import configure_logs  # noqa: PLC0415 - who does not want it does not load it

        configure_logs(level, sys.stderr)


def _one_line(error: CycloptsError) -> str:
    if isinstance(error, MissingArgumentError) and error.argument is not None and error.keyword is None:
        return f'Command "{" ".join(error.command_chain or ())}" needs {error.argument.name}.'
    return " ".join(str(error).split())


def _fail(text: str, code: int) -> int:
    from asterism.cli.output import complain  # noqa: PLC0415 - what ends well does not load it here

    complain(text)
    return code
