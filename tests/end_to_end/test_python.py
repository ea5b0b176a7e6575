"""Programs of users that run constellations in Python: at the command line, killed and resumed, and type-checked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.end_to_end import command

WITHIN_S = 60.0
NIGHTLY = """
import asterism
from asterism import Constellation, Param, skill


@skill(idempotent=True)
def download(url: str) -> list[str]:
    return [f"{url}/{number}" for number in range(3)]


def count(files: list[str]) -> int:
    return len(files)


nightly = Constellation("nightly", params={"url": Param(default="http://x")})
files = nightly.task(download, url=nightly.params.url)
nightly.task(count, files=files)
"""
MAIN = """
if __name__ == "__main__":
    print(asterism.run(nightly).results["count"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nightly.py").write_text(NIGHTLY + MAIN, encoding="utf-8")
    return tmp_path


def do(folder: Path, *arguments: str, environment: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a folder, on a database there."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "ASTERISM_DATABASE": str(folder / "runs.db"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def asterism(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command.run(arguments, env={**os.environ, "ASTERISM_DATABASE": str(folder / "runs.db")}, cwd=folder, timeout=WITHIN_S)


def test_a_script_runs_its_constellation_from_any_folder(folder: Path) -> None:
    for where, named in ((folder, "nightly.py"), (folder.parent, f"{folder.name}/nightly.py")):
        done = do(where, named, environment={"ASTERISM_DATABASE": str(folder / "runs.db")})
        assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def test_the_commands_run_and_plan_take_a_constellation_from_a_file(folder: Path) -> None:
    done = asterism(folder, "run", "nightly.py:nightly")
    assert "FINISH: finished" in done.stdout, done.stderr
    assert '["http://y/0"' in asterism(folder, "run", "nightly.py:nightly", "--set", "url=http://y").stdout
    (folder / "plan.json").write_text(asterism(folder, "plan", "nightly.py:nightly", "--json").stdout, encoding="utf-8")
    assert "2 tasks: 2 completed" in asterism(folder, "run", "plan.json").stdout
    assert "2 tasks: 2 completed" in asterism(folder.parent, "run", f"{folder.name}/nightly.py:nightly").stdout
    refused = asterism(folder, "plan", "nightly.py:nigtly")
    assert (refused.returncode, refused.stderr) == (2, "asterism: nightly.py: there is no nigtly; did you mean nightly?\n")


def test_a_script_that_would_run_itself_again_when_it_is_imported_is_refused_in_one_line(folder: Path) -> None:
    (folder / "nightly.py").write_text(NIGHTLY + "print(asterism.run(nightly).results)\n", encoding="utf-8")
    why = 'nightly.py: it starts a run when it is imported; put that code under `if __name__ == "__main__":`'
    assert do(folder, "nightly.py").stderr.rstrip().endswith(f"asterism.errors.InvalidInput: nightly.py:download: {why}")
    assert asterism(folder, "run", "nightly.py:nightly").stderr == f"asterism: {why}\n"


def test_a_package_whose_modules_import_each_other_is_run_as_a_module_and_as_a_file(tmp_path: Path) -> None:
    package = tmp_path / "acme" / "jobs"
    package.mkdir(parents=True)
    for part in (package.parent, package):
        (part / "__init__.py").touch()
    (package / "steps.py").write_text("from acme.words import WORD\n\n\ndef say() -> str:\n    return WORD\n", encoding="utf-8")
    (package.parent / "words.py").write_text('WORD = "hello"\n', encoding="utf-8")
    program = "import asterism\nfrom acme.jobs.steps import say\n\nit = asterism.Constellation('it')\nit.task(say)\n"
    main = "if __name__ == '__main__':\n    print(asterism.run(it).results)\n"
    (package / "it.py").write_text(program + main, encoding="utf-8")
    (tmp_path / "main.py").write_text(program + main, encoding="utf-8")
    assert do(tmp_path, "-m", "acme.jobs.it").stdout == "{'say': 'hello'}\n"
    database = {"ASTERISM_DATABASE": str(tmp_path / "runs.db")}
    assert do(tmp_path.parent, f"{tmp_path.name}/main.py", environment=database).stdout == "{'say': 'hello'}\n"
    assert do(package, str(tmp_path / "main.py"), environment=database).stdout == "{'say': 'hello'}\n"
    assert "1 task: 1 completed" in asterism(tmp_path, "run", "acme.jobs.it:it").stdout


def test_the_plan_of_a_run_can_be_written_as_a_plan_file_and_run_again(folder: Path) -> None:
    run = asterism(folder, "run", "nightly.py:nightly").stdout.split()[1]
    (folder / "again.json").write_text(asterism(folder, "show", run, "--plan").stdout, encoding="utf-8")
    assert (folder / "again.json").read_text(encoding="utf-8") == asterism(folder, "plan", "nightly.py:nightly", "--json").stdout
    assert "2 tasks: 2 completed" in asterism(folder, "run", "again.json").stdout
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    database = {"ASTERISM_DATABASE": str(folder / "runs.db")}
    shown = do(elsewhere, "-m", "asterism.cli", "show", run, "--plan", environment=database).stdout
    assert f'"skill": "{folder}/nightly.py:download"' in shown
    (elsewhere / "again.json").write_text(shown, encoding="utf-8")
    assert (
        "2 tasks: 2 completed" in do(folder.parent, "-m", "asterism.cli", "run", str(elsewhere / "again.json"), environment=database).stdout
    )


def test_a_python_file_means_its_only_constellation_and_may_have_spaces_in_its_name(folder: Path) -> None:
    (folder / "two words.py").write_text(NIGHTLY + "\nalias = nightly\n", encoding="utf-8")
    for named in ("two words.py", "two words.py:nightly", "nightly.py"):
        assert "2 tasks: 2 completed" in asterism(folder, "run", named, "--set", "url=http://y").stdout
    (folder / "several.py").write_text(NIGHTLY + "\nother = Constellation('other')\n", encoding="utf-8")
    (folder / "none.py").write_text("", encoding="utf-8")
    for named, why in (
        ("several.py", "several.py has 2 constellations; name one: several.py:nightly, several.py:other"),
        ("none.py", "none.py has no constellation; make one at its top level: nightly = Constellation(…)"),
        ("nigtly.py", f"nigtly.py: there is no such file (looked in {folder})"),
    ):
        refused = asterism(folder, "run", named)
        assert (refused.returncode, refused.stderr) == (2, f"asterism: {why}\n")


def test_a_run_whose_file_was_moved_is_refused_and_stays_waiting(folder: Path) -> None:
    (folder / "jobs.py").write_text(
        "from asterism import Constellation\n\ndef send() -> str:\n    return 'sent'\n\njobs = Constellation('jobs')\n"
        "jobs.task(send, requires_approval=True)\n",
        encoding="utf-8",
    )
    run = asterism(folder, "run", "jobs.py:jobs").stdout.split()[1]
    (folder / "jobs.py").rename(folder / "moved.py")
    answered = asterism(folder, "answer", run, "approve")
    assert answered.returncode == 1
    assert answered.stdout.endswith("approve, recorded; it takes effect when the run continues\n")
    why = f"run {run}: jobs.py:send: there is no file jobs.py; restore the function, then: asterism resume {run}"
    assert answered.stderr == f"asterism: {why}\n"
    assert "waiting" in asterism(folder, "runs").stdout
    (folder / "moved.py").rename(folder / "jobs.py")
    assert "1 task: 1 completed" in asterism(folder, "resume").stdout


CLEAN = """
from __future__ import annotations

import asyncio
from pathlib import Path

import asterism
from asterism import Constellation, Device, Fleet, Param, RetryPolicy, RunOptions, SkillContext, skill


@skill(idempotent=True)
def download(url: str) -> list[str]:
    return [url]


async def publish(first: str, context: SkillContext) -> dict[str, int]:
    context.progress(0.5, first)
    return {"sent": 1}


nightly = Constellation("nightly", params={"url": str, "tries": Param(type="int", default=1)})
files = nightly.task(download, url=nightly.params.url, retry=RetryPolicy(max_attempts=3), timeout_s=60)
sent = nightly.task(publish, first=files[0], when="first != ''", requires_approval=True)
nightly.task("echo", device="shell", text=f"{sent['sent']} sent", even_if_failed=[files], condition={sent: "sent > 0"})
nightly.on_failure(publish, first="${run.error}")
nightly.finally_(publish, first="")


async def main() -> None:
    fleet = Fleet(Device("laptop", skills=[download], concurrency=2))
    async with asterism.open(Path("runs.db"), fleet=fleet) as app:
        ended = await app.run(nightly, RunOptions(wall_limit_s=60), url="x")
        outcome: str = ended.outcome
        reveal_type(ended.results)
        handle = await app.start("plan.json")
        async for delta in handle.progress():
            text: str = delta.text
            print(outcome, text)
        if ended.outcome == "waiting":
            await handle.answer("approve", inquiry_id=ended.inquiries[0].inquiry_id)
        (await app.run_of(ended.run_id).result()).raise_for_outcome()


if __name__ == "__main__":
    asyncio.run(main())
    print(asterism.run(nightly, url="x").results.get("publish"))
"""
WRONG = """
import asterism

plan = asterism.Constellation("plan")
task = plan.task(3)
plan.task(print, after=["a"], timeout_s="1m")
ended = asterism.run(plan)
ended.outcom
for item in task:
    print(item)
"""


@pytest.mark.slow
def test_a_type_checker_accepts_programs_and_finds_their_mistakes(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text(CLEAN, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    done = do(tmp_path, "-m", "mypy", "--strict", "--no-incremental", "clean.py", "wrong.py")
    assert 'clean.py:34: note: Revealed type is "dict[str, Any]"' in done.stdout.replace("builtins.", "")
    assert "clean.py:" not in "\n".join(line for line in done.stdout.splitlines() if ": error:" in line)
    wrong = [line.split(":")[1] for line in done.stdout.splitlines() if line.startswith("wrong.py") and ": error:" in line]
    assert sorted(set(wrong)) == ["5", "6", "8", "9"], done.stdout


FAN_OUT = """
from pathlib import Path

from asterism import Constellation, each, skill


@skill(idempotent=True)
def files() -> list[int]:
    return [1, 2, 3]


@skill(idempotent=True)
def transform(file: int) -> int:
    with Path("work.log").open("a") as log:
        log.write(f"{file}\\n")
    if file == 2 and not Path("mended").exists():
        raise ValueError("broken")
    return file * 10


def total(parts: list[int]) -> int:
    return sum(parts)


job = Constellation("job")
parts = job.task(transform, file=each(job.task(files), max_concurrent=1))
job.task(total, parts=parts)
"""


def test_a_failed_item_is_retried_in_a_copy_of_the_run(folder: Path) -> None:
    (folder / "job.py").write_text(FAN_OUT, encoding="utf-8")
    failed = asterism(folder, "run", "job.py:job")
    assert failed.returncode == 1
    assert "1 of 3 items failed: transform[1]: ValueError: broken" in failed.stdout
    (folder / "mended").touch()
    run = failed.stdout.split()[1]
    refused = asterism(folder, "retry", run, "transfrom")
    assert (refused.returncode, "did you mean transform" in refused.stderr.lower()) == (1, True)
    assert asterism(folder, "retry", run, "transform[1]").returncode == 0
    assert (folder / "work.log").read_text() == "1\n2\n2\n3\n"


REDEFINED = """
import asterism
from asterism import Constellation


def step() -> str:
    return "old"


first = Constellation("first")
first.task(step)
if __name__ == "__main__":
    print(asterism.run(first).results)


def step() -> str:
    return "new"


second = Constellation("second")
second.task(step)
if __name__ == "__main__":
    print(asterism.run(second).results)
"""


def test_a_function_whose_name_the_file_defines_again_is_the_one_that_was_passed(folder: Path) -> None:
    (folder / "twice.py").write_text(REDEFINED, encoding="utf-8")
    done = do(folder, "twice.py")
    assert (done.stdout, done.returncode) == ("{'step': 'old'}\n{'step': 'new'}\n", 0), done.stderr


def test_a_script_that_catches_the_refusal_of_its_own_run_is_refused_all_the_same(folder: Path) -> None:
    swallows = "try:\n    print(asterism.run(nightly).results)\nexcept Exception as error:\n    print(error)\n"
    (folder / "nightly.py").write_text(NIGHTLY + swallows, encoding="utf-8")
    done = do(folder, "nightly.py")
    assert done.stdout.endswith('it starts a run when it is imported; put that code under `if __name__ == "__main__":`\n'), done.stdout


SEEN = """
import sys
import asterism
from asterism import Constellation

GIVEN = sys.argv[1:]


def look() -> list[str]:
    return GIVEN


seen = Constellation("seen")
seen.task(look)
if __name__ == "__main__":
    print(asterism.run(seen).results)
"""


def test_a_file_that_a_worker_imports_sees_no_arguments_of_the_worker(folder: Path) -> None:
    (folder / "seen.py").write_text(SEEN, encoding="utf-8")
    assert do(folder, "seen.py", "5").stdout == "{'look': []}\n"


def test_a_program_without_a_file_runs_its_functions(tmp_path: Path) -> None:
    program = """
import asterism
from asterism import Constellation, skill

@skill(idempotent=True)
def increase(number: int) -> int:
    return number + 1

plan = Constellation("twice")
plan.task(increase, number=plan.task(increase, number=1))
print(asterism.run(plan, database="runs.db").outcome)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("finished\n", "")
