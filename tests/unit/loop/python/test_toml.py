"""Loops in TOML."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest

from asterism.errors import InvalidInput
from asterism.loop.machine.effects import RunWorker
from asterism.loop.machine.requests import WorkerCall
from asterism.loop.python import Handoff, ModelWorker
from asterism.loop.python import definition as definition_module
from asterism.loop.python.definition import find_loop, open_performers
from asterism.loop.python.toml import read_parts

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


def test_a_loop_of_fixed_steps_and_functions_runs_without_a_model(folder: Path) -> None:
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


def test_models_tools_and_servers_come_from_the_file(folder: Path) -> None:
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
        ("[workers]", "no workers"),
        ('[workers.a]\nmodel = "m:n"\ninstructions = "x"', "nothing makes a plan"),
        ('model = "m:n"\n[workers.a]\n', "workers.a: no instructions"),
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
        ('model = "m:n"\n[workers.a]\ninstructions = "x"\n[[workers.a.servers]]', "a server needs a command or a url, and not both"),
    ],
)
def test_an_invalid_file_is_refused_in_one_line(folder: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=r"loop\.toml") as raised:
        find_loop("loop.toml", written(folder, text))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def of_steps(count: int, step: str = "", more: str = "") -> str:
    return more + f'[[steps]]\nworker = "a"\nintent = "x"\n{step}\n' * count + '[workers.a]\nfunction = "tools_of_toml_test.py:look"\n'


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("max_steps = 2", "max_steps is 2, but the 3 steps need 3; set it in [options]"),
        ("max_reflections = 2", "max_reflections is 2, but the 3 steps need 3; set it in [options]"),
    ],
)
def test_steps_beyond_the_limits_are_refused_on_reading(folder: Path, options: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(why)):
        find_loop("loop.toml", written(folder, of_steps(3) + f"[options]\n{options}"))


@pytest.mark.parametrize(
    "text",
    [
        of_steps(3) + "[options]\nmax_steps = 3\nmax_reflections = 3",
        of_steps(3, 'group = "g"') + "[options]\nmax_reflections = 1",
    ],
)
def test_steps_exactly_within_the_limits_are_done(folder: Path, text: str) -> None:
    assert asyncio.run(find_loop("loop.toml", written(folder, text)).run("x")).state == "COMPLETE"


def test_steps_beyond_the_limits_are_accepted_if_a_reflection_may_end_them(folder: Path) -> None:
    text = of_steps(3, more='reflect = "openai:small"\n') + "[options]\nmax_steps = 2"
    assert len(find_loop("loop.toml", written(folder, text)).steps) == 3


def test_the_file_of_a_run_is_read_again_only_after_a_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def reading(path: Path) -> dict[str, Any]:
        reads.append(path)
        return read_parts(path)

    monkeypatch.setattr(definition_module, "read_parts", reading)
    text = """
    [[steps]]
    worker = "look"
    intent = "a heron"
    [workers.look]
    function = "tools_of_toml_test.py:look"
    """
    where = str(written(folder, text))

    async def scene() -> list[int]:
        async with open_performers() as performers:

            async def step() -> int:
                effect = RunWorker(step_id="a", worker="look", handoff=Handoff(from_="supervisor", to="look", intent="a heron"))
                outcome: Any = await performers[RunWorker].perform(
                    "run:1.0", WorkerCall(definition="loop.toml", folder=where, effect=effect), lambda _: None
                )
                assert outcome.finding.output == "a heron"
                return len(reads)

            before = [await step(), await step()]
            os.utime(folder / "loop.toml", ns=(0, 0))
            return [*before, await step(), await step()]

    assert asyncio.run(scene()) == [1, 1, 2, 2]
