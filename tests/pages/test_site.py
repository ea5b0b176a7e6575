"""The site: it is built without a warning, and has what is made from the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import asterism
from asterism.cli import app
from tests.pages.blocks import ROOT
from tests.pages.test_pages import PAGES

URL = re.compile(r"https?://[^\s)>\"'`]+")


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "-q", "-c", str(ROOT / "docs"), str(source), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_site_is_built_and_has_every_command_and_every_public_name(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    commands, names, machines = (
        (tmp_path / "docs" / f"{page}.html").read_text(encoding="utf-8") for page in ("commands", "python", "machines")
    )
    assert [name for name in app if not name.startswith("-") and f'id="asterism-{name}"' not in commands] == []
    assert [name for name in asterism._HOME_OF if f'id="asterism.{name}"' not in names] == []
    assert (machines.count("<svg viewBox"), "stateDiagram" in machines) == (4, False)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["[x](none.md)", "[x](index.md#none)", "[x](../README.md)"])
def test_a_broken_link_fails_the_build(link: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Pages\n\n{link}\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert "myst.xref_missing" in done.stderr


def test_an_address_on_a_page_is_well_formed() -> None:
    addresses = {address.rstrip(".,;:") for page in PAGES for address in URL.findall(page.read_text(encoding="utf-8"))}
    assert [it for it in addresses if not re.fullmatch(r"https?://(?:[\w.-]+|\[::1\])(:\d+)?(/[\w./#?=&%~+@:{}$…-]*)?|https://…", it)] == []
