"""Devices that are added to a fleet file, and the credentials that it refuses."""

from __future__ import annotations

import errno
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from asterism.app.bootstrap import device_kinds
from asterism.devices.fleet.fleet_addition import (
    append_device,
    check_arguments,
    check_url,
    check_values,
    checked_addition,
    is_credential,
    secret_name,
    table_text,
)
from asterism.devices.kinds.a2a.kind import A2aEntry
from asterism.devices.kinds.local import LocalEntry
from asterism.errors import InvalidInput

OLD = """# My devices.
name = "office"   # the fleet

[[devices]]
id = "laptop"  # mine
aliases = ["Desk"]
"""
KINDS = device_kinds()
AGENT = {"id": "agent", "kind": "a2a", "url": "https://agent.example.org"}


def test_a_table_is_appended_and_the_rest_of_the_file_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(OLD, encoding="utf-8")
    file.chmod(0o600)
    append_device(file, AGENT, KINDS)
    assert file.read_text(encoding="utf-8") == OLD + '\n[[devices]]\nid = "agent"\nkind = "a2a"\nurl = "https://agent.example.org"\n'
    assert file.stat().st_mode & 0o777 == 0o600
    append_device(file, {"id": "lab", "kind": "ssh", "host": "lab"}, KINDS)
    assert [table["id"] for table in tomllib.loads(file.read_text(encoding="utf-8"))["devices"]] == ["laptop", "agent", "lab"]


@pytest.mark.parametrize(
    ("old", "between"), [("", ""), ('[[devices]]\nid = "a"', "\n\n"), ('[[devices]]\r\nid = "a"\r\n', "\r\n")], ids=["none", "cut", "dos"]
)
def test_a_file_of_any_form_can_be_extended(tmp_path: Path, old: str, between: str) -> None:
    file = tmp_path / "fleet.toml"
    if old:
        file.write_bytes(old.encode())
    assert isinstance(checked_addition(file, AGENT, KINDS), A2aEntry)
    assert file.exists() == bool(old)
    append_device(file, AGENT, KINDS)
    text = file.read_bytes().decode()
    assert text.startswith(old + between + "[[devices]]")
    assert ("\r\n" in text) == (text.count("\r\n") == text.count("\n"))
    assert tomllib.loads(text)["devices"][-1] == AGENT


@pytest.mark.parametrize(
    "value",
    [
        'say "yes" \\ no',
        "line\nbreak\ttab",
        "\x07\x7f",
        "été 🎉",
        "${secret.A} $B $$",
        "'''",
        ["a", "-b", ""],
        {"X-Odd Näme": "1", "a": "2"},
    ],
)
def test_any_value_is_read_as_it_was_given(value: Any) -> None:
    assert tomllib.loads(table_text({"id": "d", "value": value}))["devices"] == [{"id": "d", "value": value}]


@pytest.mark.parametrize(
    ("old", "table", "why"),
    [
        (OLD, {**AGENT, "id": "laptop"}, r"devices\[1\] \(laptop\)\.id: there is another device 'laptop'; ids are unique"),
        (OLD, {**AGENT, "id": "desk"}, r"devices\[1\] \(desk\)\.id: 'desk' already names device 'laptop'"),
        (OLD, {**AGENT, "id": "here"}, r"'here' is the device of a program's own functions"),
        (OLD, {**AGENT, "id": "two words"}, r"devices\[1\] \(two words\)\.id: Expected str"),
        (OLD, {**AGENT, "id": ""}, r"devices\[1\]\.id: Expected str"),
        (OLD, {"id": "b", "kind": "ssh", "host": "\ud800"}, "is not valid Unicode text"),
        ("devices = [", AGENT, "not TOML"),
        ('devices = [{id = "a"}]', AGENT, "not TOML"),
        ('[[devices]]\nid = "a"\nodd = 1\n', AGENT, r"devices\[0\] \(a\): unknown key 'odd'"),
    ],
)
def test_what_cannot_be_added_leaves_the_file_alone(tmp_path: Path, old: str, table: dict[str, Any], why: str) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(old, encoding="utf-8")
    with pytest.raises(InvalidInput, match=why):
        append_device(file, table, KINDS)
    assert file.read_text(encoding="utf-8") == old


def test_a_file_that_cannot_be_written_or_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"none/fleet\.toml: the fleet file cannot be written: No such file or directory"):
        append_device(tmp_path / "none" / "fleet.toml", AGENT, KINDS)
    with pytest.raises(InvalidInput, match="the fleet file cannot be read: Is a directory"):
        append_device(tmp_path, AGENT, KINDS)
    (tmp_path / "binary.toml").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match=r"it is not UTF-8 text \(byte 0\)"):
        append_device(tmp_path / "binary.toml", AGENT, KINDS)
    file = tmp_path / "fleet.toml"
    file.write_text(OLD, encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match="cannot be written: No space left on device"):
        append_device(file, AGENT, KINDS)
    assert file.read_text(encoding="utf-8") == OLD


def test_a_device_of_the_default_kind_is_checked_as_well(tmp_path: Path) -> None:
    assert checked_addition(tmp_path / "fleet.toml", {"id": "a"}, KINDS) == LocalEntry(id="a")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer abcdef"),
        ("Authorization", "hunter2"),
        ("X-API-Key", "1"),
        ("Cookie", "sid=4711"),
        ("X-Trace", "Bearer abc"),
        ("X-Odd", "sk-proj-abcdefghijklmnop"),
        ("X-Odd", "ghp_abcdefghijklmnopqrst"),
        ("X-Odd", "AKIAABCDEFGHIJKLMNOP"),
        ("X-Odd", "d41d8cd98f00b204e9800998ecf8427e"),
        ("X-Odd", "aB3dE6gH9jK2mN5pQ8sT1vW4"),
        ("DB_PASSWORD", "hunter2"),
        ("Authorization", "Bearer ghp_abcdefghijklmnopqrst${secret.A}"),
    ],
)
def test_a_literal_credential_is_refused_with_the_way_to_write_it(name: str, value: str) -> None:
    assert is_credential(name, value)
    with pytest.raises(InvalidInput) as refused:
        check_values("header", {name: value}, "my-tickets")
    assert value not in str(refused.value)
    assert str(refused.value).endswith(
        "write '${secret.MY_TICKETS_TOKEN}' in its place, and set ASTERISM_SECRET_MY_TICKETS_TOKEN where the tasks are performed"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer ${secret.TOKEN}"),
        ("Authorization", "Bearer $TOKEN"),
        ("Authorization", "Basic ${TOKEN}"),
        ("Cookie", "sid=${secret.SID}; theme=dark"),
        ("X-Tenant", "acme"),
        ("Accept-Language", "en"),
        ("TOKEN_FILE", "/run/secrets/token"),
        ("PATH", "/usr/local/bin:/usr/bin"),
    ],
)
def test_a_reference_or_an_ordinary_value_is_no_credential(name: str, value: str) -> None:
    check_values("header", {name: value}, "d")


def test_a_credential_among_the_arguments_of_a_program_is_refused() -> None:
    check_arguments(("npx", "-y", "@scope/server-filesystem@1.2.3", "--root", "/srv", "--token-file", "/run/token", "--key"), "d")
    for command in (("s", "--token", "abc"), ("s", "--api-key=abc"), ("s", "ghp_abcdefghijklmnopqrst"), ("s", "${secret.A}")):
        with pytest.raises(InvalidInput, match=r"argument \d of the command is a credential.*--env NAME='\$\{secret\.D_TOKEN\}'"):
            check_arguments(command, "d")


def test_a_credential_in_a_url_is_refused() -> None:
    check_url("https://example.org/mcp?tenant=acme&file=a")
    for url in (
        "https://me:pass@example.org",
        "https://token@example.org",
        "https://example.org?api_key=abc",
        "https://example.org?x=ghp_abcdefghijklmnopqrst",
    ):
        with pytest.raises(InvalidInput, match="the URL contains a credential"):
            check_url(url)
    with pytest.raises(InvalidInput, match="is not a URL"):
        check_url("https://[bad")


def test_a_secret_is_named_after_its_device() -> None:
    assert secret_name("my-tickets.eu") == "MY_TICKETS_EU_TOKEN"
