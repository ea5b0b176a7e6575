"""The first command on a fresh clone works on any day: the lock is installed as it is (C1), by the name for pip (C9)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from asterism.errors import MissingExtra

ROOT = Path(__file__).parents[2]
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "engine"
version = "1.0"
dependencies = ["models"]
"""
BACKEND = """\
import pathlib
import zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(pathlib.Path(folder, "engine-1.0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("engine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: engine\\nVersion: 1.0\\nRequires-Dist: models\\n")
        wheel.writestr("engine-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("engine-1.0.dist-info/RECORD", "")
    return "engine-1.0-py3-none-any.whl"
"""


def save_wheel(folder: Path, name: str, version: str, *lines: str) -> str:
    """Make a wheel without code; return its line of a lock."""
    path, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *lines]
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def make(folder: Path, target: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ASTERISM", "MAKE", "PYTHON", "VIRTUAL_ENV"))}
    command = ["make", f"PYTHON={Path(sys.executable).resolve()}", target]
    return subprocess.run(command, cwd=folder, env={**inherited, **variables}, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with our Makefile, and a project whose lock pins a package with an extra that has a newer release (google-auth)."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    save_wheel(wheels, "auth", "2.0", "Provides-Extra: requests", 'Requires-Dist: web ; extra == "requests"')
    lock = [
        save_wheel(wheels, "auth", "1.0", "Provides-Extra: requests", 'Requires-Dist: web ; extra == "requests"'),
        save_wheel(wheels, "models", "1.0", "Requires-Dist: auth[requests]"),
        save_wheel(wheels, "web", "1.0"),
    ]
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    files = {"requirements.lock": "".join(lock), "pyproject.toml": PROJECT, "backend.py": BACKEND}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def offline(clone: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(clone.parent / "wheels"), "PIP_CONFIG_FILE": os.devnull}


def test_make_installs_the_releases_of_the_lock_also_when_a_package_with_an_extra_has_a_newer_one(clone: Path) -> None:
    made = make(clone, ".venv/.ok", **offline(clone))
    assert made.returncode == 0, made.stdout + made.stderr
    listed = subprocess.run(
        [clone / ".venv/bin/python", "-m", "pip", "list", "--format=json", "--disable-pip-version-check"], capture_output=True, check=True
    )
    versions = {it["name"]: it["version"] for it in json.loads(listed.stdout)}
    assert {name: versions.get(name) for name in ("auth", "engine", "models", "web")} == dict.fromkeys(
        ("auth", "engine", "models", "web"), "1.0"
    )


@pytest.mark.slow
def test_make_refuses_a_lock_that_lacks_a_package_and_names_it(clone: Path) -> None:
    lock = clone / "requirements.lock"
    lock.write_text(
        "".join(it for it in lock.read_text(encoding="utf-8").splitlines(keepends=True) if not it.startswith("auth")), encoding="utf-8"
    )
    made = make(clone, ".venv/.ok", **offline(clone))
    assert made.returncode != 0
    assert "models 1.0 requires auth, which is not installed." in made.stdout
    assert made.stdout.splitlines()[-1] == "requirements.lock is not complete; compile it again: make lock"


def copy_of_the_clone(folder: Path) -> Path:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_make_demo_is_the_first_command_of_a_clone_with_the_real_lock(tmp_path: Path) -> None:
    clone = copy_of_the_clone(tmp_path / "asterism")
    (tmp_path / "home").mkdir()
    made = make(clone, "demo", HOME=str(tmp_path / "home"))
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    shutil.rmtree(clone)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_install_line_of_the_readme_works_and_the_advice_about_an_extra_adds_it(tmp_path: Path) -> None:
    copy_of_the_clone(tmp_path / "asterism")
    (line,) = re.findall(r"`(pip install '\./asterism\[.+?\]')`", (ROOT / "README.md").read_text(encoding="utf-8"))
    (advice,) = re.findall(r"pip install .+", str(MissingExtra("talk", "a number")))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    environment = {**os.environ, "PATH": f"{tmp_path / 'env/bin'}:{os.environ['PATH']}"}
    for command in (line, advice, "python -c 'import fastapi, text_to_num' && asterism --version && pip check"):
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    shutil.rmtree(tmp_path / "env")
