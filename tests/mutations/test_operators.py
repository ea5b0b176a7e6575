from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutations.operators import mutations


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    return a < b", {"    return (a <= b)", "    return None"}),
        ("    return a and b", {"    return (a or b)", "    return (a)", "    return None"}),
        ("    return not a", {"    return (a)", "    return None"}),
        ("    a = 1", {"    a = (2)", "    pass"}),
        ("    if a: return None", {"    if (not a): return None"}),
        ("    raise ValueError", {"    pass"}),
        ("    b(a)", {"    pass"}),
        ("    return a if b else None", {"    return (a)", "    return (None)", "    return None"}),
        ("    return None", set()),
    ],
)
def test_every_operator_changes_a_line(before: str, after: set[str], tmp_path: Path) -> None:
    source = tmp_path / "it.py"
    source.write_text(f"def f(a: bool, b: int) -> object:\n{before}\n")
    found = mutations(source, tmp_path)
    assert {it.source.splitlines()[1] for it in found} == after
    assert {it.path for it in found} <= {"it.py"}


def test_code_that_never_runs_is_not_mutated(tmp_path: Path) -> None:
    source = tmp_path / "it.py"
    source.write_text("class A(B, frozen=True):\n    x: Literal[1]\n    y: int = 2\n\nif TYPE_CHECKING:\n    z = 3\nLIMIT = 4\n")
    assert [it.after for it in mutations(source, tmp_path)] == ["3", "5"]


def test_every_mutation_of_the_kernel_is_python_and_moves_no_line() -> None:
    root = Path(__file__).parents[2]
    for source in sorted((root / "src/asterism/engine/kernel").glob("*.py")):
        lines = source.read_text(encoding="utf-8").count("\n")
        for mutation in mutations(source, root):
            ast.parse(mutation.source)
            assert mutation.source.count("\n") <= lines
