"""Measures of the structure: ``python -m tests.architecture.measures`` prints them; a test holds the bounds.

A room is a package or a module directly below ``asterism``, and an arrow is a pair of rooms of which one imports the other.
"""

from __future__ import annotations

import ast
import collections
import re
from collections.abc import Iterator
from pathlib import Path

import grimp

SOURCES = Path(__file__).parents[2] / "src" / "asterism"
FORMS = ("constellation", "conversation", "loop")
KNOW_FORMS = ("app", "cli", "service")
"""Rooms that may know which forms of runs there are."""
_ASKS = re.compile(r"\b(CONSTELLATION_AGENT|ORCHESTRATION_LOOP|FLOW_AGENT)\b(?!,|$| import)|isinstance\([^)]*\b(?!Run)\w+Memory\)")


def room_of(module: str) -> str:
    """Return the room of a module."""
    return module.split(".")[1] if "." in module else module


def imports() -> Iterator[tuple[str, str]]:
    """Yield each import of a module of another room, as (importer, imported)."""
    graph = grimp.build_graph("asterism", cache_dir=None)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            if room_of(module) != room_of(imported) and "asterism" not in (module, imported):
                yield module, imported


def arrows() -> collections.Counter[tuple[str, str]]:
    """Return the number of imports of each arrow."""
    return collections.Counter((room_of(one), room_of(other)) for one, other in imports())


def rooms_in_a_circle() -> list[str]:
    """Return the rooms that import themselves through others."""
    found = arrows()

    def reached(room: str) -> set[str]:
        seen: set[str] = set()
        todo = [room]
        while todo:
            importer = todo.pop()
            new = {imported for one, imported in found if one == importer} - seen
            seen |= new
            todo += new
        return seen

    return sorted(room for room in lines() if room in reached(room))


def structs_of_an_attempt() -> list[str]:
    """Return the structs with at least half of the fields of an attempt, each written out again."""
    trees = ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES.rglob("*.py"))
    structs = {
        f"{path.relative_to(SOURCES)}:{node.name}": {
            each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        for path, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    attempt = next(fields for name, fields in structs.items() if name.endswith(":AttemptFields"))
    return sorted(name for name, fields in structs.items() if 2 * len(fields & attempt) >= len(attempt))


def places_that_ask_for_the_form() -> list[str]:
    """Return the lines outside of ``KNOW_FORMS`` and of the form's own room that ask which form a run has."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        room = path.relative_to(SOURCES).parts[0]
        own = {"constellation": "CONSTELLATION_AGENT|ConstellationMemory", "loop": "ORCHESTRATION_LOOP|LoopMemory"}
        mine = own.get(room, "FLOW_AGENT|FlowMemory" if room == "conversation" else "^$")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            asks = _ASKS.search(line)
            if asks and room not in KNOW_FORMS and "import" not in line and not re.search(mine, asks[0]):
                found.append(f"{path.relative_to(SOURCES)}:{number}")
    return found


def lines() -> collections.Counter[str]:
    """Return the number of lines of each room."""
    counted: collections.Counter[str] = collections.Counter()
    for path in SOURCES.rglob("*.py"):
        counted[path.relative_to(SOURCES).parts[0]] += len(path.read_text(encoding="utf-8").splitlines())
    return counted


def modules_of_at_most(limit: int) -> int:
    """Return the number of modules with so many lines, packages' own files left out."""
    paths = (path for path in SOURCES.rglob("*.py") if path.stem != "__init__")
    return sum(len(path.read_text(encoding="utf-8").splitlines()) <= limit for path in paths)


def longest_function() -> int:
    """Return the lines of the longest function."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES.rglob("*.py"))
    functions = (it for tree in trees for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef))
    return max((it.end_lineno or 0) - it.lineno + 1 for it in functions)


def main() -> None:
    """Print the measures."""
    found, counted = arrows(), lines()
    print(f"rooms {len(counted)}, arrows {len(found)}, rooms in a circle: {', '.join(rooms_in_a_circle()) or 'none'}")
    print(f"structs of an attempt: {', '.join(structs_of_an_attempt())}")
    taken = sum(count for (one, other), count in found.items() if one == "engine" and other in FORMS)
    print(f"imports of forms in the engine: {taken}")
    places = places_that_ask_for_the_form()
    print(f"places that ask for the form outside of {', '.join(KNOW_FORMS)}: {len(places)}", *places, sep="\n  ")
    print(f"modules of at most 60 lines: {modules_of_at_most(60)}; longest function: {longest_function()} lines")
    print(f"lines: {sum(counted.values())}", *(f"{name} {count}" for name, count in counted.most_common()), sep="\n  ")


if __name__ == "__main__":
    main()
