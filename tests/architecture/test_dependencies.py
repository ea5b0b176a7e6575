"""What the source imports and what the distribution declares, by extra (D8)."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "asterism"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

DISTRIBUTIONS = {
    "a2a": "a2a-sdk",
    "cel_expr_python": "cel-expr-python",
    "google.protobuf": "protobuf",
    "jwt": "pyjwt",
    "mcp_types": "mcp-types",
    "opentelemetry": "opentelemetry-api",
    "opentelemetry.exporter.prometheus": "opentelemetry-exporter-prometheus",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "pydantic_ai": "pydantic-ai-slim",
    "text_to_num": "text2num",
    "yaml": "pyyaml",
}
"""For each module whose distribution has another name, that name. The longest module that fits counts."""
EXTRAS = {
    "devices/kinds/a2a": ("a2a",),
    "devices/kinds/mcp": ("mcp", "llm"),
    "devices/attempts/secrets.py": ("keyring",),
    "devices/kinds/ssh": ("ssh",),
    "conversation/python/models.py": ("llm",),
    "loop/python/conversation.py": ("llm",),
    "service/notifications": ("notify",),
    "constellation/planner/editor.py": ("server",),
    "constellation/planner/model.py": ("llm",),
    "constellation/planner/model_conversation.py": ("llm",),
    "constellation/planner/recording.py": ("llm",),
    "words/reading/number_words.py": ("talk",),
    "service/schedules/cron.py": ("server",),
    "service/api": ("server",),
    "service/http_connection.py": ("client", "server"),
    "service/listener.py": ("server",),
    "service/remote_app.py": ("client", "server"),
    "service/service.py": ("server",),
    "testing/loop.py": ("llm",),
    "testing/pipeline.py": ("llm",),
    "testing/pytest_plugin.py": ("dev",),  # pytest imports it
    "stores/file_contents.py": ("files",),
}
"""For each file or folder that needs an extra, the extras of which each one must suffice."""


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower()


BASE = {_name(it) for it in PROJECT["dependencies"]}
DECLARED = {extra: BASE | {_name(it) for it in given} for extra, given in PROJECT["optional-dependencies"].items()}


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _distribution(module: str) -> str:
    parts = module.split(".")
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((DISTRIBUTIONS[it] for it in prefixes if it in DISTRIBUTIONS), parts[0])


def _needed() -> dict[str, set[str]]:
    """Return for each file its distributions, without those of the standard library."""
    found: dict[str, set[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        modules = [it for it in _imports(file) if it.partition(".")[0] not in {*sys.stdlib_module_names, "asterism"}]
        found[file.relative_to(PACKAGE).as_posix()] = {_distribution(it) for it in modules}
    return found


def _extras(file: str) -> tuple[str, ...]:
    return next((extras for place, extras in EXTRAS.items() if file == place or file.startswith(f"{place}/")), ())


def test_everything_that_is_imported_is_declared_by_the_extra_that_installs_it() -> None:
    """D8."""
    missing = {
        f"{file} ({extra or 'always'})": sorted(needs - (DECLARED[extra] if extra else BASE))
        for file, needs in _needed().items()
        for extra in _extras(file) or ("",)
    }
    assert {where: names for where, names in missing.items() if names} == {}


def test_a_distribution_whose_private_modules_are_imported_has_an_upper_bound() -> None:
    """D8: the listener extends the protocol of uvicorn, which may change with each of its minor releases."""
    (uvicorn,) = (it for it in PROJECT["optional-dependencies"]["server"] if _name(it) == "uvicorn")
    assert re.fullmatch(r"uvicorn>=0\.(\d+),<0\.\d+", uvicorn)


@pytest.mark.parametrize("place", sorted(EXTRAS))
def test_each_place_that_needs_an_extra_exists(place: str) -> None:
    assert (PACKAGE / place).exists()
