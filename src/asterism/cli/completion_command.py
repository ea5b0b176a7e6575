"""The command ``completion``, and the ids of runs that its scripts ask for while a command is typed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from asterism.cli.exit_codes import FINISHED
from asterism.cli.output import put

if TYPE_CHECKING:  # it loads the writers of scripts
    from cyclopts.completion import CompletionContext

Shell = Literal["bash", "zsh", "fish"]
_FILES = {
    "bash": "complete -o default -F _asterism asterism",
    "zsh": """
_asterism_or_files() {
  local insert=$compstate[insert]  # a description without choices empties it
  _cyclopts_asterism "$@"
  (( compstate[nmatches] )) || { compstate[insert]=$insert; _files }
}
if [[ $funcstack[1] == _asterism ]]; then _asterism_or_files "$@"; else compdef _asterism_or_files asterism; fi""",
    "fish": "",
}
"""What lets a shell complete a word as a file if it is nothing else; fish does so by itself."""


def completion(shell: Annotated[Shell, Parameter(name="SHELL", help="The shell.")], /) -> int:
    """Print the completion script of a shell; nothing is installed."""
    from asterism.cli import app  # noqa: PLC0415 - it imports this module when the command is called

    put(f"{app.generate_completion(shell=shell).rstrip()}\n{_FILES[shell]}".rstrip())
    return FINISHED


def run_ids(context: CompletionContext) -> list[str]:
    """Return the ids of the latest runs in the database or on the server that a command line names."""
    from asterism.cli.run_access import runs_of  # noqa: PLC0415 - only shells ask

    given = {name: argument.value for name in ("--database", "--server") if (argument := context.get(name))}

    async def ids() -> list[str]:
        async with runs_of(given.get("--database"), given.get("--server")) as runs:
            return [row.run_id for row in await runs.runs(limit=20, roots_only=True)]

    return asyncio.run(ids())
