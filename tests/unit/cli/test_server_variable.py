"""Commands while ``$ASTERISM_SERVER`` names a server."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest
from cyclopts import App

from asterism.cli import app, main
from asterism.cli.options import Here, ServerUrl
from asterism.cli.server_variable import GROUPS, WITH_HERE, WITH_SERVER, WITHOUT_RUNS, without_server

HINTS = {"server": ServerUrl, "here": Here}


def commands(of: App = app, prefix: str = "") -> Iterator[tuple[str, App]]:
    """Every command, with its name; a group is none."""
    for name in of:
        if not name.startswith("-"):
            found = of[name]
            called = f"{prefix} {name}".strip()
            if called in GROUPS:
                yield from commands(found, called)
            else:
                yield called, found


def has(command: App, option: str) -> bool:
    """Return True if a command has an option."""
    assert command.default_command is not None
    return get_type_hints(command.default_command, include_extras=True).get(option) == HINTS[option]


EVERY = dict(commands())
REFUSED = sorted(EVERY.keys() - WITH_SERVER - WITHOUT_RUNS)


def test_d3_the_table_has_the_commands_with_the_option_server_and_no_others() -> None:
    assert {name for name, command in EVERY.items() if has(command, "server")} == WITH_SERVER
    assert EVERY.keys() >= WITH_SERVER | WITHOUT_RUNS | WITH_HERE
    assert {name for name in REFUSED if has(EVERY[name], "here")} == WITH_HERE
    takes_database = {
        name for name, it in EVERY.items() if it.default_command and "database" in inspect.signature(it.default_command).parameters
    }
    assert takes_database - WITH_SERVER - {"serve"} <= {*REFUSED}


@pytest.mark.parametrize("command", REFUSED)
def test_d3_a_command_that_knows_no_servers_refuses_unless_it_is_for_this_computer(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("ASTERISM_SERVER", "http://127.0.0.1:1")
    monkeypatch.setenv("ASTERISM_DATABASE", str(tmp_path / "runs.db"))
    words = command.split()
    assert main([*words, "x"]) == 2
    said = capsys.readouterr().err
    assert ("ASTERISM_SERVER" in said, "--here" in said, f"`asterism {command}`" in said, len(said.splitlines())) == (True,) * 3 + (1,)
    assert not list(tmp_path.iterdir())
    for allowed in (["--database", "x.db"], ["--database=x.db"], ["-d", "x.db"], ["--help"]):
        assert without_server([*words, *allowed]) == [*words, *allowed]
    assert without_server([*words, "x", "--here"]) == [*words, "x", *(["--here"] if command in WITH_HERE else [])]
    with pytest.raises(Exception, match="ASTERISM_SERVER"):
        without_server([*words, "--", "--here"])


@pytest.mark.parametrize(
    "arguments", [["prune", "--here"], ["files", "--here", "x"], ["fleet", "--here"], ["plan", "x"], ["--version"], []]
)
def test_d3_what_is_for_this_computer_or_uses_no_runs_is_carried_out(arguments: list[str]) -> None:
    assert without_server(arguments) == [it for it in arguments if it != "--here"]


def test_d3_the_default_of_a_group_is_refused_as_its_command_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASTERISM_SERVER", "http://127.0.0.1:1")
    assert main(["fleet"]) == 2
    assert "`asterism fleet show`" in capsys.readouterr().err
