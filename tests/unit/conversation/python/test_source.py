"""Where flow agents are found: modules, files, entry points of installed packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from asterism.conversation.python.source import agent_of, agents_of
from asterism.errors import InvalidInput

AGENTS = """
from asterism.conversation.python import StandardAgent

class First(StandardAgent):
    pass

class Second(StandardAgent):
    pass
"""
POINTS = """
[asterism.conversation]
both = agents_of_a_package
second = agents_of_a_package:Second
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with a module, as a package of that name would have been installed."""
    (tmp_path / "agents_of_a_package.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "agents-1.0.dist-info").mkdir()
    (tmp_path / "agents-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: agents\nVersion: 1.0\n", encoding="utf-8")
    (tmp_path / "agents-1.0.dist-info" / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("agents_of_a_package", ["First", "Second"]),
        ("agents_of_a_package.py", ["First", "Second"]),
        ("agents_of_a_package:First", ["First"]),
        ("agents_of_a_package.py:Second", ["Second"]),
        ("both", ["First", "Second"]),
        ("second", ["Second"]),
    ],
)
def test_agents_are_found_by_module_file_name_and_entry_point(installed: Path, source: str, names: list[str]) -> None:
    assert [agent.__name__ for agent in agents_of(source, installed)] == names


@pytest.mark.parametrize(
    ("source", "why"), [("both", "name one: both:First"), ("third", "third does not import"), ("second:Nobody", "second does not import")]
)
def test_a_source_without_exactly_one_agent_is_an_error(installed: Path, source: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        agent_of(source, installed)
