"""The command ``completion``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from cyclopts import App, Parameter

from asterism.cli.exit_codes import FINISHED
from asterism.cli.output import put

Shell = Literal["bash", "zsh", "fish"]

_RUN_IDS = r"""asterism runs --json 2>/dev/null | sed -n 's/^ *"run": "\(.*\)",$/\1/p'"""
"""A shell command that prints the ids of the latest runs, in the database of the environment."""

_BASH = """
_asterism_with_runs() {
  _asterism
  local cur="${COMP_WORDS[COMP_CWORD]}"
  if [[ ${#COMPREPLY[@]} -eq 0 && $COMP_CWORD -eq 2 && $cur != -* && " @COMMANDS@ " == *" ${COMP_WORDS[1]} "* ]]; then
    COMPREPLY=( $(compgen -W "$(@RUN_IDS@)" -- "$cur") )
  fi
}

complete -o default -F _asterism_with_runs asterism
"""
_ZSH = """
_asterism_runs() {
  local -a found
  found=( ${(f)"$(@RUN_IDS@)"} )
  compadd -a found
}

if [[ $funcstack[1] == _asterism ]]; then
  _cyclopts_asterism "$@"
else
  compdef _cyclopts_asterism asterism
fi
"""
_FISH = """
complete -c asterism -n '__fish_seen_subcommand_from @COMMANDS@' -k -a '(@RUN_IDS@)'
"""


def completion(shell: Annotated[Shell, Parameter(name="SHELL", help="The shell.")], /) -> int:
    """Print the completion script of a shell; nothing is installed."""
    put(_script(shell).rstrip())
    return FINISHED


def _script(shell: Shell) -> str:
    from asterism.cli import app  # noqa: PLC0415 - it imports this module when the command is called

    script = app.generate_completion(shell=shell)
    commands = " ".join(_commands_of_runs(app))
    more = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]
    if shell == "bash":
        script = script.replace("complete -F _asterism asterism\n", "")
    elif shell == "zsh":
        script = re.sub(r"^( +'\d+:)(.*)' \\$", _with_action, script, flags=re.MULTILINE)
    else:
        more = more.replace("@RUN_IDS@", _RUN_IDS.replace("\\", "\\\\").replace("'", "\\'"))
    return script.rstrip() + "\n" + more.replace("@RUN_IDS@", _RUN_IDS).replace("@COMMANDS@", commands)


def _with_action(positional: re.Match[str]) -> str:
    """Return the line of a zsh script for a positional argument, completed as a run or as a file."""
    start, text = positional.groups()
    if re.search(r"(?<!\\):", text):
        return positional[0]  # it has its choices
    action = "_asterism_runs" if text.startswith("Id of a run") else "" if text.startswith("Id of") else "_files"
    return f"{start}{text}:{action}' \\"


def _commands_of_runs(app: App) -> Iterator[str]:
    """Yield the names of the commands whose first argument is the id of a run."""
    for name in app:
        command = app[name]
        if not name.startswith("-") and command.default_command is not None:
            arguments = command.assemble_argument_collection()
            if arguments and arguments[0].name == "RUN":
                yield name
