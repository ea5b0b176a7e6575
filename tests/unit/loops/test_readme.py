"""The loop in the README runs as it is written, and says what is shown."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from asterism.loops.definition import find_loop

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def test_the_loop_in_the_readme_runs_as_it_is_written(tmp_path: Path) -> None:
    section = README.split("\n## Loops\n", 1)[1].split("\n## ", 1)[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "birds_of_the_readme.py").write_text(block, encoding="utf-8")
    ended = asyncio.run(find_loop("birds_of_the_readme.py:loop", tmp_path).run("a heron"))
    assert ended.answer == "I saw a heron."
    assert f'answer: "{ended.answer}"' in section
