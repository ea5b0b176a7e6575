"""Mutation operators: small changes of the syntax of a line, each of which some test should detect."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True)
class Mutation:
    """One change of one file.

    Attributes:
        path: the file, relative to the root of the project.
        line: where the changed statement begins, from 1.
        before, after: the statement's first line, or the expression, as Python writes it.
        source: the whole file with the change.
    """

    path: str
    line: int
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        """Return one line that says what was changed where."""
        return f"{self.path}:{self.line}: {self.before}  →  {self.after}"


def mutations(path: Path, root: Path) -> list[Mutation]:
    """Return every mutation of a file, in the order of its lines. Comments are lost in the mutated source; lines keep their numbers.

    Args:
        path: of the file.
        root: of the project.
    """
    text = path.read_text(encoding="utf-8")
    found: list[Mutation] = []
    for old, new in _changes(ast.parse(text)):
        replaced = _replaced(text, old, new)
        if replaced is not None:
            found.append(Mutation(str(path.relative_to(root)), old.lineno, _short(old), _short(new), replaced))
    return sorted(found, key=lambda it: it.line)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Yield pairs of a node and its replacement; annotations, docstrings and type checks are excluded."""
    for node in _code(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            yield node, _with(node, ops=[_COMPARISONS[type(node.ops[0])]()])
        elif isinstance(node, ast.BoolOp):
            yield node, _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            yield node, node.values[0]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, node.operand
        elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            yield node, _with(node, op=_ARITHMETIC[type(node.op)]())
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, ast.Constant(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield node, ast.Constant(node.value + 1)
        elif isinstance(node, ast.IfExp):
            yield node, node.body
            yield node, node.orelse
        elif isinstance(node, ast.If | ast.While):
            yield node.test, ast.UnaryOp(ast.Not(), node.test)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Delete | ast.Raise) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
        ):
            yield node, ast.Pass()
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield node, ast.Return(ast.Constant(None))


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every node that runs: within functions, and constants of modules and classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.arguments):
            for default in (*child.defaults, *filter(None, child.kw_defaults)):
                yield default
                yield from _code(default)
            continue
        if isinstance(node, ast.AnnAssign) and child is node.annotation:
            continue
        if isinstance(node, ast.ClassDef) and isinstance(child, ast.keyword | ast.Call):  # frozen=True, and decorators
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and child is node.returns:
            continue
        if isinstance(node, ast.Module | ast.ClassDef) and isinstance(child, ast.Assign | ast.Import | ast.ImportFrom | ast.If):
            if isinstance(child, ast.Assign) and isinstance(child.value, ast.Constant):
                yield child.value
            continue
        yield child
        yield from _code(child)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _replaced(text: str, old: ast.expr | ast.stmt, new: ast.AST) -> str | None:
    """Return the text with a node replaced in place; None if the text is unchanged."""
    lines = text.encode().splitlines(keepends=True)
    if old.end_lineno is None or old.end_col_offset is None:
        return None
    start = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: old.end_lineno - 1])) + old.end_col_offset
    was, said = text.encode()[start:end].decode(), ast.unparse(new)
    if isinstance(old, ast.expr):
        said = f"({said})"
    if was in (said, said[1:-1]):
        return None
    padding = "\n" * was.count("\n") if isinstance(old, ast.stmt) else ""  # so that the lines after it keep their numbers
    return (text.encode()[:start] + (said + padding).encode() + text.encode()[end:]).decode()


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _short(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0][:100]
