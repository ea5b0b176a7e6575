"""Kinds of devices by name: a package is imported when its kind is looked up, and not before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from asterism.devices.fleet.fleet_file import read_fleet
from asterism.devices.kinds.registry import KINDS, DeviceKinds
from asterism.errors import InvalidInput


def package(site: Path, name: str, module: str, *, kind: str = "toaster") -> None:
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[asterism.devices]\n{kind} = {name}_kind:TOASTER\n", encoding="utf-8")
    (site / f"{name}_kind.py").write_text(module, encoding="utf-8")


GOOD = "from asterism.devices.kinds.local import LOCAL as TOASTER\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def test_names_of_installed_kinds_are_known_without_an_import(site: Path) -> None:
    package(site, "one", GOOD)
    kinds = DeviceKinds(KINDS)
    assert list(kinds) == ["local", "ssh", "mcp", "a2a", "toaster"]
    assert len(kinds) == 5
    assert kinds["local"] is KINDS["local"]
    assert "grill" not in kinds
    assert "one_kind" not in sys.modules
    assert kinds["toaster"] is KINDS["local"]
    assert "one_kind" in sys.modules


def test_an_unknown_kind_of_a_fleet_is_refused_with_those_that_are_installed(site: Path, tmp_path: Path) -> None:
    package(site, "two", GOOD)
    fleet = tmp_path / "fleet.toml"
    fleet.write_text("[[devices]]\nid = 'a'\nkind = 'grill'\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"unknown kind 'grill'; allowed: a2a, local, mcp, ssh, toaster$"):
        read_fleet(fleet, DeviceKinds(KINDS))
    assert "two_kind" not in sys.modules


def test_no_package_replaces_a_built_in_kind(site: Path) -> None:
    package(site, "three", GOOD, kind="ssh")
    assert DeviceKinds(KINDS)["ssh"] is KINDS["ssh"]
    assert "three_kind" not in sys.modules


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("raise OSError('no camera')", "does not import: OSError: no camera"),
        ("", "does not import: AttributeError: "),
        ("TOASTER = 1", "is no DeviceKind but a int"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(site: Path, module: str, problem: str) -> None:
    sys.modules.pop("four_kind", None)
    package(site, "four", module)
    with pytest.raises(InvalidInput, match=f"the kind 'toaster' of an installed package, four_kind:TOASTER, {problem}"):
        DeviceKinds(KINDS)["toaster"]


def test_two_packages_with_the_same_kind_are_refused(site: Path) -> None:
    package(site, "five", GOOD)
    package(site, "six", GOOD)
    with pytest.raises(InvalidInput, match="2 installed packages have the kind 'toaster': five_kind:TOASTER, six_kind:TOASTER; remove one"):
        DeviceKinds(KINDS)["toaster"]
