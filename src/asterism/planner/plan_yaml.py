"""YAML of plan files: as data, with every duplicate seen, and with bounds that are checked before anything is built of it."""

from __future__ import annotations

import re
from typing import Any

import yaml

from asterism.constellation.documents import MAX_TASKS
from asterism.errors import InvalidInput

MAX_ALIASES = 20
"""Aliases in a file; a few levels of them within each other would fill the memory."""

MAX_DEPTH = 200
"""Lists and objects within each other; the composer of libyaml recurses on the stack of C, and has no bound of its own."""

MAX_VALUES = 1_000_000
"""Lists, objects, names and values in a file: about ten seconds of building."""

try:
    from yaml import CSafeLoader as _Fastest  # libyaml: a tenth of the time for the events, a quarter for the values
except ImportError:  # PyYAML was built without it
    from yaml import SafeLoader as _Fastest  # type: ignore[assignment]


class _Loader(_Fastest):
    """YAML as data; a name that is there twice is refused, as in JSON."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise InvalidInput(f"{key.value!r} is there twice in one object; names and ids are unique")
        if isinstance(key, yaml.ScalarNode):
            seen.add(key.value)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


# YAML 1.1 takes on, off, yes and no for truth values, and a plan has a field `on`. As in YAML 1.2, only true and false are.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(text: str) -> Any:
    """Read YAML as data.

    Raises:
        InvalidInput: it is beyond one of the bounds, or has a name twice.
        yaml.YAMLError: it is not YAML.
    """
    _check_bounds(text)
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader


class _Open:
    """A list or an object that has begun: the name it stands under, and how many names and values were in it so far."""

    def __init__(self, name: str = "", *, named: bool = False) -> None:
        self.name, self.named, self.entries, self.last = name, named, 0, ""

    def take(self, event: yaml.Event) -> str:
        """Count a name or a value; returns the name that a value stands under."""
        self.entries += 1
        if self.named and self.entries % 2:
            self.last = event.value if isinstance(event, yaml.ScalarEvent) else ""
            return ""
        return self.last


def _check_bounds(text: str) -> None:
    """See that a file has no more aliases, depth, values and tasks than it may.

    Raises:
        InvalidInput: it has more.
    """
    aliases = values = 0
    opened = [_Open()]
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.NodeEvent):
            values += 1
            aliases += isinstance(event, yaml.AliasEvent)
            name = opened[-1].take(event)
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append(_Open(name, named=isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
        last = opened[-1]
        if aliases > MAX_ALIASES:
            raise InvalidInput(f"more than {MAX_ALIASES} aliases (*name); write it out")
        if len(opened) > MAX_DEPTH:
            raise InvalidInput(f"more than {MAX_DEPTH} lists and objects within each other")
        if values > MAX_VALUES:
            raise InvalidInput(f"more than {MAX_VALUES:,} names and values; write it as JSON")
        if last.name == "tasks" and last.entries > MAX_TASKS * (1 + last.named) and _holds_tasks(opened):
            raise InvalidInput(f"more than {MAX_TASKS} tasks in one plan")


def _holds_tasks(opened: list[_Open]) -> bool:
    """Whether the innermost is the tasks of the plan, alone or under ``constellation``."""
    return [it.name for it in opened[1:]] in (["", "tasks"], ["", "constellation", "tasks"])
