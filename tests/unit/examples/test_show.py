"""A script of 40 lines with a client and a view prints, to the byte, what `asterism show` prints."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from asterism.app.bootstrap import FORMS, open_store
from asterism.cli import main
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.journal_file import with_run_id
from asterism.engine.runtime.submission import submit_whole
from examples.show import __main__ as script
from tests.architecture.test_without_the_commands import FILES, LOADED, block
from tests.journals.test_golden import MACHINE_OF, golden

ROOT = Path(__file__).parents[3]
REQUEST = "count the words of 'the journal is the truth', then print a poster if words > 3"
NESTED = {
    "tasks": [
        {
            "task_id": "outer",
            "constellation": {"tasks": [{"task_id": "inner", "device": "desk", "name": "count_words", "inputs": {"text": ""}}]},
        }
    ]
}
SCENES = (
    "retry",
    "approval",
    "consent",
    "refusals",
    "restart",
    "child",
    "loop",
    "loop_gates",
    "loop_ladder",
    "flow",
    "flow_error",
    "flow_child",
)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASTERISM_DATABASE", str(tmp_path / "runs.db"))
    return tmp_path / "runs.db"


async def _rows(database: Path) -> list[RunRow]:
    async with open_store(database, create=False) as store:
        return await store.runs(limit=1000)


def shown(database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunRow, str]]:
    """Return each run with what the script prints, after a comparison with what `asterism show` prints at the same time."""
    rows = asyncio.run(_rows(database))
    monkeypatch.setattr(SystemClock, "now", lambda self: max(row.updated_at for row in rows) + 100.0)
    pages = []
    for row in rows:
        capsys.readouterr()
        assert main(["show", row.run_id]) == 0
        expected = capsys.readouterr().out
        asyncio.run(script.main(row.run_id))
        assert capsys.readouterr().out == expected, row.run_id
        pages.append((row, expected))
    return pages


def test_the_script_has_40_lines_of_at_most_100_characters() -> None:
    lines = Path(script.__file__).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_runs_of_the_readme_are_printed_alike(database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (beginning, language) in FILES.items():
        Path(name).write_text(block(beginning, language), encoding="utf-8")
    Path("nested.json").write_text(json.dumps(NESTED), encoding="utf-8")
    codes = [main(["run", what, "--fleet", "fleet.toml"]) for what in (REQUEST, "plan.json", "nested.json")]
    assert codes == [0, 3, 1]  # an empty text has no longest word
    pages = shown(database, capsys, monkeypatch)
    assert sorted((row.status, row.outcome) for row, _ in pages if not row.parent) == [
        ("ended", "failed"),
        ("ended", "finished"),
        ("waiting", ""),
    ]
    assert [row for row, _ in pages if row.parent]
    assert any("approve|" in page for _, page in pages)


async def _write(database: Path) -> None:
    """Write the golden journals, whole and in part, and a fork."""
    async with open_store(database, create=True) as store:
        for name in SCENES:
            records, machine = golden(name), MACHINE_OF[name]
            for cut in (len(records), len(records) // 2, len(records) // 3):
                run_id = f"{name}-{cut}"
                live = Run(machine, run_id)
                entries = [packer(machine).unpack(record) for record in with_run_id(records[:cut], records[0].run_id, run_id)]
                live.replay(entries)
                at, until = records[0].at, records[cut - 1].at
                row = RunRow(run_id=run_id, machine=machine.name, title=name, state="", actor="ada", created_at=at, updated_at=until)
                await submit_whole(store, row, live, entries)
        client = Client(store, SystemClock(), FORMS)
        await client.fork(f"retry-{len(golden('retry'))}", 3, actor="ada", new_id="forked")


def test_runs_of_every_machine_are_printed_alike(
    database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_write(database))
    pages = shown(database, capsys, monkeypatch)
    ends = {(row.machine, row.outcome or row.status) for row, _ in pages}
    for machine in {machine.name for machine in MACHINE_OF.values()}:
        assert {(machine, end) for end in ("finished", "failed", "waiting")} <= ends
    (forked,) = [page for row, page in pages if row.run_id == "forked"]
    assert "forked from retry-" in forked


def test_the_script_imports_nothing_of_the_commands(database: Path) -> None:
    asyncio.run(_write(database))
    program = f"import asyncio\nfrom examples.show import __main__ as script\nasyncio.run(script.main('forked'))\n{LOADED}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
