"""The name for pip, and a lock that is complete (C1, C9)."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from asterism.errors import DISTRIBUTION, MissingExtra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
TEXTS = sorted(
    [path for folder in ("src", "docs", "examples", "tests", "benchmarks") for path in ROOT.glob(f"{folder}/**/*") if path.is_file()]
    + [*ROOT.glob("*.md")]
)
_INSTALL = re.compile(r"""\bpip3?\s+install\s+(?:--?[a-z-]+\s+)*['"]?([^\s'"`]+)""")
_WITH_EXTRAS = re.compile(r"(?<![\w./])(asterism[\w-]*)\[([a-z0-9,]+)\]")


def texts() -> list[tuple[Path, str]]:
    return [
        (path, path.read_text(encoding="utf-8", errors="replace"))
        for path in TEXTS
        if path.suffix in (".md", ".py", ".toml") and path != Path(__file__)
    ]


def test_every_pip_install_of_asterism_names_the_distribution_of_pyproject_or_a_clone() -> None:
    found = [(path, name.replace("\\", "")) for path, text in texts() for name in _INSTALL.findall(text)]  # tests have patterns
    ours = [(path, name) for path, name in found if "asterism" in name or name.startswith(("./", "{"))]
    assert len(ours) > 20
    accepted = re.compile(rf"{PROJECT['name']}(\[.+\])?|\./asterism(\[.+\])?|\./examples/\w+|git\+https://.+|{{DISTRIBUTION}}\[{{extra}}\]")
    assert [(str(path.relative_to(ROOT)), name) for path, name in ours if not accepted.fullmatch(name)] == []


def test_every_extra_that_a_text_names_exists_and_belongs_to_the_distribution() -> None:
    named = [(path, *found) for path, text in texts() for found in _WITH_EXTRAS.findall(text)]
    wrong = [it for it in named if it[1] != PROJECT["name"] or not set(it[2].split(",")) <= {*EXTRAS, "extra"}]
    assert wrong == []


def test_the_advice_about_a_missing_extra_names_the_distribution_that_is_installed() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert importlib.metadata.version(DISTRIBUTION) == PROJECT["version"]
    assert str(MissingExtra("llm", "model m")) == f"model m needs an extra: pip install '{PROJECT['name']}[llm]'"


def pins() -> dict[str, str]:
    lines = re.findall(r"^[\w.-]+==.+(?= \\$)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    here = [it for it in map(Requirement, lines) if it.marker is None or it.marker.evaluate()]
    return {canonicalize_name(it.name): str(it.specifier).removeprefix("==") for it in here}


def locked_extras() -> list[str]:
    return re.findall(r"--extra (\w+)", (ROOT / "Makefile").read_text(encoding="utf-8"))


def test_the_lock_is_compiled_with_every_extra_but_the_keyring() -> None:
    assert sorted(locked_extras()) == sorted({*EXTRAS} - {"keyring"})


def test_the_lock_has_all_that_its_packages_need_also_by_their_extras() -> None:
    locked, missing, seen = pins(), [], set()
    left = [Requirement(text) for text in [*PROJECT["dependencies"], *(it for extra in locked_extras() for it in EXTRAS[extra])]]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name not in locked or not requirement.specifier.contains(locked[name], prereleases=True):
            missing.append(str(requirement))
            continue
        for extra in ["", *requirement.extras]:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            needed = [Requirement(text) for text in importlib.metadata.requires(name) or []]
            left += [it for it in needed if it.marker is None or it.marker.evaluate({"extra": extra})]
    assert len(seen) > 100
    assert missing == []


@pytest.mark.parametrize("line", ["pip install 'asterism[llm]'", 'pip install --upgrade "asterism"', "pip install asterism[server]"])
def test_the_old_name_would_be_found(line: str) -> None:
    assert _INSTALL.findall(line)[0].partition("[")[0] == "asterism"
