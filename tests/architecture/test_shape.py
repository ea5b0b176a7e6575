"""The shape of the code: rules that the linters in use cannot check."""

from __future__ import annotations

import ast
import collections
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

MAX_FUNCTION_LINES = 70
MAX_MODULE_LINES = 600

MACHINE_PATH = re.compile(r"(?<![\w.~})/-])/(?!home/(?:me|you)/)(?:root|home|Users|opt|work)/\w")  # "me" and "you" are placeholders
REGISTRY = re.compile(r"index-url[ =]+\S*/|python" + r"hosted|://[^\s/]*(?:pypi|npmjs)|\"?re(?:solved|gistry)\"? *[:=] *\"?http")


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _tail(node: ast.AST | None) -> str:
    """Return the last name of a dotted expression: ``TaskGroup`` for ``asyncio.TaskGroup``; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _mentions_task_group(node: ast.AST | None) -> bool:
    return node is not None and any(_tail(part) in ("TaskGroup", "task_group") for part in ast.walk(node))


def long_functions(text: str) -> list[str]:
    spans = ((node, (node.end_lineno or node.lineno) - node.lineno + 1) for node in _functions(ast.parse(text)))
    return [f"{node.lineno}: {node.name} has {lines} lines" for node, lines in spans if lines > MAX_FUNCTION_LINES]


def unexplained_broad_excepts(text: str) -> list[str]:
    lines = text.splitlines()
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        broad = any(kind is None or _tail(kind) in {"Exception", "BaseException"} for kind in caught)
        if broad and not re.search(r"# boundary: \w", lines[node.lineno - 1]):
            found.append(f"{node.lineno}: {lines[node.lineno - 1].strip()}")
    return found


def ownerless_tasks(text: str) -> list[str]:
    """Return the calls of ``….create_task`` on objects that are not visibly a TaskGroup, and of ``….ensure_future``."""
    tree = ast.parse(text)
    groups: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.withitem(context_expr=made, optional_vars=name) if _mentions_task_group(made):
                groups.add(_tail(name))
            case ast.arg(arg=name, annotation=kind) if _mentions_task_group(kind):
                groups.add(name)
            case ast.AnnAssign(target=target, annotation=kind) if _mentions_task_group(kind):
                groups.add(_tail(target))
            case ast.Assign(targets=targets, value=made) if _mentions_task_group(made):
                groups.update(_tail(target) for target in targets)
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    return [
        f"{call.lineno}: {ast.unparse(call)}"
        for call in calls
        if call.attr == "ensure_future" or (call.attr == "create_task" and _tail(call.value) not in groups - {""})
    ]


def traces_of_a_machine(text: str) -> list[str]:
    numbered = enumerate(text.splitlines(), 1)
    return [f"{number}: {line.strip()[:120]}" for number, line in numbered if MACHINE_PATH.search(line) or REGISTRY.search(line)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_module_and_its_functions_are_within_the_limits(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not long_functions(text)
    assert len(text.splitlines()) <= MAX_MODULE_LINES


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_broad_except_names_its_boundary(path: Path) -> None:
    assert not unexplained_broad_excepts(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_task_belongs_to_a_group(path: Path) -> None:
    assert not ownerless_tasks(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "folder", [it.parent for it in SOURCES if it.name == "__init__.py"], ids=lambda it: str(it.relative_to(ROOT / "src"))
)
def test_a_package_docstring_that_lists_modules_lists_all_of_them(folder: Path) -> None:
    page = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = set(re.findall(r"``(\w+)``", page))
    modules = {it.stem for it in folder.glob("*.py")} - {"__init__", "__main__"}
    assert not named & modules or not modules - named


def test_no_public_class_name_is_defined_twice() -> None:
    homes = collections.defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
    assert len(homes) > 200


def test_no_file_contains_a_machine_path_or_a_registry() -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    found = {}
    for name in filter(None, listed):
        path = ROOT / name
        if path.is_file() and b"\0" not in (raw := path.read_bytes()):
            found[name] = traces_of_a_machine(raw.decode(errors="replace"))
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_these_checks_find_violations() -> None:
    body = "\n".join("    x = 1" for _ in range(MAX_FUNCTION_LINES))
    assert long_functions(f"def f():\n{body}\n")
    assert unexplained_broad_excepts("try: pass\nexcept (OSError, Exception):\n    pass\n")
    assert not unexplained_broad_excepts("try: pass\nexcept Exception:  # boundary: a skill may raise anything\n    pass\n")
    assert ownerless_tasks("loop.create_task(f())\n")
    assert ownerless_tasks("asyncio.get_running_loop().create_task(f())\n")
    assert not ownerless_tasks("async def f():\n    async with asyncio.TaskGroup() as group:\n        group.create_task(g())\n")
    assert not ownerless_tasks("def f(self, group: asyncio.TaskGroup):\n    group.create_task(g())\n")
    assert traces_of_a_machine("see " + "/" + "home/somebody/file")
    assert traces_of_a_machine("https://" + "pypi.example/simple")
    assert not traces_of_a_machine("/home/me/photos and examples/work/x and https://example.org/opt/x")
