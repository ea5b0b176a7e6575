"""A plan file: JSON or YAML, read with every duplicate seen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.errors import InvalidInput

_NAMED_AS_FILE = re.compile(r"\S+\.(?:json|ya?ml)", re.IGNORECASE)


def plan_path(named: str) -> Path | None:
    """The plan file that a command line names; None where it is a request in words.

    Raises:
        InvalidInput: it looks like a file, and there is none.
    """
    path = Path(named)
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        return None
    if path.is_file():
        return path
    if _NAMED_AS_FILE.fullmatch(named):
        raise InvalidInput(f"{named}: there is no such plan file")
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
    except ValueError as error:
        raise InvalidInput(f"{path}: not JSON: {error}") from error


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
        if key.value in seen and isinstance(key, yaml.ScalarNode):
            raise InvalidInput(f"{key.value!r} is there twice in one object; names and ids are unique")
        if isinstance(key, yaml.ScalarNode):
            seen.add(key.value)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
