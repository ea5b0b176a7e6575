"""A name that could mean two functions is refused; a run never performs another function than the one that was given."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from asterism import Constellation
from asterism.devices.skills import source
from asterism.errors import InvalidInput


def made(text: str) -> Callable[[], str]:
    def load() -> str:
        return text

    return load


def test_two_functions_with_one_name_and_other_values_are_refused_also_in_two_constellations() -> None:
    Constellation("a").task(made("customers"))
    Constellation("b").task(made("customers"))
    with pytest.raises(InvalidInput, match=r"two functions of this program are called .*made.<locals>.load"):
        Constellation("c").task(made("orders"))


def printed(program: str, folder: Path) -> tuple[int, str]:
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr.strip().rpartition("\n")[2]


def test_a_name_that_is_bound_again_before_the_run_is_refused(tmp_path: Path) -> None:
    program = """
import asterism
c = asterism.Constellation("c")
def step(): return 1
c.task(step)
step = lambda: 2
if __name__ == "__main__":
    asterism.run(c)
"""
    code, said = printed(program, tmp_path)
    assert code == 1
    assert "program.py:step is another function by now" in said


def test_functions_in_a_loop_are_refused_by_the_name_that_they_share(tmp_path: Path) -> None:
    program = """
import asterism
c = asterism.Constellation("c")
for fn in (lambda: 1, lambda: 2):
    c.task(fn)
"""
    code, said = printed(program, tmp_path)
    assert (code, "two functions of this constellation are called" in said) == (1, True)


def test_a_thread_that_is_started_by_an_import_starts_no_run() -> None:
    source._importing.append("bomb.py")
    try:
        with pytest.raises(InvalidInput, match="it starts a run when it is imported"):
            source.refuse_during_import()
    finally:
        source._importing.remove("bomb.py")


def test_runs_within_the_functions_of_runs_are_refused_at_a_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(source.DEPTH_VARIABLE, str(source.MAX_WORKER_DEPTH))
    with pytest.raises(InvalidInput, match="4 levels deep"):
        source.refuse_during_import()
