"""Contract of remote devices, tested on each of them. A new device joins by a function in ``WORLDS``.

The other side of a world has these skills: ``answer`` returns ``{"answer": 42}``; ``slow`` takes about two seconds and returns
``{"slow": true}``; ``wait`` never ends; ``ask`` asks a person one question, and returns ``{"chosen": …}`` with the value of the
answer; ``large`` returns a text of more than 1 MiB; ``copy`` returns a file with the content of the file ``source``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from asterism.constellation.machine.events import AttemptEnded
from asterism.constellation.python.performers import AttemptPerformer
from asterism.devices.attempts.processes import group_lives
from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.kinds.a2a import device as a2a_device
from asterism.devices.kinds.registry import KINDS, DeviceKinds
from asterism.devices.kinds.ssh.script import folder_of
from asterism.devices.port import Attempt, AttemptResult, DeviceReply, RemoteDevice
from asterism.engine.kernel.data import MAX_BYTES, files_in, safe_name
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.testing import loop as simulation
from asterism.testing.device import Behaviour
from asterism.testing.remote import FarSide, RemoteJob, SimulatedRemoteDevice
from tests.support.a2a_process import AgentProcess
from tests.support.attempt_files import TestFiles
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet
from tests.support.hot_folder import RESULTS, installed, instrument
from tests.support.hot_folder import begun as jobs_begun
from tests.support.mcp_devices import TASKS, calls, open_mcp, served
from tests.support.mcp_task_server import state_of, tasks
from tests.support.ssh_server import SshServer, ssh_server

SKILLS = ("answer", "slow", "wait", "ask", "large")


class RemoteWorld(Protocol):
    """The other side of a remote device, and the devices of processes that reach it.

    Attributes:
        lacks: what the kind cannot do, of ``again`` (find an attempt without a handle), ``handles``, ``legs``, ``large`` and ``files``.
    """

    lacks: frozenset[str]

    def device(self) -> contextlib.AbstractAsyncContextManager[RemoteDevice]:
        """Open the device as a new process would, and close it as a process that ends."""
        ...

    def begun(self, key: str) -> int:
        """Return how often the work of an attempt has begun on the other side."""
        ...

    def running(self, key: str) -> bool:
        """Return True while the other side works on an attempt, or waits for an answer."""
        ...


Scenario = Callable[[RemoteWorld], Awaitable[None]]
Play = Callable[[Scenario], None]


# -- simulated -------------------------------------------------------------------------------------


class SimulatedWorld:
    lacks: frozenset[str] = frozenset({"files"})

    def __init__(self) -> None:
        behaviours = {
            "answer": Behaviour(duration_s=0.1, result={"answer": 42}),
            "slow": Behaviour(duration_s=2, result={"slow": True}),
            "wait": Behaviour(hangs=True),
            "ask": Behaviour(duration_s=0.1, result={"chosen": "left"}),
            "large": Behaviour(duration_s=0.1, result="x" * MAX_BYTES),
        }
        self.far = FarSide(lambda attempt: behaviours[attempt.skill], questions=lambda attempt: attempt.skill == "ask")
        self.profile = AgentProfile(device_id="d", kind="simulated", skills=tuple(Skill(name=name) for name in SKILLS), reattach=True)

    @contextlib.asynccontextmanager
    async def device(self) -> AsyncIterator[RemoteDevice]:
        yield SimulatedRemoteDevice(self.profile, self.far)

    def jobs(self, key: str) -> list[RemoteJob]:
        return [job for job in self.far.jobs if job.key == key]

    def begun(self, key: str) -> int:
        return len(self.jobs(key))

    def running(self, key: str) -> bool:
        return any(job.status in ("running", "asking") for job in self.jobs(key))


def play_simulated(tmp_path: Path, scenario: Scenario) -> None:
    async def whole() -> None:
        await scenario(SimulatedWorld())

    simulation.run(whole())


# -- ssh -------------------------------------------------------------------------------------------

COUNTED = "read -r s </proc/self/stat; set -- $s; echo $5 >>~/starts; "
"""Writes down the process group: the supervisor of the attempt leads it."""
PROGRAMS = {
    "answer": """echo '{"answer": 42}'""",
    "slow": """sleep 2; echo '{"slow": true}'""",
    "wait": "sleep 1000",
    "large": "yes | head -c 2000000",
}
COPY = 'files = ["source"]\noutput = "file"\nfile = "copy.txt"\n'


class SshWorld:
    lacks = frozenset({"legs"})

    def __init__(self, server: SshServer) -> None:
        self.server = server

    @contextlib.asynccontextmanager
    async def device(self) -> AsyncIterator[RemoteDevice]:
        fleet = self.server.home.parent / "fleet.toml"
        commands = (
            f'[[devices.commands]]\nname = "{name}"\nargv = ["sh", "-c", """{COUNTED}{program}"""]\noutput = "json"\n'
            for name, program in PROGRAMS.items()
        )
        argv = f'["sh", "-c", """({COUNTED}); cp "$@" """, "sh", "{{source}}", "{{output}}"]'
        copy = f'[[devices.commands]]\nname = "copy"\nargv = {argv}\n{COPY}'
        fleet.write_text(self.server.table() + "".join(commands) + copy)
        async with open_fleet(fleet) as devices:
            device = devices["d"]
            assert isinstance(device, RemoteDevice)
            yield device

    def group(self, key: str) -> str:
        file = self.server.home / ".asterism" / folder_of(key) / "pid"
        return (file.read_text().split() or [""])[0] if file.exists() else ""  # it may be there, and not written yet

    def begun(self, key: str) -> int:
        return self.server.starts.count(self.group(key))

    def running(self, key: str) -> bool:
        group = self.group(key)
        return group.isdecimal() and group_lives(int(group))


def play_ssh(tmp_path: Path, scenario: Scenario) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), ssh_server(tmp_path / "host") as server:
            await scenario(SshWorld(server))

    asyncio.run(whole())


# -- a2a -------------------------------------------------------------------------------------------


class A2aWorld:
    def __init__(self, agent: AgentProcess, lacks: frozenset[str]) -> None:
        self.lacks = lacks
        self._agent = agent
        self.begun = agent.starts
        self.running = agent.is_working

    @contextlib.asynccontextmanager
    async def device(self) -> AsyncIterator[RemoteDevice]:
        fleet = self._agent.folder / "fleet.toml"
        fleet.write_text(f'[[devices]]\nid = "d"\nkind = "a2a"\nurl = "{self._agent.url}"\n')
        async with open_fleet(fleet) as devices:
            device = devices["d"]
            assert isinstance(device, RemoteDevice)
            yield device


def play_a2a(tmp_path: Path, scenario: Scenario, *flags: str, lacks: frozenset[str] = frozenset()) -> None:
    async def whole(agent: AgentProcess) -> None:
        async with asyncio.timeout(60):
            await scenario(A2aWorld(agent, lacks))

    agent = AgentProcess(tmp_path, *flags)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(a2a_device, "SETTLE_S", 0.3)
        try:
            asyncio.run(whole(agent))
        finally:
            agent.kill()


def play_a2a_legacy(tmp_path: Path, scenario: Scenario) -> None:
    play_a2a(tmp_path, scenario, "--legacy", lacks=frozenset({"again"}))


# -- mcp -------------------------------------------------------------------------------------------


class McpWorld:
    """A server over HTTP, which outlives the processes. The answers to its forms are objects, so its legs have tests of their own."""

    lacks = frozenset({"handles", "again", "legs"})

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url

    def device(self) -> contextlib.AbstractAsyncContextManager[RemoteDevice]:
        return open_mcp(self._folder, url=self._url)

    def begun(self, key: str) -> int:
        return sum(line.endswith(f" {key}") and not line.startswith("cancelled") for line in calls(self._folder))

    def running(self, key: str) -> bool:
        seen = calls(self._folder)
        return f"wait {key}" in seen and f"cancelled {key}" not in seen


def play_mcp(tmp_path: Path, scenario: Scenario) -> None:
    async def whole(url: str) -> None:
        await scenario(McpWorld(tmp_path, url))

    with served(tmp_path) as (url, _):
        asyncio.run(whole(url))


class McpTasksWorld(McpWorld):
    """A server whose calls become tasks, which are found again by their handle."""

    lacks = frozenset({"again", "legs", "files"})

    def running(self, key: str) -> bool:
        mine = [task for task in tasks(self._folder) if task["key"] == key]
        return any(state_of(task, self._folder)["status"] == "working" for task in mine)


def play_mcp_tasks(tmp_path: Path, scenario: Scenario) -> None:
    async def whole(url: str) -> None:
        await scenario(McpTasksWorld(tmp_path, url))

    with served(tmp_path, script=TASKS) as (url, _):
        asyncio.run(whole(url))


# -- a kind of an installed package ----------------------------------------------------------------


class HotFolderWorld:
    lacks = frozenset({"legs", "files"})

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.asynccontextmanager
    async def device(self) -> AsyncIterator[RemoteDevice]:
        fleet = self._folder / "fleet.toml"
        fleet.write_text(f'[[devices]]\nid = "d"\nkind = "hot_folder"\npath = "jobs"\nprograms = {[*RESULTS, "wait"]}\n')
        async with open_fleet(fleet, DeviceKinds(KINDS)) as devices:
            device = devices["d"]
            assert isinstance(device, RemoteDevice)
            yield device

    def _job(self, key: str) -> Path:
        return self._folder / "jobs" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.job"

    def begun(self, key: str) -> int:
        return jobs_begun(self._folder / "jobs").count(self._job(key).stem)

    def running(self, key: str) -> bool:
        return bool(self.begun(key)) and not self._job(key).with_suffix(".done").exists()


def play_hot_folder(tmp_path: Path, scenario: Scenario) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60):
            await scenario(HotFolderWorld(tmp_path))

    with pytest.MonkeyPatch.context() as patched, instrument(tmp_path / "jobs"):
        patched.syspath_prepend(installed(tmp_path / "site"))
        asyncio.run(whole())


WORLDS: dict[str, Callable[[Path, Scenario], None]] = {
    "a2a": play_a2a,
    "a2a 0.3": play_a2a_legacy,
    "hot folder": play_hot_folder,
    "mcp": play_mcp,
    "mcp tasks": play_mcp_tasks,
    "simulated": play_simulated,
    "ssh": play_ssh,
}


@pytest.fixture(params=sorted(WORLDS))
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    return lambda scenario: WORLDS[request.param](tmp_path, scenario)


# -- the contract ----------------------------------------------------------------------------------


def attempt(skill: str, key: str = "r:1.0", **fields: Any) -> Attempt:
    return Attempt(key=key, run_id="r", task_id="t", device_id="d", skill=skill, **fields)


async def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - the other side may be another process
            await asyncio.sleep(0.05)


async def detached(world: RemoteWorld, given: Attempt) -> str:
    """Perform an attempt in a process that ends while the other side works on it; return the handle."""
    heard = Heard()
    async with world.device() as device:
        performing = asyncio.create_task(device.perform(given, heard))
        await until(lambda: world.begun(given.key) == 1 and (bool(heard.handles) or "handles" in world.lacks))
        performing.cancel()
        await asyncio.wait([performing])
        assert performing.cancelled()
    return heard.handles[-1] if heard.handles else ""


def needs(world: RemoteWorld, *features: str) -> None:
    if lacking := world.lacks.intersection(features):
        pytest.skip(f"this kind of device lacks {', '.join(sorted(lacking))}")


def test_an_attempt_is_performed_once_and_its_handle_comes_before_its_end(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        heard = Heard()
        async with world.device() as device:
            assert isinstance(device, RemoteDevice)
            assert await device.perform(attempt("answer"), heard) == AttemptResult(result={"answer": 42})
        assert world.begun("r:1.0") == 1
        assert not world.running("r:1.0")
        assert heard.signs[0] == "begun"
        assert "handles" in world.lacks or len(set(heard.handles)) == 1

    play(scenario)


def test_a_cancelled_perform_detaches_and_the_work_goes_on(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "handles")
        handle = await detached(world, attempt("wait"))
        assert world.running("r:1.0")
        async with world.device() as device:
            assert await device.stop(attempt("wait", again=True, handle=handle)) == ""

    play(scenario)


@pytest.mark.parametrize("with_handle", [True, False])
def test_the_next_process_finds_the_attempt_again(play: Play, *, with_handle: bool) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "handles" if with_handle else "again")
        handle = await detached(world, attempt("slow"))
        async with world.device() as device:
            end = await device.perform(attempt("slow", again=True, handle=handle if with_handle else ""), Heard())
        assert end == AttemptResult(result={"slow": True})
        assert world.begun("r:1.0") == 1

    play(scenario)


def test_an_attempt_that_ended_while_no_process_lived_has_its_result(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "handles")
        handle = await detached(world, attempt("slow"))
        await until(lambda: not world.running("r:1.0"))
        async with world.device() as device:
            assert await device.perform(attempt("slow", again=True, handle=handle), Heard()) == AttemptResult(result={"slow": True})
        assert world.begun("r:1.0") == 1

    play(scenario)


def test_an_attempt_that_never_began_is_started(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "again")
        async with world.device() as device:
            assert await device.perform(attempt("answer", again=True), Heard()) == AttemptResult(result={"answer": 42})
        assert world.begun("r:1.0") == 1

    play(scenario)


def test_an_attempt_whose_handle_is_unknown_there_is_interrupted(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "handles")
        async with world.device() as device:
            end = await device.perform(attempt("answer", again=True, handle="no-such-handle"), Heard())
        assert end.error is not None
        assert end.error.code == "interrupted"
        assert not world.begun("r:1.0")

    play(scenario)


@pytest.mark.parametrize("with_handle", [True, False])
def test_a_stop_ends_the_attempt_and_can_be_repeated(play: Play, *, with_handle: bool) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "handles" if with_handle else "again")
        handle = await detached(world, attempt("wait"))
        async with world.device() as device:
            for _ in range(2):
                assert await device.stop(attempt("wait", again=True, handle=handle if with_handle else "")) == ""
                await until(lambda: not world.running("r:1.0"))
        assert world.begun("r:1.0") == 1

    play(scenario)


def test_a_stop_of_one_attempt_leaves_the_others_alone(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "handles")
        doomed = await detached(world, attempt("wait", "r:1.0"))
        spared = await detached(world, attempt("wait", "r:1.1"))
        async with world.device() as device:
            assert await device.stop(attempt("wait", "r:1.0", again=True, handle=doomed)) == ""
            await until(lambda: not world.running("r:1.0"))
            assert world.running("r:1.1")
            assert await device.stop(attempt("wait", "r:1.1", again=True, handle=spared)) == ""

    play(scenario)


@pytest.mark.parametrize("restarts", [False, True])
def test_an_answer_continues_the_attempt_also_in_the_next_process(play: Play, *, restarts: bool) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "legs")
        heard = Heard()
        async with contextlib.AsyncExitStack() as stack:
            device = await stack.enter_async_context(world.device())
            asked = await device.perform(attempt("ask"), heard)
            assert asked.error is None
            assert asked.question is not None
            assert asked.question.prompt
            assert len(msgspec.json.encode(asked.question.state)) <= 65_536
            if restarts:
                await stack.aclose()
                device = await stack.enter_async_context(world.device())
            reply = DeviceReply(verb="respond", value="left")
            handle = heard.handles[-1] if heard.handles else ""
            end = await device.perform(attempt("ask", leg=2, handle=handle, reply=reply, state=asked.question.state), Heard())
        assert end == AttemptResult(result={"chosen": "left"})
        assert world.begun("r:1.0") == 1
        assert not world.running("r:1.0")

    play(scenario)


def test_attempts_at_the_same_time_have_their_own_ends(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        async with world.device() as device, asyncio.TaskGroup() as group:
            heard = [Heard() for _ in range(3)]
            given = [attempt("answer" if index else "slow", f"r:1.{index}") for index in range(3)]
            ends = [group.create_task(device.perform(one, each)) for one, each in zip(given, heard, strict=True)]
        assert [end.result().result for end in ends] == [{"slow": True}, {"answer": 42}, {"answer": 42}]
        handles = [handle for each in heard for handle in set(each.handles)]
        assert len(set(handles)) == len(handles)

    play(scenario)


def test_nothing_is_reported_after_the_end(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        heard = Heard()
        async with world.device() as device:
            await device.perform(attempt("slow"), heard)
            before = len(heard.reports), list(heard.signs), list(heard.handles)
            await device.perform(attempt("slow", "r:2.0"), Heard())
            assert (len(heard.reports), heard.signs, heard.handles) == before

    play(scenario)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"text " * 100_000])  # the largest file that each kind takes has a test of its own
def test_a_file_travels_both_ways(play: Play, tmp_path: Path, content: bytes) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "files")
        files = TestFiles(tmp_path / "files")
        with files.current():
            value = await files.put("$(touch pwned) a.txt", content)
            async with world.device() as device:
                end = await device.perform(attempt("copy", arguments={"source": value}), Heard())
        assert end.error is None, end
        (returned,) = files_in(end.result)
        assert await files.content(returned) == content
        assert returned["name"] == safe_name(returned["name"])
        assert world.begun("r:1.0") == 1

    play(scenario)


def test_a_file_of_another_run_is_refused_before_the_work_begins(play: Play, tmp_path: Path) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "files")
        files, heard = TestFiles(tmp_path / "files"), Heard()
        with files.current():
            value = await files.put("a.txt", b"hello", root="other")
            async with world.device() as device:
                end = await device.perform(attempt("copy", arguments={"source": value}), heard)
        assert end.error is not None
        assert end.error.code == "bad_arguments"
        assert "has no such file" in end.error.words
        assert heard.signs == []
        assert world.begun("r:1.0") == 0

    play(scenario)


def test_a_result_that_is_too_large_for_the_journal_is_an_error(play: Play) -> None:
    async def scenario(world: RemoteWorld) -> None:
        needs(world, "large")
        async with world.device() as device, Dispatcher({"d": device}, lambda: 0.0) as dispatcher:
            end = await AttemptPerformer(dispatcher).perform("r:1.0", attempt("large"), lambda event: None)
        assert isinstance(end, AttemptEnded)
        assert end.error is not None
        assert end.error.code == "bad_result"

    play(scenario)
