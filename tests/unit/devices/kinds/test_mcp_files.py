"""Files to and from MCP servers."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.kinds import remote
from asterism.devices.kinds.mcp import results as mcp_files
from asterism.devices.kinds.mcp.tools import content_form
from asterism.devices.port import AttemptError, AttemptResult
from tests.support.attempt_files import TestFiles
from tests.support.device_signs import Heard
from tests.support.mcp_devices import attempt, calls, open_mcp


def message(end: AttemptResult, code: str = "bad_arguments") -> str:
    assert end.error is not None, end
    assert end.error.code == code
    return end.error.message


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": "string"}, ""),
        ({"type": "string", "contentEncoding": "base64"}, "base64"),
        ({"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}, "base64"),
        ({"type": "string", "format": "byte"}, "base64"),
        ({"type": "string", "contentMediaType": "text/csv"}, "text"),
        ({"type": "string", "contentEncoding": "quoted-printable", "contentMediaType": "text/csv"}, ""),
        ({"anyOf": [{"type": "string", "format": "base64"}, {"type": "null"}]}, "base64"),
        ({"type": "object", "contentEncoding": "base64"}, ""),
        (True, ""),
        (None, ""),
    ],
)
def test_a_schema_says_how_a_tool_takes_the_content_of_a_file(schema: Any, form: str) -> None:
    assert content_form(schema) == form


def test_a_file_is_sent_by_content_and_what_is_returned_becomes_a_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = TestFiles(tmp_path)
        value = await files.put("a.bin", bytes(range(256)) * 4096)
        async with open_mcp(tmp_path) as device:
            assert device.profile.file_bytes == 1 << 20
            skill = device.profile.skill("copy")
            assert skill is not None
            assert skill.parameters["properties"]["source"]["anyOf"][1] == {"type": "object", "format": "file"}
            with files.current():
                end = await device.perform(attempt("copy", arguments={"source": value}), Heard())
                assert end.error is None, end
                (returned,) = end.result["content"]
                assert (returned["$file"], returned["name"], returned["size"]) == (value["$file"], "copy.txt", 1 << 20)
                end = await device.perform(attempt("copy", arguments={"source": base64.b64encode(b"hello").decode()}), Heard())
                assert await files.content(end.result["content"][0]) == b"hello"  # who has the content may give it as it is
                end = await device.perform(attempt("take", arguments={"text": await files.put("b.txt", "é".encode())}), Heard())
                assert end.result == {"result": "1 characters"}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("skill", "argument", "content", "expected"),
    [
        ("copy", "source", b"x" * ((1 << 20) + 1), "file a.txt: device d takes files of 1,048,576 bytes at most"),
        (
            "take",
            "plain",
            b"x",
            'file a.txt: argument plain of take takes no file; it takes one if its schema has "contentEncoding": "base64"',
        ),
        ("take", "rows", b"x", "file a.txt: argument rows of take takes no file"),
        ("take", "unknown", b"x", "file a.txt: argument unknown of take takes no file"),
        ("take", "text", b"\xff", "file a.txt: argument text takes a text, and this is none in UTF-8"),
    ],
)
def test_a_file_that_a_tool_cannot_be_handed_is_refused_before_the_call(
    tmp_path: Path, skill: str, argument: str, content: bytes, expected: str
) -> None:
    async def scenario() -> None:
        files, heard = TestFiles(tmp_path), Heard()
        value: Any = {**await files.put("a.txt", content), "size": 1}
        async with open_mcp(tmp_path) as device:
            with files.current():
                arguments = {argument: [value] if argument == "rows" else value}
                assert expected in message(await device.perform(attempt(skill, arguments=arguments), heard))
        assert heard.signs == []
        assert calls(tmp_path) == []

    asyncio.run(scenario())


def test_all_files_of_a_call_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "SENT_BYTES", 5)

    async def scenario() -> None:
        files = TestFiles(tmp_path)
        given = {name: await files.put("a.txt", b"hello", name.encode()) for name in ("source", "other")}
        with files.current():
            parameters = {"properties": {name: {"type": "string", "format": "base64"} for name in given}}
            with pytest.raises(AttemptError, match="bytes at most, and 5 in all"):
                await mcp_files.with_contents(attempt("copy", arguments=given), parameters)

    asyncio.run(scenario())


def test_contents_become_files_and_links_are_read_through_the_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = TestFiles(tmp_path)
        async with open_mcp(tmp_path) as device:
            with files.current():
                end = await device.perform(attempt("contents"), Heard())
                assert end.error is None, end
                *stored, none, metadata = end.result["content"]
                assert [(it["name"], it["media_type"]) for it in stored] == [
                    ("image.png", "image/png"),
                    ("audio.wav", "audio/x-wav"),
                    ("note.txt", "text/plain"),
                    ("q3.csv", "text/csv"),
                ]
                assert await files.content(stored[3]) == b"a,b\n1,2\n"
                assert [none["uri"], metadata["uri"]] == ["store://reports/none.csv", "http://169.254.169.254/latest"]  # they stay links
                many = await device.perform(attempt("links", arguments={"count": 22}), Heard())
                assert [it.get("type") for it in many.result["content"]] == [None] * 20 + ["resource_link"] * 2
                assert "not base64" in message(await device.perform(attempt("bad_image"), Heard()), "bad_result")

    asyncio.run(scenario())
