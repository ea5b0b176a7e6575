"""Loops written down as TOML."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asterism.errors import InvalidInput
from asterism.loops import ModelWorker
from asterism.loops.definition import find_loop

TOOLS = """
async def look(handoff):
    return handoff.intent

def double(number: int) -> int:
    return 2 * number
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools_of_toml_test.py").write_text(TOOLS, encoding="utf-8")
    return tmp_path


def written(folder: Path, text: str) -> Path:
    (folder / "loop.toml").write_text(text, encoding="utf-8")
    return folder


def test_a_loop_of_given_steps_and_functions_runs_without_a_model(folder: Path) -> None:
    text = """
    [[steps]]
    worker = "look"
    intent = "a heron"
    [workers.look]
    function = "tools_of_toml_test.py:look"
    idempotent = true
    [options]
    max_steps = 7
    """
    loop = find_loop("loop.toml", written(folder, text))
    assert (loop.definition, loop.options.max_steps) == ("loop.toml", 7)
    assert asyncio.run(loop.run("x")).answer == "a heron"


def test_models_tools_and_servers_are_what_the_file_says(folder: Path) -> None:
    text = """
    model = "openai:large"
    reflect = "openai:small"
    [workers.clerk]
    instructions = "You keep files."
    [[workers.clerk.tools]]
    function = "tools_of_toml_test.py:double"
    gate = "external"
    [[workers.clerk.servers]]
    command = ["files", "."]
    allow = ["read_file"]
    gates = {read_file = "first_time"}
    within = {read_file = {folder = "notes", arguments = ["path"]}}
    [[workers.clerk.servers]]
    url = "https://notes.example/mcp"
    headers = {Authorization = "Bearer $TOKEN"}
    """
    clerk = find_loop("loop.toml", written(folder, text)).workers["clerk"]
    assert isinstance(clerk, ModelWorker)
    assert (clerk.model, clerk.description) == ("openai:large", "You keep files.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = ", "loop.toml: "),
        ("[workers]", "workers: there are none"),
        ('[workers.a]\nmodel = "m:n"\ninstructions = "x"', "who plans"),
        ('model = "m:n"\n[workers.a]\n', "workers.a: it has no instructions"),
        ('model = "m:n"\ncolour = 1\n[workers.a]\n', "unknown field `colour`"),
        (
            'model = "m:n"\n[workers.a]\ncolour = 1\n',
            "loop.toml: workers.a: Object contains unknown field `colour`; its fields are function, idempotent, ",
        ),
        ('model = "m:n"\n[workers.a]\ninstructions = "x"\ntools = [1]', "workers.a.tools[0]: Expected `str | object`, got `int`"),
        (
            'model = "m:n"\n[workers.a]\ninstructions = "x"\ntools = [{ function = "x.py:y", gate = "danger" }]',
            "workers.a.tools[0].gate: Invalid enum value 'danger'; it is one of destructive, external, first_time, or empty",
        ),
        (
            'model = "m:n"\n[workers.a]\ninstructions = "x"\nservers = [{ url = "http://x", gates = { read = true } }]',
            "workers.a.servers[0].gates[...]: Expected `str`, got `bool`; it is one of destructive, external, first_time, or empty",
        ),
        (
            'model = "m:n"\n[workers.a]\ninstructions = "x"\ntools = [{ function = "x.py:y", gates = "external" }]',
            "workers.a.tools[0]: Object contains unknown field `gates`; its fields are function, gate, idempotent",
        ),
        (
            'model = "m:n"\n[workers]\n[options]\nrecovery = ["again"]',
            "loop.toml: options.recovery[0]: Invalid enum value 'again'; it is one of retry, retry_elsewhere, decompose, ask_user, give_up",
        ),
        (
            'model = "m:n"\n[workers]\n[options]\nmax_step = 3',
            "options: Object contains unknown field `max_step`; its fields are max_steps, ",
        ),
        ('model = "m:n"\n[workers]\na = 1', "Expected `object`, got `int`"),
        ('model = "m:n"\n[workers.a]\nfunction = "nowhere.py:x"', "there is no file nowhere.py"),
        ('model = "m:n"\n[workers.a]\ninstructions = "x"\n[[workers.a.servers]]', "either a command or a url"),
    ],
)
def test_a_file_that_says_something_wrong_is_refused_in_one_line(folder: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=r"loop\.toml") as raised:
        find_loop("loop.toml", written(folder, text))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)
