"""A condition: a yes-or-no question about a task's result, written in CEL.

CEL is the Common Expression Language (https://cel.dev), evaluated by cel-cpp; ``eval`` is never
used. The budget of cel-cpp counts the steps of macros (``exists`` and the like), but not the cost
of a step or an operator. Therefore the data that a condition may read and copy is bounded here. The
bounds count values, not time, so the result is the same on every machine.

A name that stands alone is a top-level field of the source's result; ``result``, ``status`` and
``tasks["id"]`` are always available, and ``params`` in a plan with parameters. A name that the
result lacks is an error wherever CEL needs its value, so the condition is not met;
``has(result.name)`` asks whether it is there.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from cel_expr_python import cel

from asterism.devices.model.references import PARAMS
from asterism.engine.kernel.phrase import Phrase, Text, phrase
from asterism.errors import InvalidInput

Facts = Mapping[str, Mapping[str, Any]]
"""``{task id: {"status": …, "result": …}}``."""

NOTHING: Mapping[str, Any] = {}

MAX_LENGTH = 1000
"""Characters of a condition; longer ones are refused."""

MAX_COPIES = 10
"""Number of ``+`` and ``bytes()`` in a condition, each of which may copy a whole text or list; none
with a macro."""
MAX_WORK = 20_000_000
"""Product of a condition's length and the values it may read: entries of lists and maps, and every
hundred characters. For each mention of some data, at most one operator goes through all of it."""
MAX_WORK_MACRO = 50_000
"""The same limit with a macro, which may go through all data at each step."""
MAX_WORK_SEARCH = 100_000
"""The same limit with a text search, which takes the product of both texts' lengths."""
MAX_WORK_MACRO_SEARCH = 10_000
"""The same limit with a text search in a macro; only one macro is allowed then."""
MAX_WORK_MATCH = 1_000_000
"""The same limit with ``matches``, divided by the counts in its pattern, by which RE2 repeats its
work."""
CHARACTERS_A_VALUE = 100
"""Characters of texts and keys that count as one value."""

_STATUS_CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_UNBOUND = re.compile(r"No value with name ")
_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")
# Strings (raw ones first) and comments in CEL, in which nothing is a name.
_STRINGS = re.compile(
    r"""[bB]?[rR](?:"{3}.*?"{3}|'{3}.*?'{3}|"[^"\r\n]*"|'[^'\r\n]*')"""
    r"""|[bB]?(?:"{3}(?:[^\\]|\\.)*?"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')"""
    r"""|(?P<comment>//[^\r\n]*)""",
    re.DOTALL,
)
_NAMES = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?!\w)(?!\s*\()")
_MACROS = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(")
_LOOP_NAMES = re.compile(_MACROS.pattern + r"\s*([A-Za-z_]\w*)\s*,")
_COPIES = re.compile(r"(?<![\d.][eE])\+|\bbytes\s*\(")  # but not the plus of 1e+5
_MATCHES = re.compile(r"\bmatches\s*\(")
_OF_NO_LITERAL = r'\s*\((?!\s*""\s*\))'
_MATCHES_UNKNOWN = re.compile(r"\bmatches" + _OF_NO_LITERAL)
_CONTAINS_UNKNOWN = re.compile(r"\bcontains" + _OF_NO_LITERAL)
_COUNTS = re.compile(r"\{(\d+),?(\d*)\}")
_MAX_COUNT = 1000  # of nested counts; RE2 allows no more
_MANY = re.compile(r"\\[0-7xXuUpP]")  # an escaped brace, or a class with many characters
_LEADING_DOT = re.compile(r"(?:^|[^\w)\]}\"`\s]|\bin)\s*\.\s*[A-Za-z_]")
_TASK_IDS = re.compile(r"""(?<![\w.])tasks\s*(?:\[\s*(?:"([^"]+)"|'([^']+)')\s*\]|\.\s*(\w+)(?!\w|\s*\())""")
_DOTTED_PARAMS = re.compile(rf"(?<![\w.]){PARAMS}\s*\.\s*(\w+)(?!\w|\s*\()")
_QUOTED_PARAMS = re.compile(rf"""(?<![\w.]){PARAMS}\s*\[\s*(?:"([^"]+)"|'([^']+)')\s*\]""")
_FIXED = frozenset({"result", "status", "tasks"})
_WORDS = frozenset({"true", "false", "null", "in"})
_TYPE_OF = re.compile(r"\btype\s*\(")
_SELECTED = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*(?:\.\s*[A-Za-z_]|\[)")
_TYPES = frozenset({"int", "uint", "double", "bool", "string", "bytes", "list", "map", "type", "null_type", "dyn"})


class InputCondition:
    """The compiled ``when`` of a task: a yes-or-no question about its own inputs, each a name.

    Args:
        text: CEL, at most ``MAX_LENGTH`` characters, of type bool (or dynamic).

    Attributes:
        names: names of the inputs that it uses, and ``params``.
        params: names of the parameters that it uses.

    Raises:
        InvalidInput: as for ``Condition``.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled = _compile(text, over_inputs=True)
        bare = _bare(text)
        self.names = _free_names(bare)
        self.params = _param_names(text, bare)
        self._most = _most(text, bare)

    def evaluate(self, inputs: Mapping[str, Any], params: Mapping[str, Any] = NOTHING) -> tuple[bool, Text]:
        """Evaluate over the inputs by name, as ``Condition.evaluate`` does; an input named ``params`` comes before the parameters."""
        data = _used(params, self) | {name: inputs[name] for name in self.names if name in inputs}
        return _decide(self, self._compiled, data, self._most, phrase("no_input", names=sorted(self.names - data.keys())))


class Condition:
    """A compiled condition.

    Args:
        text: CEL, at most ``MAX_LENGTH`` characters, of type bool (or dynamic).

    Attributes:
        names: free names: fields of the result, and ``result``, ``status``, ``tasks``.
        selected: those of which it uses a field or an item, as in ``name.field``.
        params: names of the parameters it uses.
        task_ids: ids of the tasks it names as ``tasks["id"]`` or ``tasks.id``.
        refers_to_status: True if it uses the status of its source.

    Raises:
        InvalidInput: the text does not parse, is too long, copies or searches too much, or is not a
            yes-or-no question.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled = _compile(text)
        bare = _bare(text)
        self.names = _free_names(bare)
        self.selected = self.names & frozenset(_SELECTED.findall(bare))
        self.params = _param_names(text, bare)
        self.task_ids = frozenset("".join(spelled) for spelled in _TASK_IDS.findall(text))
        self._most = _most(text, bare)
        self.refers_to_status = re.search(r"(?<![\w.])status(?!\w)", bare) is not None

    @property
    def fields(self) -> frozenset[str]:
        """Return the result fields it names, to check against a known output of the skill."""
        return self.names - _FIXED

    def evaluate(self, result: Any, status: str, ancestors: Facts, params: Mapping[str, Any] = NOTHING) -> tuple[bool, Text]:
        """Evaluate the condition on the result and status of its source, and on its target's ancestors.

        ``params`` are the values of the plan's parameters; in a plan without any, ``params`` is a field of the result.

        Returns:
            ``(met, reason)``; the reason is empty if the condition is met. An error of the data is
            a reason, and is never raised.
        """
        fields = result if isinstance(result, dict) else {}
        tasks = {it: ancestors[it] for it in self.task_ids if it in ancestors} if self.task_ids else ancestors
        data = {name: fields[name] for name in self.fields if name in fields} | _used(params, self)
        data |= {"result": result, "status": status, "tasks": tasks}
        missing = sorted(self.fields - data.keys())
        why = phrase("no_result_field", names=missing, first=missing[0]) if missing else None
        if missing == [PARAMS] and self.params:
            why = phrase("no_params")
        return _decide(self, self._compiled, data, self._most, why)


def _decide(
    asked: Condition | InputCondition, compiled: Any, data: Mapping[str, Any], most: int, missing: Phrase | None
) -> tuple[bool, Text]:
    """Return if a condition is met, else the reason; ``missing`` is the reason if it needs a name that is not there."""
    if _has_more([data[name] for name in asked.names if name in data], most):
        return False, phrase("condition_too_wide", condition=asked.text, most=most)
    try:
        value = compiled.eval(data=data)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        return False, phrase("condition_error", condition=asked.text, why=_words(error))
    if value.type() == cel.Type.ERROR:
        is_missing = _UNBOUND.search(str(value.value()))
        return False, phrase("condition_error", condition=asked.text, why=(missing or "") if is_missing else _words(value.value()))
    if value.type() != cel.Type.BOOL:
        return False, phrase("condition_type", condition=asked.text, type=value.type().name())
    if value.value():
        return True, ""
    named = asked.fields if isinstance(asked, Condition) else asked.names
    shown = {name: data[name] for name in named if name in data}
    if asked.params and isinstance(shown.get(PARAMS), Mapping):
        used = shown.pop(PARAMS)
        shown |= {f"{PARAMS}.{name}": used[name] for name in asked.params if name in used}
    values = [phrase("value_is", name=name, value=_short(shown[name])) for name in sorted(shown)]
    return False, phrase("condition_false", condition=asked.text, values=values)


def _used(params: Mapping[str, Any], asked: Condition | InputCondition) -> dict[str, Any]:
    """Return the parameters that a condition uses, under their name in conditions; nothing if it uses none."""
    if not params or PARAMS not in asked.names:
        return {}
    return {PARAMS: {name: params[name] for name in asked.params if name in params} if asked.params else dict(params)}


def _has_more(values: list[Any], most: int) -> bool:
    """Return True if these are more than ``most`` values, including nested ones."""
    pending, found = values, 0.0
    while pending:  # bounded by the number of values found
        value = pending.pop()
        found += 1
        if isinstance(value, str):
            found += len(value) / CHARACTERS_A_VALUE
        elif isinstance(value, Mapping):
            found += sum(map(len, value)) / CHARACTERS_A_VALUE
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        if found + len(pending) > most:
            return True
    return False


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value)[:60]


def _bare(text: str) -> str:
    """Return the condition without comments, and with all strings empty."""
    return _STRINGS.sub(lambda found: " " if found["comment"] else '""', text)


def _most(text: str, bare: str) -> int:
    """Return the number of values that a condition may read: at least 2, for a short text."""
    macro, matches = _MACROS.search(bare) is not None, _MATCHES.search(bare) is not None
    searches = matches or _CONTAINS_UNKNOWN.search(bare) is not None
    counts = _counts(text) if matches else 1
    works = [MAX_WORK]
    if macro:
        works.append(MAX_WORK_MACRO)
    if searches:
        works.append(MAX_WORK_SEARCH)
    if matches:
        works.append(MAX_WORK_MATCH // counts)
    if macro and searches:
        works.append(MAX_WORK_MACRO_SEARCH // counts)
    return max(min(works) // len(text), 2)


def _counts(text: str) -> int:
    """Return the product of the counts in a pattern, such as ``{3}`` or ``{1,20}``."""
    if _MANY.search(text):
        return _MAX_COUNT
    product = 1
    for low, high in _COUNTS.findall(text):
        product = min(product * max(int(low), int(high or 1), 1), _MAX_COUNT)
    return product


def _free_names(bare: str) -> frozenset[str]:
    loops = set(_LOOP_NAMES.findall(bare)) - _FIXED
    return frozenset(name for name in _NAMES.findall(bare) if name not in _WORDS and name not in _TYPES and name not in loops)


def _param_names(text: str, bare: str) -> frozenset[str]:
    quoted = ("".join(spelled) for spelled in _QUOTED_PARAMS.findall(text))
    return frozenset((*_DOTTED_PARAMS.findall(bare), *quoted))


def _words(error: object) -> str:
    first = str(error).partition("\n")[0]
    return _STATUS_CODE.sub("", first)[:300]


def type_names(text: str) -> list[str]:
    """Return the names of CEL's types that a condition has as values; none if it compares types, as with ``type(x) == int``."""
    bare = _bare(text)
    return [] if _TYPE_OF.search(bare) else [name for name in _NAMES.findall(bare) if name in _TYPES]


def syntax_error(text: str, *, over_inputs: bool = False) -> str:
    """Return in words why a condition does not parse; empty if it does, or if the compiler's words suffice."""
    try:
        _compile(text, over_inputs=over_inputs)
    except InvalidInput as error:
        found = _SYNTAX.search(str(error))
        if found is None:
            return ""
        place, odd = f"at character {found['column']}", found["odd"].strip()
        if found["missing"]:
            why = f"{found['missing']} is missing {'at its end' if odd == '<EOF>' else place}"
        elif odd == "<EOF>":
            why = "it ends too early"
        else:
            why = f"{odd!r} {place} is not expected there"
        hint = _MEANT.get(odd) or next((hint for word, hint in _MEANT.items() if re.search(rf"\b{re.escape(word)}\b", text)), "")
        return f"the condition {text!r} does not parse: {why}{hint}"
    return ""


_SYNTAX = re.compile(
    r":\d+:(?P<column>\d+): Syntax error: (?:missing (?P<missing>'[^']*') at|extraneous input|mismatched input|token recognition error at:)"
    r" '(?P<odd>.*?)'(?: expecting|$)"
)
_MEANT = {"=": "; == compares", "and": "; CEL writes &&", "or": "; CEL writes ||", "not": "; CEL writes !"}
"""Hints for what other languages write, by the text that CEL does not expect."""


@functools.lru_cache(maxsize=4096)
def _compile(text: str, *, over_inputs: bool = False) -> Any:
    """Compile a condition with every free name declared dynamic, as there is no result yet.

    Over inputs, no name is fixed: ``result`` and ``status`` are inputs like any other.
    """
    if not text.strip():
        raise InvalidInput("a condition is empty; a CONDITIONAL dependency needs one, such as `accuracy > 0.95`")
    if len(text) > MAX_LENGTH or _UNPRINTABLE.search(text):
        raise InvalidInput(f"a condition may have {MAX_LENGTH} printable characters; this one starts with {text[:40]!r}")
    bare = _bare(text)
    if _LEADING_DOT.search(bare):
        raise InvalidInput(f"the condition {text[:80]!r} has a name that begins with a dot; write the name alone")
    if _MATCHES_UNKNOWN.search(bare):
        raise InvalidInput(
            f'a condition gives matches() its pattern as one text in quotes: name.matches("^v[0-9]"); this one is {text[:80]!r}'
        )
    if len(_MACROS.findall(bare)) > 1 and (_MATCHES.search(bare) or _CONTAINS_UNKNOWN.search(bare)):
        raise InvalidInput(f"a condition with matches(), or contains() of a name, has one macro at most; this one is {text[:80]!r}")
    if _MACROS.search(bare) and _COPIES.search(bare):
        raise InvalidInput(
            f"condition {text[:80]!r}: + and bytes() cannot be combined with all, exists, exists_one, filter or map; remove one of them"
        )
    if len(_COPIES.findall(bare)) > MAX_COPIES:
        raise InvalidInput(f"a condition has {MAX_COPIES} + or bytes() at most; this one starts with {text[:40]!r}")
    variables = dict.fromkeys(sorted(_free_names(bare) | _FIXED), cel.Type.DYN)
    if not over_inputs:
        variables["status"] = cel.Type.STRING
    try:
        compiled = cel.NewEnv(variables=variables).compile(text)
    except RuntimeError as error:
        raise InvalidInput(f"the condition {text!r} does not parse: {_words(error)}") from None
    if compiled.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise InvalidInput(f"the condition {text!r} is {compiled.return_type().name()}, not yes or no")
    return compiled
