"""Local devices with real processes: each attempt ends as it should, and nothing is left working."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.attempts.processes import reap_orphans, start_mark
from asterism.devices.attempts.worker_protocol import CommandJob, FunctionJob, Job
from asterism.devices.dispatch.places import Places
from asterism.devices.port import Attempt, AttemptResult, Signs
from asterism.devices.workers.pool import WorkerPool, WorkerSettings
from asterism.errors import StoreUnavailable
from tests.support.device_signs import Heard

HERE = Path(__file__).parent
KIT = WorkerSettings(HERE, ("local_skills.py",))
WITHIN_S = 20.0

Scenario = Callable[[WorkerPool], Awaitable[None]]


def play(tmp_path: Path, scenario: Scenario, **options: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(90), WorkerPool(tmp_path / "ledger", **options) as pool:
            await scenario(pool)

    asyncio.run(whole())
    assert list((tmp_path / "ledger").iterdir()) == []


class Progress(Heard):
    """The signs of an attempt, with the process ids in its messages."""

    def pids(self) -> list[int]:
        return [int(word) for message in self.messages() if self._awaited in message for word in re.findall(r"\d+", message)]


def attempt(**changes: Any) -> Attempt:
    return Attempt(**{"key": "r:1.0", "run_id": "r", "task_id": "t", "device_id": "d", "skill": "s"} | changes)


async def call(pool: WorkerPool, skill: str, signs: Signs | None = None, **arguments: Any) -> AttemptResult:
    return await perform(pool, FunctionJob(f"local_skills.py:{skill}"), signs, **arguments)


async def perform(pool: WorkerPool, job: Job, signs: Signs | None = None, **arguments: Any) -> AttemptResult:
    return await pool.perform(KIT, job, attempt(arguments=arguments), signs or Heard())


def exits(pid: int) -> bool:
    """True once the process is gone, waited for as an event, with a bound."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], WITHIN_S)[0])
    finally:
        os.close(descriptor)


def test_a_worker_is_used_again(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        first, second = await call(pool, "pid"), await call(pool, "pid")
        assert first.error is None
        assert first.result == second.result != os.getpid()

    play(tmp_path, scenario)


async def pids_of_three_at_once(pool: WorkerPool) -> set[int]:
    ends = await asyncio.gather(*(call(pool, "pid") for _ in range(3)))
    return {int(end.result) for end in ends}


def test_a_busy_device_uses_all_its_workers_again(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        first = await pids_of_three_at_once(pool)
        assert len(first) == 3
        assert await pids_of_three_at_once(pool) == first

    play(tmp_path, scenario, idle=1, linger_s=60)


def test_workers_beyond_those_that_are_kept_end_when_they_have_been_idle(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        workers = await pids_of_three_at_once(pool)
        kept = (await call(pool, "pid")).result
        assert kept in workers
        assert all([await asyncio.to_thread(exits, pid) for pid in workers - {kept}])
        assert (await call(pool, "pid")).result == kept

    play(tmp_path, scenario, idle=1, linger_s=0)


def test_arguments_are_converted_and_results_are_json(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        assert await call(pool, "answer", value="7") == AttemptResult(result={"answer": 7})
        assert await call(pool, "answer") == AttemptResult(result={"answer": 42})
        assert await call(pool, "later", value="größer") == AttemptResult(result="GRÖSSER")

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("skill", "arguments", "code", "told"),
    [
        ("complain", {}, "raised", r"^ValueError: no such luck \(local_skills\.py:\d+\)$"),
        ("leave", {}, "raised", r"^SystemExit: 3"),
        ("exit_hard", {}, "crashed", r"exited with code 7"),
        ("segfault", {}, "crashed", r"killed by SIGSEGV"),
        ("killed", {}, "crashed", r"killed by SIGKILL"),
        (
            "answer",
            {"value": "seven"},
            "bad_arguments",
            r"skill answer: Expected `int`, got `str` - at `\$\.value`; its arguments are: value",
        ),
        ("answer", {"valeu": 7}, "bad_arguments", r"unknown field `valeu`"),
        ("later", {}, "bad_arguments", r"missing required field `value`"),
        ("return_bytes", {"size": 5_000_000}, "bad_result", r"5000002 bytes, more than 1048576; write it to a file"),
        ("return_an_object", {}, "bad_result", r"not JSON: a builtins\.object has no JSON form"),
        ("return_nan", {}, "bad_result", r"not JSON: Out of range float"),
        ("return_a_surrogate", {}, "bad_result", r"not JSON"),
        ("return_a_circle", {}, "bad_result", r"not JSON"),
        (
            "wrong_type",
            {},
            "bad_result",
            r"skill wrong_type declares that it returns dict\[str, int\], and did not: Expected `int`, got `str`",
        ),
        ("missing", {}, "raised", r"has no function missing; its skills are: answer, complain"),
    ],
)
def test_each_way_to_fail_is_that_attempts_error_and_the_next_one_works(
    tmp_path: Path, skill: str, arguments: dict[str, Any], code: str, told: str
) -> None:
    async def scenario(pool: WorkerPool) -> None:
        end = await call(pool, skill, **arguments)
        assert end.error is not None
        assert end.error.code == code
        assert re.search(told, end.error.words)
        assert await call(pool, "answer") == AttemptResult(result={"answer": 42})

    play(tmp_path, scenario)


def test_the_bound_on_results_is_configurable(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        assert (await call(pool, "return_bytes", size=5_000_000)).result == "x" * 5_000_000

    play(tmp_path, scenario, result_bytes=6_000_000)


def test_a_skill_learns_its_key_and_its_predecessors_results(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        end = await pool.perform(KIT, FunctionJob("local_skills.py:context_of"), attempt(number=3, results={"a": {"x": 1}}), Heard())
        assert end.result == {"key": "r:1.0", "attempt": 3, "task_id": "t", "results": {"a": {"x": 1}}}

    play(tmp_path, scenario)


def test_what_a_skill_prints_is_progress_and_never_a_message_of_its_worker(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        progress = Progress()
        assert await call(pool, "talk", progress) == AttemptResult(result="said")
        assert sorted(progress.messages()) == ["a quarter", "on stderr", "on stdout", '{"type":"done","result":0,"reusable":true}']
        assert [fraction for fraction, message in progress.reports if message == "a quarter"] == [0.25]

    play(tmp_path, scenario)


def test_a_flood_of_output_neither_blocks_nor_fills_anything(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        progress = Progress()
        assert await call(pool, "flood", progress, lines=1_000_000) == AttemptResult(result=1_000_000)
        assert max(map(len, progress.messages())) <= 2001
        dropped = sum(int(found[1]) for each in progress.messages() if (found := re.match(r"… (\d+) log line\(s\) dropped", each)))
        assert dropped + sum(each.startswith(("xxx", "yyy")) for each in progress.messages()) == 1_000_001
        assert dropped > 900_000

    play(tmp_path, scenario)


def test_a_flood_of_progress_is_thinned_out(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        progress = Progress()
        assert (await call(pool, "progress_flood", progress)).error is None
        assert len(progress.reports) < 5_000
        assert "dropped" in progress.messages()[-1]

    play(tmp_path, scenario)


def test_attempts_run_at_the_same_time(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        os.mkfifo(tmp_path / "a")
        async with asyncio.TaskGroup() as group:
            one = group.create_task(call(pool, "meet", folder=str(tmp_path), mine="a", other="b"))
            two = group.create_task(call(pool, "meet", folder=str(tmp_path), mine="b", other="a"))
        assert {one.result().result, two.result().result} == {"a", "b"}

    play(tmp_path, scenario)


def test_more_attempts_than_workers_take_turns(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        async with asyncio.TaskGroup() as group:
            ends = [group.create_task(call(pool, "pid")) for _ in range(20)]
        assert len({end.result().result for end in ends}) <= 2

    play(tmp_path, scenario, limit=2)


def test_cancelling_kills_the_attempt_with_its_children_and_nothing_else(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        doomed, spared = Progress(), Progress()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call(pool, "wait", progress)) for progress in (doomed, spared)]
            await doomed.arrived.wait()
            await spared.arrived.wait()
            tasks[0].cancel()
            await asyncio.wait([tasks[0]])
            assert tasks[0].cancelled()
            assert len(doomed.pids()) == 2
            assert all(exits(pid) for pid in doomed.pids())
            assert all(start_mark(pid) for pid in spared.pids())
            tasks[1].cancel()
        assert all(exits(pid) for pid in spared.pids())

    play(tmp_path, scenario)


def test_a_child_left_behind_dies_with_its_worker_at_the_end_of_the_attempt(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        progress = Progress("child")
        end = await call(pool, "leave_a_child_behind", progress)
        assert end.error is None
        assert all(exits(pid) for pid in [*progress.pids(), end.result])
        assert (await call(pool, "pid")).result != end.result

    play(tmp_path, scenario)


@pytest.mark.parametrize("session", [True, False])
def test_a_process_that_has_left_the_group_of_its_attempt_holds_no_place_and_lives_on(tmp_path: Path, *, session: bool) -> None:
    async def scenario(pool: WorkerPool) -> None:
        places = Places(tmp_path / "places", "d", 1)
        place = places.take()
        assert place is not None
        end = await call(pool, "leave_the_group", Heard(place=place), session=session)
        place.release()
        await pool.close()  # kills what is left of the attempt's group, in which the process is not
        try:
            assert start_mark(end.result)
            async with asyncio.timeout(WITHIN_S):  # until the system has reaped what is left of the group
                while (again := places.take()) is None:  # noqa: ASYNC110 - nothing says when a process is reaped
                    await asyncio.sleep(0.01)
            again.release()
        finally:
            os.kill(end.result, signal.SIGKILL)

    play(tmp_path, scenario)


def test_closing_the_pool_kills_what_is_running(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        progress = Progress()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(call(pool, "wait", progress))
            await progress.arrived.wait()
            await pool.close()
        assert all(exits(pid) for pid in progress.pids())
        error = running.result().error
        assert error is not None
        assert error.code == "crashed"

    play(tmp_path, scenario)


def test_a_skill_that_goes_elsewhere_does_not_take_the_next_one_along(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        assert [(await call(pool, "wander")).result for _ in range(2)] == [str(Path.cwd())] * 2

    play(tmp_path, scenario)


def test_an_idle_worker_that_died_is_replaced_unseen(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        first = (await call(pool, "pid")).result
        os.kill(first, signal.SIGKILL)
        assert exits(first)
        second = await call(pool, "pid")
        assert second.error is None
        assert second.result != first

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("argv", "arguments", "told"),
    [
        (("echo", "{a}", "{{a}}", "$HOME;"), {"a": "x; echo y"}, {"output": "x; echo y {a} $HOME;", "exit_code": 0}),
        (("echo", "{a}"), {"a": 3}, {"output": "3", "exit_code": 0}),
        (("sh", "-c", "echo trouble >&2; exit 4"), {}, "raised: sh ended with exit code 4: trouble"),
        (("sh", "-c", "kill -9 $$"), {}, "raised: sh ended with signal 9"),
        (("yes",), {}, "bad_result: the output is larger than 1048576 bytes; write it to a file and return its path"),
        (("no-such-program",), {}, "raised: no-such-program cannot be started: No such file or directory"),
        (("echo", "{a}"), {}, "bad_arguments: echo: missing a; its arguments are: a"),
        (("echo", "{a}"), {"a": "x", "b": "y"}, "bad_arguments: echo: unknown argument b; its arguments are: a"),
        (("echo", "{a}"), {"a": ["x"]}, "bad_arguments: argument a must be a text, a number or a file, without NUL, not list"),
    ],
)
def test_commands_take_argv_lists_and_no_shell_reads_them(
    tmp_path: Path, argv: tuple[str, ...], arguments: dict[str, Any], told: object
) -> None:
    async def scenario(pool: WorkerPool) -> None:
        end = await perform(pool, CommandJob(argv), **arguments)
        assert (f"{end.error.code}: {end.error.words}" if end.error else end.result) == told

    play(tmp_path, scenario)


def test_a_commands_output_can_be_json(tmp_path: Path) -> None:
    async def scenario(pool: WorkerPool) -> None:
        assert (await perform(pool, CommandJob(("echo", '{"a": {"b": 1}}'), "json"))).result == {"a": {"b": 1}}
        end = await perform(pool, CommandJob(("echo", "hello"), "json"))
        assert end.error is not None
        assert end.error.code == "bad_result"

    play(tmp_path, scenario)


def start_owner(ledger: Path, skill: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A process that performs a skill, and the pids that the skill reports."""
    owner = subprocess.Popen([sys.executable, str(HERE / "local_owner.py"), str(ledger), skill], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    return owner, [int(word) for word in re.findall(r"\d+", owner.stdout.readline())]


def kill(owner: subprocess.Popen[str]) -> None:
    with owner:
        owner.kill()


@pytest.mark.parametrize(("skill", "processes"), [("wait", 2), ("hold_the_interpreter", 1)])
def test_when_the_owner_is_killed_nothing_goes_on(tmp_path: Path, skill: str, processes: int) -> None:
    owner, pids = start_owner(tmp_path, skill)
    assert len(pids) == processes
    kill(owner)
    assert all(exits(pid) for pid in pids)


def test_what_outlives_its_owner_is_reaped_by_the_next_one(tmp_path: Path) -> None:
    owner, pids = start_owner(tmp_path, "wait")
    assert reap_orphans(tmp_path) == 0  # its owner lives
    assert all(start_mark(pid) for pid in pids)
    os.killpg(os.getpgid(pids[0]), signal.SIGSTOP)  # so that its own guardian cannot do it
    kill(owner)
    assert reap_orphans(tmp_path) == 1
    assert all(exits(pid) for pid in pids)
    assert list(tmp_path.iterdir()) == []


def test_a_list_that_cannot_be_written_costs_no_finished_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pool: WorkerPool) -> None:
        def full(*_: object) -> None:
            raise StoreUnavailable("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(pool._ledger, "_write", full)
            begun = await call(pool, "answer")
        assert begun.error is not None
        assert "it was not started: no space left" in begun.error.words
        assert (await call(pool, "answer")).error is None
        with monkeypatch.context() as patch:
            patch.setattr(pool._ledger, "_write", full)
            done = await call(pool, "leave_a_child_behind")  # its worker is not used again, and cannot be taken off the list
        assert done.error is None
        assert (await call(pool, "answer")).error is None

    play(tmp_path, scenario, start_within_s=0)
