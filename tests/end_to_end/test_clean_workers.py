"""Workers with real processes: what a task leaves behind reaches no other task (H4), and a task waits for a worker (H6)."""

from __future__ import annotations

import asyncio
import errno
import json
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.attempts.worker_protocol import FunctionJob
from asterism.devices.port import Attempt, AttemptResult
from asterism.devices.workers import pool as pool_module
from asterism.devices.workers.handle import WorkerHandle
from asterism.devices.workers.pool import WorkerPool, WorkerSettings
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.ports.performer import TENANT
from tests.support.device_signs import Heard

SKILLS = """
import asyncio, os, resource, shutil, signal, sys, threading
from asterism import skill

SEEN = []
PLAIN = shutil.which

@skill
def look() -> dict:
    print("looked")
    umask = os.umask(0)
    os.umask(umask)
    SEEN.append(1)
    return {
        "environ": os.environ.get("API_PASSWORD"), "umask": umask, "handler": str(signal.getsignal(signal.SIGTERM)),
        "ignored": str(signal.getsignal(signal.SIGUSR1)), "patched": shutil.which is not PLAIN, "nice": os.nice(0),
        "limit": resource.getrlimit(resource.RLIMIT_CORE)[0], "path": "/left" in sys.path, "seen": len(SEEN),
        "threads": threading.active_count(), "blocking": os.get_blocking(1),
    }

@skill
def spoil(what: str) -> str:
    if what == "environ":
        os.environ["API_PASSWORD"] = "hunter2"
    elif what == "descriptors":
        os.close(1)
        os.close(2)
    elif what == "stdout":
        sys.stdout.close()
    elif what == "blocking":
        os.set_blocking(1, False)
    elif what == "umask":
        os.umask(0o777)
    elif what == "signals":
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    elif what == "module":
        shutil.which = str
    elif what == "nice":
        os.nice(5)
    elif what == "limit":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    elif what == "path":
        sys.path.insert(0, "/left")
    elif what == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    return what

@skill
def worker() -> int:
    return os.getppid()

@skill
def process() -> int:
    return os.getpid()
"""
SPOILED = ("environ", "descriptors", "stdout", "blocking", "umask", "signals", "module", "nice", "limit", "path", "thread")

Perform = Callable[..., Awaitable[AttemptResult]]


def play(folder: Path, scenario: Callable[[WorkerPool, Perform], Awaitable[None]], skills: str = SKILLS, **options: Any) -> None:
    (folder / "skills.py").write_text(skills, encoding="utf-8")
    settings = WorkerSettings(folder, ("skills.py",))

    async def whole() -> None:
        async with asyncio.timeout(60), WorkerPool(folder / "ledger", **options) as pool:

            async def perform(name: str, signs: Heard | None = None, tenant: str = "", **arguments: Any) -> AttemptResult:
                TENANT.set(tenant)
                attempt = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="d", skill=name, arguments=arguments)
                return await pool.perform(settings, FunctionJob(f"skills.py:{name}"), attempt, signs or Heard())

            await scenario(pool, perform)

    asyncio.run(whole())


@contextmanager
def core_limit() -> Any:
    """A soft limit above 0 for the workers, which a skill can lower."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.parametrize("what", SPOILED)
def test_what_a_task_changes_in_its_process_does_not_reach_the_next_task(tmp_path: Path, what: str) -> None:
    """H4."""

    async def scenario(_: WorkerPool, perform: Perform) -> None:
        first = (await perform("look")).result
        assert (await perform("spoil", what=what)) == AttemptResult(result=what)
        signs = Heard()
        assert (await perform("look", signs)).result == first
        assert signs.messages() == ["looked"]

    with core_limit():
        play(tmp_path, scenario)


def test_a_worker_serves_one_tenant(tmp_path: Path) -> None:
    """H4."""

    async def scenario(_: WorkerPool, perform: Perform) -> None:
        workers = [(await perform("worker", tenant=tenant)).result for tenant in ("a", "b", "a", "b", "")]
        assert workers[:2] == workers[2:4]
        assert len(set(workers)) == 3

    play(tmp_path, scenario)


def test_the_idle_workers_of_all_tenants_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_MOST_IDLE_IN_ALL", 1)

    async def scenario(pool: WorkerPool, perform: Perform) -> None:
        for tenant in "abc":
            await perform("worker", tenant=tenant)
        while len(pool._workers) > 1:  # noqa: ASYNC110 - a timer of the pool ends them
            await asyncio.sleep(0)

    play(tmp_path, scenario, linger_s=0)


@pytest.mark.parametrize(
    "kept", ["THREAD = threading.Thread(target=threading.Event().wait, daemon=True); THREAD.start()", "OPEN = open(__file__)"]
)
def test_a_process_is_replaced_after_each_task_if_its_imports_left_a_thread_or_an_open_file(tmp_path: Path, kept: str) -> None:
    """H4: a copy of such a process would lack the thread, and share the file."""

    async def scenario(_: WorkerPool, perform: Perform) -> None:
        first = (await perform("look")).result
        await perform("spoil", what="environ")
        assert (await perform("look")).result == first
        assert (await perform("process")).result != (await perform("process")).result

    play(tmp_path, scenario, SKILLS + kept)


def test_no_two_tasks_draw_the_same_numbers_from_generators_that_their_module_has_imported(tmp_path: Path) -> None:
    drawing = "import random\nimport numpy.random\nfrom asterism import skill\n@skill\ndef draw() -> list[float]:\n"
    drawing += "    return [numpy.random.random(), random.random()]\n"

    async def scenario(_: WorkerPool, perform: Perform) -> None:
        one, other = [(await perform("draw")).result for _ in range(2)]
        assert one[0] != other[0]
        assert one[1] != other[1]

    play(tmp_path, scenario, drawing)


# -- no worker can be started ------------------------------------------------------------------------


def no_files(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let so many starts of a worker fail."""
    starts, spawn = iter(range(times)), WorkerHandle.spawn

    async def failing(folder: Path, limit_bytes: int, env: Mapping[str, str] = {}) -> WorkerHandle:
        if next(starts, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return await spawn(folder, limit_bytes, env)

    monkeypatch.setattr(WorkerHandle, "spawn", failing)


def test_an_attempt_waits_as_one_that_has_not_begun_while_no_worker_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H6."""
    no_files(monkeypatch, 7)

    async def scenario(_: WorkerPool, perform: Perform) -> None:
        signs = Heard()
        assert (await perform("spoil", signs, what="nothing")).result == "nothing"
        assert signs.signs == ["queued: no worker could be started: [Errno 24] Too many open files", "begun"]

    monkeypatch.setattr(pool_module, "_LOOKS", Backoff(0.01, 30.0))
    play(tmp_path, scenario)


def test_an_attempt_fails_once_no_worker_could_be_started_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H6."""
    no_files(monkeypatch, 1000)

    async def scenario(_: WorkerPool, perform: Perform) -> None:
        error = (await perform("look")).error
        assert error is not None
        assert error.words == "it was not started: no worker could be started: [Errno 24] Too many open files"

    play(tmp_path, scenario, start_within_s=0)


def test_an_idle_worker_of_another_tenant_ends_where_no_more_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H6."""

    async def scenario(_: WorkerPool, perform: Perform) -> None:
        await perform("look", tenant="a")
        no_files(monkeypatch, 1)
        signs = Heard()
        assert (await perform("look", signs, tenant="b")).error is None
        assert signs.signs[0] == "begun"

    play(tmp_path, scenario)


def test_all_tasks_complete_where_few_files_may_be_open(tmp_path: Path) -> None:
    """H6: with 40 open files, 20 of 24 tasks failed as crashed."""
    (tmp_path / "skills.py").write_text(SKILLS, encoding="utf-8")
    (tmp_path / "fleet.toml").write_text('[[devices]]\nid = "shop"\nskills = ["skills.py:worker"]\nconcurrency = 24\n', encoding="utf-8")
    plan = {"tasks": [{"task_id": f"t{number}", "device": "shop", "skill": "worker"} for number in range(24)]}
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); from asterism.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", limited, "run", "plan.json", "--fleet", "fleet.toml", "--database", "runs.db"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert "24 tasks: 24 completed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    assert len(done.stdout + done.stderr) < 20_000
