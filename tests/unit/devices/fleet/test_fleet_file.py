"""Fleet files: their devices, and the one-line errors of invalid ones."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import cast

import pytest

from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.fleet.fleet_file import (
    OPENED_AT_ONCE,
    DeviceEntry,
    DeviceKind,
    FleetContext,
    GuardEntry,
    read_channels,
    read_fleet,
    read_hooks,
    submitter_may_approve,
)
from asterism.devices.kinds.local import LocalEntry
from asterism.devices.port import Device
from asterism.engine.control.run_control import FleetGuarded
from asterism.errors import InvalidInput
from tests.support.fleets import kind_of, open_fleet

SKILLS = """
from asterism import skill
@skill(idempotent=True)
def count(path: str) -> int:
    '''Count.'''
    return 0
@skill(name="count")
def count_again(): ...
def undecorated(): ...
number = 3
"""

WHOLE = """
name = "office"
[[devices]]
id = "laptop"
kind = "local"
description = "A laptop."
aliases = ["my laptop"]
capabilities = ["storage"]
concurrency = 2
skills = ["skills.py:count"]
[[devices.commands]]
name = "lines"
description = "Count lines."
argv = ["wc", "-l", "{path}"]
idempotent = true
tags = ["count"]
output = "text"
timeout_s = 60
[devices.metadata]
os = "linux"
[[devices]]
id = "server"
"""

COMMON_KEYS = "id, kind, description, aliases, capabilities, concurrency, metadata, guards"
GUARD_KEYS = "approval, destructive, no_options, within, secrets, task_env, task_folder"
COMMAND_KEYS = "name, argv, description, idempotent, tags, examples, output, file, files, returns, timeout_s"


def never_opened(entry: DeviceEntry, context: FleetContext) -> AbstractAsyncContextManager[Device]:
    raise AssertionError(entry, context)


KINDS = {"local": DeviceKind(LocalEntry, never_opened), "bare": DeviceKind(DeviceEntry, never_opened)}


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "skills.py").write_text(SKILLS)
    (tmp_path / "broken.py").write_text("import no_such_module_at_all\n")
    (tmp_path / "untidy.py").write_text("def f(:\n")
    (tmp_path / "starred.py").write_text("from asterism import skill\n@skill\ndef f(*args): ...\n")
    (tmp_path / "exits.py").write_text("import os\nos._exit(3)\n")
    file = tmp_path / "fleet.toml"
    file.write_text(text)
    return file


def opened(tmp_path: Path, text: str) -> dict[str, Device]:
    async def scenario() -> dict[str, Device]:
        async with open_fleet(written(tmp_path, text)) as devices:
            return devices

    return asyncio.run(scenario())


def test_a_fleet_file_becomes_devices_in_its_order(tmp_path: Path) -> None:
    devices = opened(tmp_path, WHOLE)
    assert list(devices) == ["laptop", "server"]
    laptop = devices["laptop"].profile
    assert (laptop.description, laptop.aliases, laptop.capabilities, laptop.concurrency) == ("A laptop.", ("my laptop",), ("storage",), 2)
    assert laptop.metadata == {"os": "linux"}
    count, lines = laptop.skills
    assert (count.name, count.description, count.idempotent) == ("count", "Count.", True)
    assert (lines.name, lines.description, lines.idempotent, lines.tags) == ("lines", "Count lines.", True, ("count",))
    assert lines.required_names() == ("path",)
    assert lines.output_fields() == frozenset({"output", "exit_code"})
    assert devices["server"].profile.skills == ()


@pytest.mark.parametrize("where", ["", "[devices.guards.lines]\n"])
def test_a_pattern_of_nearly_every_variable_is_refused_with_what_to_write(tmp_path: Path, where: str) -> None:
    text = f'[[devices]]\nid = "laptop"\n{where}task_env = ["APP_*", "*"]\n'
    with pytest.raises(InvalidInput, match=r"laptop\).*'\*' would let others set almost any variable; name each, or .* as in APP_\*"):
        opened(tmp_path, text)


def test_devices_are_opened_together_and_an_error_is_about_the_first_of_the_file(tmp_path: Path) -> None:
    text = "".join(f'[[devices]]\nid = "d{number}"\nkind = "slow"\n' for number in range(40))
    running, most, begun = 0, 0, []

    async def open_one(entry: DeviceEntry) -> Device:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        begun.append(entry.id)
        for _turn in range(3 if entry.id != "d2" else 9):
            await asyncio.sleep(0)
        running -= 1
        if entry.id in wrong:
            raise InvalidInput("host: wrong")
        return cast("Device", entry.id)

    async def opened() -> list[str]:
        async with open_fleet(written(tmp_path, text), {"slow": kind_of(open_one)}) as devices:
            return list(devices)

    wrong: set[str] = set()
    assert asyncio.run(opened()) == [f"d{number}" for number in range(40)]
    assert most == OPENED_AT_ONCE
    wrong.update(("d2", "d5", "d30"))
    begun.clear()
    with pytest.raises(InvalidInput, match=r"devices\[2\] \(d2\)\.host: wrong"):
        asyncio.run(opened())
    assert len(begun) < 40


def test_a_fleet_file_may_name_only_where_messages_go(tmp_path: Path) -> None:
    file = written(tmp_path, "[[notify]]\nname = 'ops'\nurl = 'json://localhost'\n")
    assert read_fleet(file, KINDS) == ()
    assert [it.name for it in read_channels(file)] == ["ops"]


def test_a_fleet_file_may_name_only_where_events_come_from(tmp_path: Path) -> None:
    hook = "[[hooks]]\nname = 'shop'\nsigned = 'github'\nkey = '${secret.SHOP}'\n"
    assert read_fleet(written(tmp_path, hook), KINDS) == ()
    assert [(it.name, it.signed) for it in read_hooks(written(tmp_path, hook))] == [("shop", "github")]
    with pytest.raises(InvalidInput, match="hooks: two tables have the name 'shop'"):
        read_hooks(written(tmp_path, hook * 2))


def test_a_fleet_may_have_a_name(tmp_path: Path) -> None:
    named, unnamed = (read_fleet(written(tmp_path, f'{name}[[devices]]\nid = "a"\n'), KINDS) for name in ('name = "office"\n', ""))
    assert named == unnamed == (LocalEntry(id="a"),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = = 3", "not TOML: Invalid value (at line 1, column 5)"),
        ("", "devices: there are none; add a [[devices]] table with an id"),
        ("nmae = 'x'", "unknown key 'nmae'; allowed: name, submitter_may_approve, devices, notify, hooks"),
        ("[[notify]]\nname = 'ops'", "notify[0]: Object missing required field url"),
        ("[[notify]]\nname = 'o p s'\nurl = 'x'", "notify[0].name: Expected str matching regex '^[A-Za-z0-9_-]{1,40}$'"),
        (
            "[[notify]]\nname = 'ops'\nurl = 'x'\non = ['fire']",
            "notify[0].on[0]: Invalid enum value 'fire'",
        ),
        ("devices = 3", "devices: Expected array, got int"),
        ("[[devices]]", "devices[0]: Object missing required field id"),
        ("[[devices]]\nid = 'a b'", r"devices[0] (a b).id: Expected str matching regex '^\\S+$'"),
        ("[[devices]]\nid = 'a'\n[[devices]]\nid = 'b'\nconcurrency = 0", "devices[1] (b).concurrency: Expected int >= 1"),
        ("[[devices]]\nid = 'a'\nconcurrency = '2'", "devices[0] (a).concurrency: Expected int, got str"),
        ("[[devices]]\nid = 'a'\nkind = 'toaster'", "devices[0] (a).kind: unknown kind 'toaster'; allowed: bare, local"),
        (
            "[[devices]]\nid = 'a'\nskils = []",
            f"devices[0] (a): unknown key 'skils'; allowed: {COMMON_KEYS}, skills, commands, env, folder, inherit, {GUARD_KEYS}",
        ),
        (
            "[[devices]]\nid = 'a'\nkind = 'bare'\nskills = []",
            f"devices[0] (a): unknown key 'skills'; allowed: {COMMON_KEYS}, {GUARD_KEYS}",
        ),
        (
            "[[devices]]\nid = 'a'\n[[devices.commands]]\nname = 'c'\nargv = ['ls']\nshell = true",
            f"devices[0] (a).commands[0]: unknown key 'shell'; allowed: {COMMAND_KEYS}",
        ),
        (
            "[[devices]]\nid = 'a'\n[devices.guards.c]\naproval = 'always'",
            f"devices[0] (a).guards[...]: unknown key 'aproval'; allowed: {GUARD_KEYS}",
        ),
        (
            "[[devices]]\nid = 'a'\n[[devices.commands]]\nname = 'c'\nargv = 'ls -l'",
            "devices[0] (a).commands[0].argv: Expected array, got str",
        ),
        ("[[devices]]\nid = 'a'\n[[devices]]\nid = 'a'", "devices[1] (a).id: there is another device 'a'; ids are unique"),
        (
            "[[devices]]\nid = 'a'\n[[devices]]\nid = 'b'\naliases = ['x', 'A']",
            "devices[1] (b).aliases[1]: 'A' already names device 'a'",
        ),
        ("[[devices]]\nid = 'a'\naliases = ['b']\n[[devices]]\nid = 'b'", "devices[1] (b).id: 'b' already names device 'a'"),
    ],
)
def test_an_error_in_a_fleet_file_is_one_line_with_file_and_key(tmp_path: Path, text: str, told: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InvalidInput) as refused:
        read_fleet(file, KINDS)
    assert str(refused.value) == f"{file}: {told}"


def test_a_fleet_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the fleet file cannot be read: No such file or directory"):
        read_fleet(tmp_path / "none.toml", KINDS)
    with pytest.raises(InvalidInput, match="the fleet file cannot be read: Is a directory"):
        read_fleet(tmp_path, KINDS)
    with pytest.raises(InvalidInput, match=r"'\\x00': the fleet file cannot be read: embedded null byte"):
        read_fleet(Path("\0"), KINDS)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match=r"not TOML: it is not UTF-8 text \(byte 0\)"):
        read_fleet(tmp_path / "binary.toml", KINDS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("skills = ['none.py:f']", "skills[0]: 'none.py:f': there is no file none.py"),
        ("skills = ['skills.py']", "skills[0]: 'skills.py': not the name of a skill; write file.py:function or package.module:function"),
        ("skills = ['skills.py:f']", "skills[0]: 'skills.py:f': skills.py has no function f; its skills are: count, count_again"),
        ("skills = ['skills.py:number']", "skills[0]: 'skills.py:number': number of skills.py is not a function but a int"),
        ("skills = ['skills.py:undecorated']", "undecorated of skills.py is not a skill; add @skill (from asterism import skill) above it"),
        (
            "skills = ['skills.py:count', 'skills.py:count_again']",
            "skills[1]: this device has another skill 'count'; set a unique name with @skill(name=…)",
        ),
        (
            "skills = ['broken.py:f']",
            "broken.py does not import: ModuleNotFoundError: No module named 'no_such_module_at_all' (broken.py:1)",
        ),
        ("skills = ['untidy.py:f']", "untidy.py does not import: SyntaxError: invalid syntax (untidy.py, line 1)"),
        ("skills = ['starred.py:f']", "starred.py: skill f: its parameter `*args` cannot be passed by name"),
        ("skills = ['exits.py:f']", "does not import: its process exited with code 3"),
        ("skills = ['no_package_of_ours.x:f']", "no_package_of_ours.x does not import: ModuleNotFoundError: No module named"),
        ("[[devices.commands]]\nname = 'c'\nargv = []", "commands[0].argv: empty; write the program and its arguments"),
        ("[[devices.commands]]\nname = 'c'\nargv = ['{x}']", "commands[0].argv[0]: '{x}': the program cannot be a placeholder"),
        ("[[devices.commands]]\nname = 'c'\nargv = ['no-such-program']", "commands[0].argv[0]: there is no program 'no-such-program'"),
        ("[[devices.commands]]\nname = 'c'\nargv = ['ls', \"\\u0000\"]", "commands[0].argv[1]: contains a NUL character"),
        (
            "skills = ['skills.py:count']\n[[devices.commands]]\nname = 'count'\nargv = ['ls']",
            "commands[0].name: this device has another skill 'count'",
        ),
    ],
)
def test_an_error_in_a_skill_is_one_line_with_file_and_key(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        opened(tmp_path, "[[devices]]\nid = 'a'\n" + text)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path / 'fleet.toml'}: devices[0] (a).")
    assert told in message
    assert len(message.splitlines()) == 1


def test_a_skill_may_come_from_a_package_next_to_the_fleet_file(tmp_path: Path) -> None:
    (tmp_path / "office_tools").mkdir()
    (tmp_path / "office_tools" / "paper.py").write_text("from asterism import skill\n@skill\ndef fold(): ...\n")
    (tmp_path / "office_tools" / "near.py").write_text("from paper import fold\n")
    skills = "skills = ['office_tools.paper:fold']\n[[devices]]\nid = 'b'\nskills = ['office_tools/near.py:fold']"
    devices = opened(tmp_path, "[[devices]]\nid = 'a'\n" + skills)
    assert [[skill.name for skill in device.profile.skills] for device in devices.values()] == [["fold"], ["fold"]]


def test_user_code_is_never_imported_into_our_own_process(tmp_path: Path) -> None:
    (tmp_path / "telling.py").write_text("import os\nfrom asterism import skill\nPID = os.getpid()\n@skill(name=f'p{PID}')\ndef f(): ...\n")

    (name,) = [skill.name for skill in opened(tmp_path, "[[devices]]\nid = 'a'\nskills = ['telling.py:f']")["a"].profile.skills]
    assert re.fullmatch(r"p\d+", name)
    assert name != f"p{os.getpid()}"


def test_a_fleet_file_says_if_the_submitter_of_a_run_may_approve(tmp_path: Path) -> None:
    """A6: without the key the submitter may, and each run that is acquired gets what the file says."""
    path = tmp_path / "fleet.toml"
    for text, may in (("", True), ("submitter_may_approve = false\n", False)):
        path.write_text(text + '[[devices]]\nid = "a"\n', encoding="utf-8")
        assert submitter_may_approve(path) is may
        events = Dispatcher({}, lambda: 0.0, submitter_may_approve=may).first_events()
        assert events == [(FleetGuarded(guards={}, submitter_may_approve=may), "fleet")]
    assert submitter_may_approve(None)


def test_a_guard_of_a_skill_on_a_device_without_skills_is_refused() -> None:
    """It would guard nothing, and the work of the device would go unasked."""
    entry = DeviceEntry(id="agent", kind="a2a", guards={"ship": GuardEntry(approval="always")})
    with pytest.raises(InvalidInput, match="guards: a device of kind a2a has no skills, so 'ship' guards nothing; guard the device"):
        entry.profile(natural_language=True)
