"""Read the YAML of plan files: refuse duplicate names, and check bounds before building values."""

from __future__ import annotations

import re
from typing import Any

import yaml

from asterism.constellation.model.documents import MAX_TASKS
from asterism.errors import InvalidInput

MAX_ALIASES = 20
"""Maximum aliases in a file; a few levels of nested aliases would exhaust memory."""

MAX_DEPTH = 200
"""Maximum nesting of lists and objects: libyaml's composer recurses on the C stack, unbounded."""

MAX_VALUES = 1_000_000
"""Maximum lists, objects, names and values in a file: about ten seconds of building."""

try:
    from yaml import CSafeLoader as _Fastest  # libyaml: events in a tenth of the time, values in a quarter
except ImportError:  # PyYAML was built without it
    from yaml import SafeLoader as _Fastest  # type: ignore[assignment]


class _Loader(_Fastest):
    """Loader of plain data that refuses duplicate keys, as the JSON reader does."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise InvalidInput(f"duplicate name {key.value!r} in an object; names and ids are unique")
        if isinstance(key, yaml.ScalarNode):
            seen.add(key.value)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


# YAML 1.1 reads on, off, yes and no as booleans, and a plan has a field `on`. As in YAML 1.2, only
# true and false are booleans here.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(text: str) -> Any:
    """Return the data of a YAML document.

    Raises:
        InvalidInput: the text is not YAML, exceeds a bound or has a duplicate key.
    """
    try:
        _check_bounds(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or error
        raise InvalidInput(f"not YAML: {where}{' '.join(str(problem).split())}") from error


def yaml_text(value: Any) -> str:
    """Return plain data as a YAML document, in the order of its keys."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


class _Open:
    """An open list or object: its name in its parent, and the number of entries so far."""

    def __init__(self, name: str = "", *, named: bool = False) -> None:
        self.name, self.named, self.entries, self.last = name, named, 0, ""

    def count(self, event: yaml.Event) -> str:
        """Count a name or a value; return the name of a value, and "" for a name."""
        self.entries += 1
        if self.named and self.entries % 2:
            self.last = event.value if isinstance(event, yaml.ScalarEvent) else ""
            return ""
        return self.last


def _check_bounds(text: str) -> None:
    """Check the number of aliases, values and tasks, and the nesting depth.

    Raises:
        InvalidInput: one of them exceeds its bound.
    """
    aliases = values = 0
    opened = [_Open()]
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.NodeEvent):
            values += 1
            aliases += isinstance(event, yaml.AliasEvent)
            name = opened[-1].count(event)
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append(_Open(name, named=isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
        last = opened[-1]
        if aliases > MAX_ALIASES:
            raise InvalidInput(f"more than {MAX_ALIASES} aliases (*name); write the values out")
        if len(opened) > MAX_DEPTH:
            raise InvalidInput(f"more than {MAX_DEPTH} levels of nested lists and objects")
        if values > MAX_VALUES:
            raise InvalidInput(f"more than {MAX_VALUES:,} names and values; write the plan as JSON")
        if last.name == "tasks" and last.entries > MAX_TASKS * (1 + last.named) and _holds_tasks(opened):
            raise InvalidInput(f"more than {MAX_TASKS} tasks in one plan")


def _holds_tasks(opened: list[_Open]) -> bool:
    """Return True if the innermost collection is ``tasks`` of the plan or of ``constellation``."""
    return [it.name for it in opened[1:]] in (["", "tasks"], ["", "constellation", "tasks"])
