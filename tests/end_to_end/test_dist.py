"""The wheel in a bare environment, without a clone, on every Python that the classifiers name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.pages.blocks import Session, blocks_of
from tests.pages.test_pages import check

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [version for name in PROJECT["classifiers"] for version in re.findall(r":: (3\.\d+)$", name)]
PLAN = """\
import asterism
from asterism import Constellation, skill

@skill(idempotent=True)
def double(number: int) -> int:
    return 2 * number

twice = Constellation("twice", params={"number": int})
first = twice.task(double, number=twice.params.number)
twice.task(double, number=first)

if __name__ == "__main__":
    print(asterism.run(twice, number=5).outcome)
"""
FLEET = '[[devices]]\nid = "desk"\nskills = ["twice.py:double"]\n'
LOOP = '[[steps]]\nworker = "echo"\nintent = "a heron"\n\n[workers.echo]\nfunction = "echo.py:echo"\n'
ECHO = "async def echo(handoff):\n    return handoff.intent\n"
AGENT = '''\
from asterism import AgentStatus, InputField, StandardAgent, flowagent

@flowagent(triggers=["trip"])
class Trip(StandardAgent):
    """Book a trip."""

    days: int = InputField("How many days?")

    async def on_running(self, msg):
        return self.make_result(AgentStatus.COMPLETED, raw_message=f"{self.days} days")
'''


def python_of(version: str) -> str | None:
    """Return a Python of this version: on the path, or one of pyenv."""
    found = [shutil.which(f"python{version}"), *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for python in filter(None, found):
        done = subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True, check=False)
        if done.returncode == 0:
            return python
    return None


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_its_license_and_its_types(dist: Path) -> None:
    with zipfile.ZipFile(wheel_of(dist)) as wheel:
        names = set(wheel.namelist())
        metadata = next(wheel.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert {name.removeprefix("src/") for name in listed} - names == set()
    assert "asterism/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert "License-Expression: Apache-2.0" in metadata
    assert f"Requires-Python: {PROJECT['requires-python']}" in metadata


@pytest.mark.slow
def test_the_source_archive_builds_the_same_wheel_and_has_what_the_pages_name(dist: Path, tmp_path: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")],
        cwd=root,
        check=True,
        capture_output=True,
    )
    assert wheel_of(tmp_path / "again").read_bytes() == wheel_of(dist).read_bytes()
    listed = subprocess.run(
        ["git", "ls-files", "docs", "examples", "tests"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert [
        name for name in [*listed, "README.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "requirements.lock"] if not (root / name).exists()
    ] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_alone_runs_plans_loops_and_conversations(version: str, dist: Path, tmp_path: Path) -> None:
    python = python_of(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"ASTERISM_DATABASE": str(tmp_path / "runs.db"), "PATH": f"{tmp_path / 'env' / 'bin'}:{os.environ['PATH']}"}

    def do(*command: str, typed: str = "") -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, input=typed, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    do(python, "-m", "venv", "env")
    do("env/bin/pip", "install", "--quiet", "--disable-pip-version-check", str(wheel_of(dist)))
    files = {"twice.py": PLAN, "fleet.toml": FLEET, "loop.toml": LOOP, "echo.py": ECHO, "trip.py": AGENT}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    assert do("asterism", "--version").strip() == PROJECT["version"]
    assert " run " in do("asterism", "--help")
    assert "complete -o default" in do("asterism", "completion", "bash")
    for kind in ("plan", "fleet", "loop"):
        assert json.loads(do("asterism", "schema", kind))["$schema"]
    assert do("env/bin/python", "twice.py").strip() == "finished"
    assert "FINISH: finished" in do("asterism", "run", "twice.py", "--set", "number=4")
    assert "FINISH: finished" in do("asterism", "run", "double number 21 on desk", "--fleet", "fleet.toml")
    assert "a heron" in do("asterism", "loop", "run", "loop.toml", "look")
    assert "3 days" in do("asterism", "chat", "trip.py", typed="book a trip\nthree\nyes\n")
    do("env/bin/python", "-c", "import asterism.testing.world")
    shutil.rmtree(tmp_path / "env")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_of_the_first_server_runs_with_the_wheel_alone(dist: Path, tmp_path: Path) -> None:
    page = ROOT / "docs/tutorials/first-server.md"
    text = page.read_text(encoding="utf-8")
    (named,) = re.findall(r"Asterism with the extras `(\w+)` and `(\w+)`", text)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    install = [str(tmp_path / "env/bin/pip"), "install", "--quiet", "--disable-pip-version-check", f"{wheel_of(dist)}[{','.join(named)}]"]
    subprocess.run(install, check=True)
    (tmp_path / "home").mkdir()
    with closing(Session(tmp_path / "home", tmp_path / "env/bin/python")) as session:
        check(session, blocks_of(text), page)
    shutil.rmtree(tmp_path / "env")
