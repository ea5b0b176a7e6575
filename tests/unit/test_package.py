"""The package root: public names, resolved lazily."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import asterism


@pytest.mark.parametrize("name", sorted(asterism._HOME_OF))
def test_a_public_name_resolves_to_the_object_in_its_home(name: str) -> None:
    assert getattr(asterism, name) is getattr(sys.modules[asterism._HOME_OF[name]], name)


VOCABULARY = """
    TaskConstellation TaskStar TaskStarLine ConstellationAgent ConstellationAgentStatus WeavingMode AgentProfile
    ContextNames ConstellationProcessorContext ConstellationAgentProcessor ConstellationAgentResponse
    ProcessingPhase ProcessingResult depends_on provides ConstellationStrategyFactory ConstellationPrompterFactory
    State TRANSITIONS StandardAgent InputField OutputField flowagent AgentStatus STATE_TRANSITIONS
""".split()  # noqa: SIM905 - as the glossary lists them


@pytest.mark.parametrize("name", VOCABULARY)
def test_the_package_root_has_every_word_of_the_vocabulary(name: str) -> None:
    assert name in asterism._HOME_OF


@pytest.mark.parametrize("name", ["make_result", "transition_to", "can_transition"])
def test_the_methods_of_the_vocabulary_are_those_of_an_agent(name: str) -> None:
    assert callable(getattr(asterism.StandardAgent, name))


def test_type_checkers_see_the_same_names_and_modules() -> None:
    tree = ast.parse(Path(asterism.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == asterism._HOME_OF


def test_a_name_that_is_not_public_is_rejected_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"no public name 'skil'; it has .*skill"):
        asterism.skil  # noqa: B018  # looking it up is the test


def run_python(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_importing_the_package_root_loads_no_module_of_it() -> None:
    assert run_python("import sys, asterism; print(*(name for name in sys.modules if name.startswith('asterism.')))").split() == []


def test_a_name_whose_extra_is_not_installed_is_an_error_of_one_line() -> None:
    script = """
import sys
sys.modules["pydantic_ai"] = None  # as if it were not installed
import asterism
try:
    asterism.ConstellationAgentProcessor
except asterism.MissingExtra as error:
    print(error)
"""
    assert run_python(script) == "asterism.ConstellationAgentProcessor needs an extra: pip install 'asterism-engine[llm]'\n"


def test_importing_skill_loads_neither_other_devices_nor_anything_above() -> None:
    script = "import sys; from asterism import skill; print(*(name for name in sys.modules if name.startswith('asterism.')))"
    loaded = set(run_python(script).split())
    below = ("asterism.constellation.model", "asterism.errors", "asterism.engine.kernel")
    assert {name for name in loaded if not name.startswith(below)} == {
        "asterism.devices",
        "asterism.devices.skills",
        "asterism.devices.skills.skill",
        "asterism.engine",
        "asterism.engine.phrases",
    }
