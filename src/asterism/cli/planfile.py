"""A plan file: JSON or YAML, read with every duplicate seen."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import yaml

from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.errors import InvalidInput

MAX_ALIASES = 20
"""Aliases in a YAML file; a few levels of them within each other would fill the memory."""

_NAMED_AS_FILE = re.compile(r"\S+\.(?:json|ya?ml)", re.IGNORECASE)


def plan_path(named: str) -> Path | None:
    """The plan file that a command line names; None where it is a request in words.

    Raises:
        InvalidInput: it looks like a file, and there is none.
    """
    path = Path(named)
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        return None
    with contextlib.suppress(OSError):  # a name too long for a file is no file
        if path.is_file():
            return path
    if _NAMED_AS_FILE.fullmatch(named):
        raise InvalidInput(f"{named}: there is no such plan file (looked in {Path.cwd()})")
    return None


def read_plan(path: Path) -> PlanDocument:
    """The plan in a file.

    Raises:
        InvalidInput: it cannot be read, is not JSON or YAML, or is not a plan; names the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text, object_pairs_hook=_object) if path.suffix.lower() == ".json" else _yaml(text)
        return parse_plan(value)
    except OSError as error:
        raise InvalidInput(f"{path}: the plan cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: it is not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise InvalidInput(f"{path}: too many lists and objects within each other") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:  # PyYAML lets some through for a tag that does not fit its value
        form = "JSON" if path.suffix.lower() == ".json" else "YAML"
        raise InvalidInput(f"{path}: not {form}: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidInput(f"{name!r} is there twice in one object; names and ids are unique")
        found[name] = value
    return found


class _Loader(yaml.SafeLoader):
    """YAML as data; a name that is there twice is refused, as in JSON."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
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


def _yaml(text: str) -> Any:
    if text.count("*") > MAX_ALIASES and sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)) > MAX_ALIASES:
        raise InvalidInput(f"more than {MAX_ALIASES} aliases (*name); write it out")
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
