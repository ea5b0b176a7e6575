"""The package of ``examples/hot_folder`` as it is when installed, and an instrument that takes its jobs.

``python hot_folder.py FOLDER`` is the instrument. It has the programs of the contract of remote devices.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2] / "examples" / "hot_folder"
RESULTS: dict[str, tuple[float, Any]] = {"answer": (0.0, {"answer": 42}), "slow": (2.0, {"slow": True}), "large": (0.0, "x" * 2_000_000)}
"""By program, the seconds that it takes, and its result; any other program never ends."""


def installed(site: Path) -> Path:
    """Install the package into a folder, as an installer does: its module, and its metadata with the entry points."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8")
    points = [(group, name, value) for group, values in project["entry-points"].items() for name, value in values.items()]
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{name} = {value}\n" for group, name, value in points), encoding="utf-8")
    shutil.copy(PACKAGE / "asterism_hot_folder.py", site)
    return site


@contextmanager
def instrument(folder: Path) -> Iterator[None]:
    """Run an instrument on a folder."""
    folder.mkdir(exist_ok=True)
    with subprocess.Popen([sys.executable, __file__, str(folder)]) as process:
        try:
            yield
        finally:
            process.kill()


def begun(folder: Path) -> list[str]:
    """Return the names of the jobs that the instrument has begun, in order."""
    file = folder / "begun.txt"
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def serve(folder: Path) -> None:
    """Take jobs from a folder, several at a time, for ever."""
    ends: dict[str, tuple[float, Any]] = {}
    for _ in itertools.count():
        for job in folder.glob("*.job"):
            if job.stem not in ends:
                with (folder / "begun.txt").open("a", encoding="utf-8") as file:
                    file.write(f"{job.stem}\n")
                takes_s, result = RESULTS.get(json.loads(job.read_text(encoding="utf-8"))["skill"], (float("inf"), None))
                ends[job.stem] = time.monotonic() + takes_s, {"result": result}
        for name, (at, answer) in ends.items():
            is_stopped = (folder / f"{name}.stop").exists()
            if (is_stopped or time.monotonic() >= at) and not (folder / f"{name}.done").exists():
                draft = folder / f"{name}.draft"
                draft.write_text(json.dumps({"error": "it was stopped"} if is_stopped else answer), encoding="utf-8")
                draft.rename(folder / f"{name}.done")
        time.sleep(0.02)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
