"""The kind ``ssh`` against an SSH server in this process, with a real shell below it. Starts are counted on the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh
import msgspec
import pytest

from asterism.devices.attempts.task_log import CURRENT, AttemptLog, AttemptLogWriter
from asterism.devices.dispatch import remote
from asterism.devices.kinds.ssh import device as ssh
from asterism.devices.kinds.ssh.device import SshDevice
from asterism.devices.kinds.ssh.script import folder_of, whole_script
from asterism.devices.kinds.ssh.shell import HostError
from asterism.devices.port import Attempt, AttemptResult
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput, MissingExtra
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet
from tests.support.ssh_server import SshServer, ssh_server
from tests.unit.devices.attempts.test_task_log import CHUNK, FakeStore

START = "echo start >>~/starts; "
PROGRAMS = {
    "say": ["printf", "%s", "{text}"],
    "sh": ["sh", "-c", START + 'eval "$1"', "sh", "{script}"],
    "touch": ["touch", "--", "{name}"],
}
GATED = "echo waiting >&2; while [ ! -e ~/go ]; do sleep 0.05; done; echo done"
"""Reports that it waits, and ends when the file ``go`` is there."""
SHELLS = [shell for shell in ("/bin/sh", "busybox sh", "bash") if shutil.which(shell.split()[0])]

Scenario = Callable[[SshServer, SshDevice], Awaitable[None]]


def fleet_table(server: SshServer, **keys: str) -> str:
    head = {"id": '"d"', "kind": '"ssh"', "host": f'"127.0.0.1:{server.port}"', "known_hosts": '"known_hosts"', "keys": '["id"]'} | keys
    commands = "".join(f"[[devices.commands]]\nname = {name!r}\nargv = {argv!r}\n" for name, argv in PROGRAMS.items())
    return "[[devices]]\n" + "".join(f"{key} = {value}\n" for key, value in head.items() if value) + commands


@contextlib.asynccontextmanager
async def opened(server: SshServer, **keys: str) -> AsyncIterator[SshDevice]:
    fleet = server.home.parent / "fleet.toml"
    fleet.write_text(fleet_table(server, **keys))
    async with open_fleet(fleet) as devices:
        device = devices["d"]
        assert isinstance(device, SshDevice)
        yield device


def play(tmp_path: Path, scenario: Scenario, shell: str = "/bin/sh", **keys: str) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), ssh_server(tmp_path / "host") as server, opened(server, **keys) as device:
            server.shell = shell
            await scenario(server, device)

    asyncio.run(whole())


def attempt(
    skill: str, key: str = "r:1.0", *, again: bool = False, handle: str = "", env: dict[str, str] | None = None, **arguments: Any
) -> Attempt:
    return Attempt(
        key=key, run_id="r", task_id="t", device_id="d", skill=skill, arguments=arguments, again=again, handle=handle, env=env or {}
    )


def text(output: str) -> AttemptResult:
    return AttemptResult(result={"output": output, "exit_code": 0})


def code(end: AttemptResult) -> str:
    assert end.error is not None, end
    assert "\n" not in end.error.message or end.error.code == "raised"
    return end.error.code


@contextlib.asynccontextmanager
async def under_way(device: SshDevice, it: Attempt, heard: Heard) -> AsyncIterator[asyncio.Task[AttemptResult]]:
    """Yield the task that performs an attempt, once its program runs."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(device.perform(it, heard))
        await heard.arrived.wait()
        yield task


async def let_go(device: SshDevice, it: Attempt) -> None:
    async with under_way(device, it, Heard()) as task:
        task.cancel()


def group_of(server: SshServer, key: str = "r:1.0") -> int:
    return int((server.home / ".asterism" / folder_of(key) / "pid").read_text().split()[0])


def living(group: int) -> list[str]:
    """Return the processes of a group, without zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(") ")[2].split()
            if fields[2] == str(group) and fields[0] not in "ZX":
                found.append(stat.parent.name)
    return found


def processes_at(home: Path) -> list[str]:
    """Return the processes whose working folder is the home of the host, as that of its shells is."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cwd").readlink() == home:
                found.append(folder.name)
    return found


def test_its_profile_says_that_it_finds_attempts_again(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert [skill.name for skill in device.profile.skills] == list(PROGRAMS)
        assert device.profile.reattach
        assert device.profile.kind == "ssh"
        assert not server.connections  # opening a fleet connects to nothing

    play(tmp_path, scenario)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_runs_in_a_session_of_its_own_and_its_stderr_is_its_progress(tmp_path: Path, shell: str) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        heard = Heard()
        (server.home / "work").mkdir()
        script = 'echo one >&2; echo two >&2; printf last >&2; echo "$V" "$PWD"'
        end = await device.perform(attempt("sh", script=script, env={"V": "it's $HOME"}), heard)
        assert end == text(f"it's $HOME {server.home}/work")
        assert heard.messages() == ["one", "two", "last"]
        assert heard.signs[0] == "begun"
        assert heard.handles == [f"~/.asterism/{folder_of('r:1.0')}"]
        assert await device.perform(attempt("say", "r:2.0", text=""), Heard()) == text("")
        assert server.starts == ["start"]

    play(tmp_path, scenario, shell, folder='"~/work"')


def test_the_whole_stderr_is_in_the_log_of_the_attempt_with_secrets_masked(tmp_path: Path) -> None:
    async def scenario(_: SshServer, device: SshDevice) -> None:
        store = FakeStore()
        async with AttemptLogWriter(store, lambda: 1.0, lambda: {"NAME": "hunter2-and-more"}) as writer:
            log = AttemptLog(writer, CHUNK)
            token = CURRENT.set(log)
            await device.perform(
                attempt("sh", script="i=0; while [ $((i += 1)) -le 900 ]; do echo é$i hunter2-and-more >&2; done"), Heard()
            )
            CURRENT.reset(token)
            await log.close()
        assert store.data().decode() == "".join(f"é{number} [secret]\n" for number in range(1, 901))
        assert {chunk.stream for batch in store.batches for chunk in batch} == {"stderr"}

    play(tmp_path, scenario)


def test_text_of_a_host_that_still_runs_an_attempt_is_one_bounded_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = whole_script("printf 'asterism: state runs 1\\033[31m%0999d\\n' 7")
    monkeypatch.setattr(ssh, "stop_script", lambda _: answer)

    async def scenario(_: SshServer, device: SshDevice) -> None:
        left = await device.stop(attempt("sh"))
        assert "\x1b" not in left
        assert len(left) < 120
        assert left.startswith("sh still runs on 127.0.0.1:")

    play(tmp_path, scenario)


def test_the_reason_of_a_host_is_one_bounded_line() -> None:
    assert str(HostError("lost", "it\x1b[31m\nsaid  " + "x" * 5000)).startswith("it [31m said xxx")
    assert len(str(HostError("lost", "x" * 5000))) == 1000


def test_an_exit_code_is_an_error_with_the_end_of_stderr(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        end = await device.perform(attempt("sh", script="echo no such luck >&2; exit 3"), Heard())
        assert end.error is not None
        assert (end.error.code, end.error.message) == ("raised", "sh ended with exit code 3: no such luck")

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    "value", ["; touch pwned", "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", "a\nb\n", "*", "~", "-n", "\\n", "é ${HOME}"]
)
def test_an_argument_is_one_argument_whatever_it_contains(tmp_path: Path, value: str) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert await device.perform(attempt("say", text=value), Heard()) == text(value.rstrip("\n"))
        assert await device.perform(attempt("touch", "r:2.0", name=f"f{value}"), Heard()) == text("")
        assert (server.home / f"f{value}").exists()
        assert not list(server.home.rglob("pwned"))

    play(tmp_path, scenario)


def test_a_secret_reaches_a_program_in_a_variable_and_never_in_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTERISM_SECRET_TOKEN", "correct-horse")

    async def scenario(_: SshServer, device: SshDevice) -> None:
        assert device.secret_names == ("TOKEN",)
        assert await device.perform(attempt("sh", script="echo $PASSWORD"), Heard()) == text("correct-horse")
        given = msgspec.structs.replace(attempt("sh", script="correct-horse"), secrets=(("script",),))
        end = await device.perform(given, Heard())
        assert end.error is not None
        assert (end.error.code, "pass it as a variable" in end.error.message) == ("bad_arguments", True)

    play(tmp_path, scenario, env='{PASSWORD = "${secret.TOKEN}"}')


def test_a_long_argument_reaches_the_program(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        long = "x'" * 60_000
        assert await device.perform(attempt("say", text=long), Heard()) == text(long)

    play(tmp_path, scenario)


@pytest.mark.parametrize("shell", SHELLS)
def test_an_attempt_that_was_let_go_goes_on_and_is_taken_up_again(tmp_path: Path, shell: str) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        await let_go(device, attempt("sh", script=GATED))
        async with opened(server) as other:  # another process, which knows the key only
            heard = Heard()
            async with under_way(other, attempt("sh", again=True, script=GATED), heard) as task:
                (server.home / "go").touch()
            assert task.result() == text("done")
            assert heard.messages() == ["waiting"]
        handle = heard.handles[0]
        assert await device.perform(attempt("sh", again=True, handle=handle, script=GATED), Heard()) == text("done")
        assert server.starts == ["start"]

    play(tmp_path, scenario, shell)


def test_again_starts_an_attempt_that_never_started_but_not_one_whose_folder_is_gone(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert await device.perform(attempt("sh", again=True, script="echo 1"), Heard()) == text("1")
        heard = Heard()
        end = await device.perform(attempt("sh", "r:2.0", again=True, handle="~/.asterism/x", script="echo 2"), heard)
        assert code(end) == "interrupted"
        assert server.starts == ["start"]

    play(tmp_path, scenario)


@pytest.mark.parametrize("shell", SHELLS)
def test_stop_ends_the_whole_group(tmp_path: Path, shell: str) -> None:
    deaf = "trap '' TERM; " if shell == "/bin/sh" else ""

    async def scenario(server: SshServer, device: SshDevice) -> None:
        it = attempt("sh", script=f"{deaf}sleep 1000 & sleep 1000 & {GATED}")
        heard = Heard()
        async with under_way(device, it, heard) as task:
            group = group_of(server)
            assert len(living(group)) >= 4
            began = time.monotonic()
            assert await device.stop(attempt("sh")) == ""
            assert time.monotonic() - began < ssh.STOP_S
            assert living(group) == []
        assert code(task.result()) == "cancelled"
        assert await device.stop(attempt("sh")) == ""
        assert code(await device.perform(attempt("sh", again=True, script=GATED), Heard())) == "cancelled"
        assert server.starts == ["start"]

    play(tmp_path, scenario, shell)


@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_stopped_before_it_started_never_starts(tmp_path: Path, shell: str) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert await device.stop(attempt("sh")) == ""
        assert code(await device.perform(attempt("sh", script="echo 1"), Heard())) == "cancelled"
        assert server.starts == []

    play(tmp_path, scenario, shell)


@pytest.mark.parametrize("shell", SHELLS)
def test_an_attempt_that_was_killed_on_the_host_is_interrupted_and_leaves_nothing(tmp_path: Path, shell: str) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        await let_go(device, attempt("sh", script=GATED))
        group = group_of(server)
        os.kill(group, signal.SIGKILL)
        assert living(group)
        assert code(await device.perform(attempt("sh", again=True, script=GATED), Heard())) == "interrupted"
        assert living(group) == []
        async with under_way(device, attempt("sh", "r:2.0", script=GATED), Heard()) as task:
            os.killpg(group_of(server, "r:2.0"), signal.SIGKILL)
        assert code(task.result()) == "interrupted"
        assert server.starts == ["start", "start"]

    play(tmp_path, scenario, shell)


def test_a_pid_that_another_process_has_now_is_interrupted_and_left_alone(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        folder = server.home / ".asterism" / folder_of("r:1.0")
        folder.mkdir(parents=True)
        other = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
        (folder / "pid").write_text(f"{other.pid} 1@another-boot\n")
        assert code(await device.perform(attempt("sh", again=True, script=GATED), Heard())) == "interrupted"
        (folder / "exit").unlink(missing_ok=True)
        assert await device.stop(attempt("sh")) == ""
        assert other.returncode is None
        other.kill()
        await other.wait()
        other._transport.close()  # type: ignore[attr-defined]

    play(tmp_path, scenario)


@pytest.mark.parametrize("shell", SHELLS)
def test_two_clients_that_start_the_same_attempt_start_it_once(tmp_path: Path, shell: str) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        async with opened(server) as other:
            for number in range(5):
                it = attempt("sh", f"r:{number}.0", script=f"sleep 0.2; echo {number}")
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(each.perform(it, Heard())) for each in (device, other)]
                assert [task.result() for task in tasks] == [text(str(number))] * 2
                assert len(server.starts) == number + 1

    play(tmp_path, scenario, shell)


@pytest.mark.parametrize("cut_after", [0, 10_000, 400_000, 900_000])
def test_a_connection_that_is_cut_in_the_middle_of_the_output_costs_nothing(tmp_path: Path, cut_after: int) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        server.cut_after = cut_after
        end = await device.perform(attempt("sh", script="yes 0123456789 | head -c 1000000"), Heard())
        assert end == text(("0123456789\n" * 100_000)[:1_000_000].rstrip("\n"))
        assert server.cuts == 1
        assert server.starts == ["start"]

    play(tmp_path, scenario)


def test_a_connection_that_is_cut_while_the_program_reports_costs_no_line_of_it(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        lines = [str(number) for number in range(40)]
        heard = Heard("20")
        it = attempt("sh", script="for i in $(seq 0 39); do echo $i >&2; sleep 0.04; done")
        async with under_way(device, it, heard) as task:
            server.cut()
        assert task.result() == text("")
        assert heard.messages() == lines
        assert server.starts == ["start"]

    play(tmp_path, scenario)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("size", ["100000000", "1048577"])
def test_output_that_is_too_large_ends_the_attempt_and_fills_no_disk(tmp_path: Path, size: str, shell: str) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        end = await device.perform(attempt("sh", script=f"trap '' PIPE; yes | tr -d '\\n' | head -c {size}"), Heard())
        assert code(end) == "bad_result"
        assert end.error is not None
        assert end.error.message.startswith("the output is larger than 1048576 bytes")
        assert sum(file.stat().st_size for file in (server.home / ".asterism").rglob("*") if file.is_file()) < 1_100_000
        assert living(group_of(server)) == []

    play(tmp_path, scenario, shell)


def test_a_program_that_closes_its_output_may_work_on(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert await device.perform(attempt("sh", script="echo 1; exec >&-; sleep 0.3; echo 2 >&2"), Heard()) == text("1")

    play(tmp_path, scenario)


def test_a_line_that_never_ends_is_cut(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        heard = Heard("yyyy")
        script = "(yes | tr -d '\\n' | head -c 30000000; echo; echo last) >&2; exit 1"
        end = await device.perform(attempt("sh", script=script), heard)
        assert code(end) == "raised"
        assert end.error is not None
        assert end.error.message.endswith("y\nlast")
        assert all(len(message) <= 2001 for message in heard.messages())
        assert sum(file.stat().st_size for file in (server.home / ".asterism").rglob("*") if file.is_file()) < 17_000_000

    play(tmp_path, scenario)


def test_processes_that_a_program_leaves_end_with_it(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert await device.perform(attempt("sh", script="sleep 1000 >/dev/null 2>&1 & echo 1"), Heard()) == text("1")
        group = group_of(server)
        while living(group):  # noqa: ASYNC110 - the supervisor writes the exit code first
            await asyncio.sleep(0.01)

    play(tmp_path, scenario)


def test_a_time_limit_of_the_fleet_file_stops_the_program(tmp_path: Path) -> None:
    async def whole() -> None:
        async with ssh_server(tmp_path / "host") as server:
            fleet = tmp_path / "host" / "fleet.toml"
            table = "[[devices.commands]]\nname = 'long'\nargv = ['sleep', '1000']\ntimeout_s = 0.8\n"
            fleet.write_text(fleet_table(server) + table)
            async with open_fleet(fleet) as devices:
                device = devices["d"]
                await device.perform(attempt("say", "r:2.0", text="1"), Heard())  # the time limit includes the connection
                end = await device.perform(attempt("long"), Heard())
                assert end.error is not None
                assert (end.error.code, end.error.message) == ("timeout", "long took longer than its timeout_s in the fleet file, 0.8 s")
                assert living(group_of(server)) == []

    asyncio.run(whole())


def test_an_unknown_host_key_is_refused_in_one_line_that_says_how_to_accept_it(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        known = server.known_hosts.read_text()
        for without in (lambda: server.known_hosts.write_text(""), server.known_hosts.unlink):
            without()
            async with opened(server) as fresh:
                heard = Heard()
                end = await fresh.perform(attempt("sh", script="echo 1"), heard)
            assert code(end) == "no_device"
            assert end.error is not None
            assert f"the host key of 127.0.0.1:{server.port} is not in {server.known_hosts}" in end.error.message
            assert f"ssh-keyscan -p {server.port} 127.0.0.1 >> {server.known_hosts}" in end.error.message
            assert heard.signs == []
            server.known_hosts.write_text(known)
        assert server.starts == []

    play(tmp_path, scenario)


def test_a_changed_host_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # whose configuration tries to switch the verification off
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile none\n")

    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert await device.perform(attempt("say", text="1"), Heard()) == text("1")
        await server.stop()
        await server.start(trusted=False)
        await asyncio.sleep(0.1)
        end = await device.perform(attempt("say", "r:2.0", text="2"), Heard())
        assert code(end) == "no_device"
        assert end.error is not None
        assert "is not the one in" in end.error.message
        end = await device.perform(attempt("say", "r:1.0", again=True, text="1"), Heard())
        assert code(end) == "device_lost"  # it may run there, and has to be stopped
        assert end.error is not None
        assert f"ssh-keygen -f {server.known_hosts} -R '[127.0.0.1]:{server.port}'" in end.error.message

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("configuration", "cipher"),
    [("", "aes256-gcm@openssh.com"), ("Host *\n  Ciphers aes128-ctr,aes256-gcm@openssh.com\n", "aes128-ctr")],
)
def test_the_ciphers_of_the_configuration_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configuration: str, cipher: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(configuration)

    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert await device.perform(attempt("say", text="1"), Heard()) == text("1")
        assert [it.get_extra_info("recv_cipher") for it in server.connections] == [cipher]

    play(tmp_path, scenario)


def test_a_jump_host_is_verified_as_well(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        async with ssh_server(tmp_path / "gate") as gate, opened(server, jump=f'["127.0.0.1:{gate.port}"]', keys='["id", "gate"]') as far:
            shutil.copy(gate.key, server.home.parent / "gate")
            end = await far.perform(attempt("say", text="1"), Heard())
            assert end.error is not None
            assert end.error.message.startswith(f"the host key of 127.0.0.1:{gate.port} is not in")
            server.known_hosts.write_text(server.known_hosts.read_text() + gate.known_hosts.read_text())
            await asyncio.sleep(1.1)
            assert await far.perform(attempt("say", text="1"), Heard()) == text("1")
            assert len(gate.connections) == 2

    play(tmp_path, scenario)


def test_a_jump_host_may_come_from_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()

    async def scenario(server: SshServer, device: SshDevice) -> None:
        async with ssh_server(tmp_path / "gate") as gate, opened(server, keys='["id", "gate"]') as far:
            (tmp_path / ".ssh" / "config").write_text(f"Host 127.0.0.1\n  ProxyJump 127.0.0.1:{gate.port}\n")
            shutil.copy(gate.key, server.home.parent / "gate")
            server.known_hosts.write_text(server.known_hosts.read_text() + gate.known_hosts.read_text())
            assert await far.perform(attempt("say", text="1"), Heard()) == text("1")
            assert len(gate.connections) == 1

    play(tmp_path, scenario)


def test_a_host_that_is_down_is_one_line_and_nothing_has_begun(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        await server.stop()
        heard = Heard()
        end = await device.perform(attempt("say", text="1"), heard)
        assert code(end) == "device_lost"
        assert end.error is not None
        assert end.error.message.startswith(f"127.0.0.1:{server.port} cannot be reached")
        assert heard.signs == []
        assert "may still run" in await device.stop(attempt("say"))

    play(tmp_path, scenario)


def test_a_key_that_the_host_does_not_take_is_one_line(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(server.home.parent / "other")
        async with opened(server, keys='["other"]') as other:
            end = await other.perform(attempt("say", text="1"), Heard())
        assert code(end) == "no_device"
        assert end.error is not None
        assert "refuses the login" in end.error.message
        async with opened(server, keys='["nowhere"]') as other:
            end = await other.perform(attempt("say", text="1"), Heard())
            assert end.error is not None
            assert end.error.message == f"the key {server.home.parent / 'nowhere'} cannot be read: No such file or directory"

    play(tmp_path, scenario)


class Noticed:
    def __init__(self) -> None:
        self.notices: list[str] = []
        self.changed = asyncio.Event()

    def lost(self, why: str) -> None:
        self.notices.append(f"lost: {why}")
        self.changed.set()

    def found(self, profile: AgentProfile | None = None) -> None:
        self.notices.append("found")
        self.changed.set()

    async def until(self, word: str) -> None:
        while not (self.notices and self.notices[-1].startswith(word)):
            self.changed.clear()
            await self.changed.wait()


def test_watch_reports_a_host_that_is_lost_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "WATCHES", Backoff(0.01, 60.0))

    async def scenario(server: SshServer, device: SshDevice) -> None:
        noticed = Noticed()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(remote.watch(device, noticed))
            await noticed.until("found")
            while len(noticed.notices) < 2:
                server.cut()
                await asyncio.sleep(0.01)
            await noticed.until("found")
            assert noticed.notices[1].startswith("lost: ")
            assert await device.perform(attempt("say", text="1"), Heard()) == text("1")
            watching.cancel()

    play(tmp_path, scenario)


def test_a_cancel_that_comes_with_the_connection_ends_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = asyncssh.connection._connect

    async def scenario(_server: SshServer, device: SshDevice) -> None:
        async def connected(*arguments: Any) -> Any:
            connection = await connect(*arguments)
            asyncio.get_running_loop().call_soon(watching.cancel)
            return connection

        monkeypatch.setattr(asyncssh.connection, "_connect", connected)
        watching = asyncio.create_task(device.watch(Noticed()))
        await asyncio.wait([watching])
        assert watching.cancelled()

    play(tmp_path, scenario)


def test_more_attempts_than_sessions_of_one_connection_run_at_once(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        count = 20
        script = f"while [ $(wc -l <~/starts) -lt {count} ]; do sleep 0.1; done; echo 1"
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(device.perform(attempt("sh", f"r:{n}.0", script=script), Heard())) for n in range(count)]
        assert [task.result() for task in tasks] == [text("1")] * count
        assert len(server.connections) == 3

    play(tmp_path, scenario)


@pytest.mark.parametrize("shell", SHELLS)
def test_attempts_one_after_the_other_take_one_session_and_nothing_stays_of_it(tmp_path: Path, shell: str) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        async with opened(server) as other:
            for number in range(4):
                assert await other.perform(attempt("sh", f"r:{number}.0", script=f"echo {number}"), Heard()) == text(str(number))
            assert await other.stop(attempt("sh", "r:9.0")) == ""
            assert len(server.shells) == 1
            assert processes_at(server.home)
        while processes_at(server.home):  # noqa: ASYNC110 - they read the end of their input
            await asyncio.sleep(0.01)

    play(tmp_path, scenario, shell)


def test_a_shell_that_the_host_has_ended_meanwhile_is_replaced(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        assert await device.perform(attempt("sh", script="echo 1"), Heard()) == text("1")
        server.shells[0].kill()
        assert await device.perform(attempt("sh", "r:2.0", script="echo 2"), Heard()) == text("2")
        assert server.starts == ["start", "start"]

    play(tmp_path, scenario)


def test_folders_go_once_their_result_is_durable_and_when_they_are_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: SshServer, device: SshDevice) -> None:
        folders = server.home / ".asterism"
        await device.perform(attempt("sh", "r:1.0", script="echo 1"), Heard())
        await device.perform(attempt("sh", "r:2.0", script="echo 2"), Heard())
        assert len(list(folders.iterdir())) == 2
        monkeypatch.setattr(ssh, "DURABLE_S", 0.0)
        await device.perform(attempt("sh", "r:3.0", script="echo 3"), Heard())
        while len(list(folders.iterdir())) > 1:  # noqa: ASYNC110 - removed in the background
            await asyncio.sleep(0.01)
        await let_go(device, attempt("sh", "r:4.0", script=GATED))
        for key in ("r:3.0", "r:4.0"):
            for file in (folders / folder_of(key)).iterdir():
                os.utime(file, (1, 1))
        noticed = Noticed()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(remote.watch(device, noticed))
            while (folders / folder_of("r:3.0")).exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            watching.cancel()
        assert (folders / folder_of("r:4.0")).exists()
        (server.home / "go").touch()
        assert await device.perform(attempt("sh", "r:4.0", again=True, script=GATED), Heard()) == text("done")

    play(tmp_path, scenario)


def test_a_missing_extra_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[[devices]]\nid = "d"\nkind = "ssh"\nhost = "h"\n')
    monkeypatch.setitem(sys.modules, "asyncssh", None)

    async def whole() -> None:
        with pytest.raises(MissingExtra, match=r"device d, of kind ssh, needs an extra: pip install 'asterism-engine\[ssh\]'"):
            async with open_fleet(fleet):
                pass

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"host": '"a b"'}, "devices[0] (d).host: 'a b' is not an address"),
        ({"host": '"-oProxyCommand=x"'}, "devices[0] (d).host: '-oProxyCommand=x' is not an address"),
        ({"host": '"h:99999"'}, "devices[0] (d).host: 'h:99999' is not an address"),
        ({"jump": '["a", "b c"]'}, "devices[0] (d).jump[1]: 'b c' is not an address"),
        ({"known_host": '"x"'}, "unknown key 'known_host'"),
        ({"strict": "false"}, "unknown key 'strict'"),
    ],
)
def test_a_table_with_an_error_is_refused(tmp_path: Path, keys: dict[str, str], message: str) -> None:
    fleet = tmp_path / "fleet.toml"
    head = {"id": '"d"', "kind": '"ssh"', "host": '"h"'} | keys
    fleet.write_text("[[devices]]\n" + "".join(f"{key} = {value}\n" for key, value in head.items()))

    async def whole() -> None:
        with pytest.raises(InvalidInput) as refused:
            async with open_fleet(fleet):
                pass
        assert message in str(refused.value)

    asyncio.run(whole())
