"""Requests in words for tools as MCP servers describe them: values need no quotes, and none is taken for another."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.words.planner.planner import plan_offline
from asterism.words.planner.refusal import PlanRefused

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def tool(name: str, description: str, required: list[str], **properties: Any) -> Skill:
    return Skill(name=name, description=description, parameters={"type": "object", "properties": properties, "required": required})


FETCH = tool("fetch", "Fetches a URL from the internet.", ["url"], url={**TEXT, "format": "uri"}, max_length=WHOLE, raw={"type": "boolean"})
CONVERT = tool(
    "convert_time",
    "Convert time between timezones.",
    ["source_timezone", "time", "target_timezone"],
    source_timezone=TEXT,
    time=TEXT,
    target_timezone=TEXT,
)
COMMIT = tool("git_commit", "Records changes to the repository.", ["repo_path", "message"], repo_path=TEXT, message=TEXT)
WRITE = tool("write_file", "Create a new file with new content.", ["path", "content"], path=TEXT, content=TEXT)
LIST = tool("list_directory", "Get a listing of all files in a path.", ["path"], path=TEXT)
SEARCH = tool("search_files", "Search for files that match a pattern.", ["path", "pattern"], path=TEXT, pattern=TEXT)
FLEET = {
    "web": AgentProfile(device_id="web", kind="mcp", skills=(FETCH,)),
    "clock": AgentProfile(device_id="clock", kind="mcp", skills=(CONVERT,)),
    "git": AgentProfile(device_id="git", kind="mcp", skills=(COMMIT,)),
    "disk": AgentProfile(device_id="disk", kind="mcp", skills=(WRITE, LIST, SEARCH)),
}


@pytest.mark.parametrize(
    ("request_", "planned"),
    [
        (
            "fetch https://example.org/a?x=1&y=2#z with max length 500",
            [("fetch", {"url": "https://example.org/a?x=1&y=2#z", "max_length": 500})],
        ),
        ("fetch https://example.org/a and list /srv", [("fetch", {"url": "https://example.org/a"}), ("list_directory", {"path": "/srv"})]),
        ("write 'hello' to notes.txt", [("write_file", {"path": "notes.txt", "content": "hello"})]),
        (
            "convert time 16:30 from Europe/Berlin to Asia/Tokyo",
            [("convert_time", {"time": "16:30", "source_timezone": "Europe/Berlin", "target_timezone": "Asia/Tokyo"})],
        ),
    ],
)
def test_a_value_without_quotes_is_placed(request_: str, planned: list[Any]) -> None:
    assert [(task["skill"], task["inputs"]) for task in plan_offline(request_, FLEET)["tasks"]] == planned


@pytest.mark.parametrize(
    "request_",
    [
        "write ./a.txt to ./b.txt",
        "write 'hello' and 'you' to notes.txt",
        "search for *.py in ./src",
        "write 10:45 to 11:30",
        "commit /a and /b",
    ],
)
def test_a_value_that_may_fit_two_parameters_is_refused(request_: str) -> None:
    with pytest.raises(PlanRefused):
        plan_offline(request_, FLEET)


@pytest.mark.parametrize(
    ("request_", "advice"),
    [
        ("commit /srv/app with message fix the bug", "git_commit repo_path '/srv/app' message 'MESSAGE' on git"),
        ("write hello to notes.txt", "write_file path 'notes.txt' content 'CONTENT' on disk"),
    ],
)
def test_the_advice_keeps_the_values_that_were_given(request_: str, advice: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        plan_offline(request_, FLEET)
    assert refused.value.advice == advice
    assert plan_offline(advice, FLEET)["tasks"]
