"""The JavaScript and the styles of the console as browsers receive them: without comments, and joined to a few files."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

WEB = Path(__file__).with_name("web")

_IMPORT = re.compile(r"^import (?:\{([^}]*)\} from )?'(\.[^']*)';\n", re.MULTILINE)
_IMPORT_LATER = re.compile(r"\bimport\('(\.[^']*)'\)")
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_SPACE = re.compile(r"/\*.*?\*/ ?|^[ \t]+", re.DOTALL | re.MULTILINE)
_COMMENT_LINE = re.compile(r"^//.*\n", re.MULTILINE)
_COMMENT_AT_END = re.compile(r"(?<=[;,{(]) //[^'\"`\n]*$", re.MULTILINE)
_SPACE_IN_STYLE = re.compile(r"\s*([{}:;,>])\s+")
OPERATOR = re.compile(r" (=>|===|!==|&&|\|\||\?\?|=|\?) ")
_LINE_THAT_GOES_ON = re.compile(r"^((?!.*//).*[;{,])\n", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{2,}")


def compact(text: str) -> str:
    """Return a module or a style sheet without indentation and comments.

    A comment at the end of a line stays if it has a quote: the line may be one with a string that only looks like a comment.

    It knows no syntax. So a text of ours that has ``/*`` in a string, or a template that goes on in the next line, would be
    damaged; tests look for both, and run the tests in JavaScript on what this returns.
    """
    return _EMPTY_LINES.sub("\n", _COMMENT_AT_END.sub("", _COMMENT_LINE.sub("", _SPACE.sub("", text)))).lstrip()


@functools.cache
def source(name: str) -> str:
    """Return the text of a file of ``web``, compact; each is read once, and looked at by many modules."""
    text = compact((WEB / name).read_text(encoding="utf-8"))
    return _SPACE_IN_STYLE.sub(r"\1", text) if name.endswith(".css") else text


def modules(*entries: str) -> list[str]:
    """Return the names of modules and of all that they import, each after its imports. What is imported at run time is left out."""
    names: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in names:
            return
        for _, imported in _IMPORT.findall(source(name)):
            visit(_beside(name, imported))
        names[name] = None

    for entry in entries:
        visit(entry)
    return list(names)


def linked(entry: str) -> str:
    """Return a module and all that it imports as one script.

    Each module becomes a function that returns its exports, in the order of the imports. So one request loads them all, and
    a page that is opened from a file has them in itself.
    """
    return _script(entry, {entry: modules(entry)})


def split(entry: str) -> dict[str, str]:
    """Return a module and all that it needs as scripts by their names: itself, and each module that is imported at run time.

    Each of the others has what it needs alone; what several of them need is in the first.
    """
    needed = {name: modules(name) for name in _imported_later(entry)}
    counts = Counter(chain(*needed.values()))
    first = modules(*(name for name, count in counts.items() if count > 1), entry)
    groups = {entry: first, **{script: [name for name in names if name not in first] for script, names in needed.items()}}
    return {script: _script(script, groups) for script in groups}


def _imported_later(entry: str) -> list[str]:
    """Return the modules that are imported at run time by a module, by what it imports, or by one of them."""
    found = [entry]
    for script in found:  # which grows meanwhile
        for name in modules(script):
            found += [it for address in _IMPORT_LATER.findall(source(name)) if (it := _beside(name, address)) not in found]
    return found[1:]


def _script(script: str, groups: Mapping[str, Sequence[str]]) -> str:
    """Return the modules of one group as a script, which imports modules of other groups, and exports its own for them."""
    numbers = {name: number for number, name in enumerate(chain(*groups.values()))}
    own = groups[script]
    used = {_beside(name, address) for name in own for _, address in _IMPORT.findall(source(name))}.difference(own)
    heads = [
        f"import {{ {', '.join(f'$${numbers[name]}' for name in names if name in used)} }} from '{_address(script, other)}';\n"
        for other, names in groups.items()
        if used.intersection(names)
    ]
    tail = f"export {{ {', '.join(f'$${numbers[name]}' for name in own)} }};\n" if len(groups) > 1 else ""
    return "".join([*heads, *(_as_function(name, numbers, script) for name in own), tail])


def _as_function(name: str, numbers: Mapping[str, int], script: str) -> str:
    text = source(name)
    exported = _EXPORT.findall(text)

    def constant(found: re.Match[str]) -> str:
        return f"const {{{found[1]}}} = $${numbers[_beside(name, found[2])]};\n" if found[1] else ""

    body = _IMPORT_LATER.sub(lambda found: f"import('{_address(script, _beside(name, found[1]))}')", _IMPORT.sub(constant, text))
    joined = OPERATOR.sub(r"\1", _LINE_THAT_GOES_ON.sub(r"\1", _EXPORT.sub("", body)))
    return f"// {name}\nconst $${numbers[name]} = (() => {{\n{joined}return {{ {', '.join(exported)} }};\n}})();\n"


def _beside(name: str, address: str) -> str:
    """Return the name of the module that another one imports."""
    return (WEB / name).parent.joinpath(address).resolve().relative_to(WEB.resolve()).as_posix()


def _address(script: str, other: str) -> str:
    """Return the address by which a script imports another one."""
    return f"./{'../' * script.count('/')}{other}"
