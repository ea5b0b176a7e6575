"""Refuse a command that uses only the database of this computer while ``$ASTERISM_SERVER`` names a server."""

from __future__ import annotations

from collections.abc import Sequence

from asterism.constellation.python.own_secrets import SERVER_VARIABLE
from asterism.errors import InvalidInput

GROUPS = frozenset({"fleet", "fleet add", "mcp", "flow", "schedule", "event", "loop", "token"})
"""Commands that are followed by the name of a command."""
WITH_SERVER = frozenset(
    {"run", "runs", "show", "log", "logs", "why", "status", "inbox", "answer", "pause", "unpause", "lift", "retry", "cancel", "fork"}
    | {"chat", "event send", "event list"}
    | {f"schedule {it}" for it in ("add", "list", "next", "history", "run", "pause", "resume", "remove")}
)
"""Commands that use the server."""
WITHOUT_RUNS = frozenset({"serve", "plan", "schema", "completion", "diagram", "fleet check"}) | {
    f"fleet add {it}" for it in ("mcp", "a2a", "ssh", "device")
}
"""Commands that use no runs, and ``serve``, which is a server."""
WITH_HERE = frozenset({"follow", "resume", "loop run"})
"""Commands that are refused, and have an option --here of their own."""


def without_server(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command line that may be carried out, without a ``--here`` that is only for this check.

    Raises:
        InvalidInput: the command knows no servers, and neither ``--here`` nor a database is given.
    """
    command, options = "", list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    for word in options:
        if word.startswith("-") or command not in GROUPS | {""}:
            break
        command = f"{command} {word}".strip()
    command = "fleet show" if command == "fleet" else command  # the default of its group
    if command in WITH_SERVER | WITHOUT_RUNS | GROUPS | {""}:
        return list(arguments)
    if not any(it in ("--here", "--help", "-h") or it.partition("=")[0] in ("--database", "-d") for it in options):
        raise InvalidInput(
            f"{SERVER_VARIABLE} is set, and `asterism {command}` knows only the database of this computer;"
            " add --here to use it, or name one with --database"
        )
    if command in WITH_HERE or "--here" not in options:
        return list(arguments)
    at = options.index("--here")
    return [*arguments[:at], *arguments[at + 1 :]]
