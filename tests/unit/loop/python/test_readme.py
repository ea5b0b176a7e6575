"""The loops in the README and the reference run as written, with the output shown."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from asterism.loop.python.definition import find_loop

ROOT = Path(__file__).parents[4]
README = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def test_the_loop_in_the_readme_runs_as_it_is_written(tmp_path: Path) -> None:
    section = README.split("\n## Loops\n", 1)[1].split("\n## ", 1)[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "birds_of_the_readme.py").write_text(block, encoding="utf-8")
    ended = asyncio.run(find_loop("birds_of_the_readme.py:loop", tmp_path).run("a heron"))
    assert ended.answer == "I saw a heron."
    assert f'found "{ended.answer}"' in section


def test_the_test_in_the_readme_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = README.split("\n## Testing\n", 1)[1]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (birds,) = re.findall(r"```python\n(.*?)```", README.split("\n## Loops\n", 1)[1].split("\n## ", 1)[0], re.DOTALL)
    (tmp_path / "birds.py").write_text(birds, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {}
    try:
        exec(block, names)  # noqa: S102 - as a reader would run it
        names["test_a_person_is_asked_whether_to_look_again_after_a_crash"]()
    finally:
        sys.modules.pop("birds", None)


TOOLS = """
def book(trip: str) -> str:
    return trip

async def check(handoff):
    return handoff.intent
"""


def test_the_toml_loop_of_the_reference_is_valid(tmp_path: Path) -> None:
    section = REFERENCE.split("\n### A loop without Python\n", 1)[1].split("\n## ", 1)[0]
    (block,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    (tmp_path / "loop.toml").write_text(block, encoding="utf-8")
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    loop = find_loop("loop.toml", tmp_path)
    assert list(loop.workers) == ["reader", "booker", "checker"]
    assert loop.models == ["openai:gpt-4o"] * 5
