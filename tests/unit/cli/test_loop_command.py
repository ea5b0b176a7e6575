"""Loops by the commands, in this process: several questions answered in one go, what is told, and what an upgrade means."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from asterism.app.bootstrap import open_runtime, open_store
from asterism.cli import inquiry_commands, loop_command
from asterism.cli.journal_commands import fork
from asterism.cli.run_commands import resume
from asterism.cli.show_commands import log, why
from asterism.constellation.view.proposals import proposal_lines
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.lookup import find_inquiries
from asterism.errors import InvalidInput, Refused

LOOPS = """
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from asterism.loop.python import Later, LoopOptions, ModelWorker, OrchestrationLoop, Worker, tool

def reply(messages, info):
    returned = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(returned) == 3:
        return ModelResponse(parts=[TextPart(content=", ".join(map(str, returned)))])
    paths = ["c"] if returned else ["a", "b"]
    return ModelResponse(parts=[ToolCallPart("remove", {"path": path}) for path in paths])

async def remove(path: str) -> str:
    return f"removed {path}"

cleans = OrchestrationLoop(
    plan=[{"step_id": "clean", "worker": "m", "intent": "clean up"}],
    workers={"m": ModelWorker(FunctionModel(reply), "You clean.", tools=[tool(remove, gate="destructive")])},
)

async def look(handoff):
    return f"saw {handoff.intent}"

async def later(handoff):
    return Later(key="post")

PARALLEL = [{"worker": "look", "intent": "left"}, {"worker": "look", "intent": "right"}, {"worker": "later", "intent": "the post"}]
asks = OrchestrationLoop(plan=[PARALLEL], workers={"look": Worker(look, requires_approval=True), "later": later})

async def fails(handoff):
    raise OSError("foggy")

retries = OrchestrationLoop(
    plan=[{"step_id": "look", "worker": "fails", "intent": "look"}], workers={"fails": fails}, options=LoopOptions(recovery=("retry",))
)
"""


class Table:
    """A database, and loops that are run in it by the commands, in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.database = folder / "runs.db"
        self._capsys = capsys

    def begun(self, name: str, code: int = 3) -> str:
        assert loop_command.run(f"{name}_of_looping_test.py:{name}", "go", database=self.database) == code
        return self.row().run_id

    def answer(self, *arguments: str, **more: Any) -> int:
        return inquiry_commands.answer(*arguments, database=self.database, **more)  # type: ignore[arg-type]

    def row(self) -> RunRow:
        async def found() -> RunRow:
            async with open_store(self.database, create=False) as store:
                return (await store.runs(limit=1))[0]

        return asyncio.run(found())

    def asked(self) -> list[str]:
        self.told()
        inquiry_commands.inbox(database=self.database, json=True)
        return [row["inquiry"] for row in json.loads(self.told())]

    def told(self) -> str:
        return self._capsys.readouterr().out


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Table:
    monkeypatch.chdir(tmp_path)
    for name in ("cleans", "asks", "retries"):
        (tmp_path / f"{name}_of_looping_test.py").write_text(LOOPS, encoding="utf-8")
    return Table(tmp_path, capsys)


def test_one_command_answers_all_gates_of_a_run(table: Table) -> None:
    run = table.begun("cleans")
    assert f"answer all: asterism answer {run} approve|reject --all" in table.told()
    assert len(table.asked()) == 2
    assert table.answer(run, "approve", every=True) == 3
    told = table.told()
    assert told.count("answers approve") == told.count('the call returned "removed ') == 2
    assert len(table.asked()) == 1


@pytest.mark.parametrize(("length", "cut"), [(1000, False), (5000, True)])
def test_a_long_subject_is_cut_and_a_line_says_where_it_is_in_full(length: int, cut: bool) -> None:  # noqa: FBT001 - a case
    told = proposal_lines({"tool": "write", "arguments": {"path": "a.txt", "content": "x" * length}})
    assert told[0].startswith('subject: tool=write arguments={"path": "a.txt", "content": "xxx')
    assert ("x" * length in told[0], len(told)) == (not cut, 1 + cut)
    assert told[-1].endswith("cut here; in full in: asterism inbox") == cut


def test_always_approves_a_tool_for_the_rest_of_the_run(table: Table) -> None:
    run = table.begun("cleans")
    assert table.answer(run, "approve", every=True, always=True) == 0
    assert 'answer: "removed a, removed b, removed c"' in table.told()


def test_always_works_on_a_single_question(table: Table) -> None:
    table.begun("cleans")
    first, second = table.asked()
    assert table.answer(first, "approve", always=True) == 3
    assert table.asked() == [second]
    assert table.answer(second, "reject", reason="keep b") == 0
    assert "removed a, {" in table.told()


def test_a_question_that_does_not_allow_the_verb_stays_open(table: Table) -> None:
    run = table.begun("asks")
    assert len(table.asked()) == 3
    assert table.answer(run, "reject", every=True, reason="not now", no_drive=True) == 0
    told = table.told()
    assert told.count("reject, recorded; it takes effect with") == 3
    assert table.row().status == "waiting"


def test_a_question_that_wants_a_value_is_not_approved_with_the_others(table: Table) -> None:
    run = table.begun("asks")
    assert table.answer(run, "approve", every=True) == 3
    assert table.told().count('found "saw') == 2
    (post,) = table.asked()
    assert table.answer(post, "respond", value='"a card"') == 0
    assert 'answer: ["saw left", "saw right", "a card"]' in table.told()


def test_a_question_that_another_person_has_answered_does_not_block_the_others(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    run = table.begun("cleans")
    first, _ = table.asked()

    async def found(store: Any, named: str, verb: str) -> Any:
        rows = await find_inquiries(store, named, verb)
        async with open_runtime(store, {}, table.database) as runtime:
            await runtime.post_answer(first, "reject", actor="ada", reason="mine")
        return rows

    monkeypatch.setattr(inquiry_commands, "find_inquiries", found)
    assert table.answer(run, "approve", every=True) == 3
    told = table.told()
    assert f"{first} was answered already: reject by ada" in told
    assert "ada answers reject: mine" in told
    assert 'the call returned "removed b"' in told


@pytest.mark.parametrize(
    ("verb", "more", "why"),
    [
        ("edit", {"every": True, "value": "{}"}, "--all works with approve and reject, not with edit"),
        ("reject", {"always": True}, "--always works with approve, not with reject"),
        ("approve", {"every": True, "always": True}, "--always works with questions about a tool of a loop; .* is not one"),
        ("approve", {}, "matches .*; give more of the id, or answer all of .* with --all"),
    ],
)
def test_an_invalid_answer_is_one_error_and_writes_nothing(table: Table, verb: str, more: dict[str, Any], why: str) -> None:
    run = table.begun("asks")
    with pytest.raises(InvalidInput, match=why):
        table.answer(run, verb, **more)
    assert len(table.asked()) == 3


def test_an_answer_to_a_run_without_open_questions_is_an_error(table: Table) -> None:
    run = table.begun("asks")
    table.answer(run, "reject", every=True)
    with pytest.raises(InvalidInput, match=f"run {run} asks nothing that accepts approve"):
        table.answer(run, "approve", every=True)
    with pytest.raises(InvalidInput, match=f"'{run}' asks nothing now: its 3 questions are answered"):
        table.answer(run, "approve")


def test_a_stale_answer_is_refused(table: Table) -> None:
    table.begun("cleans")
    first, _ = table.asked()
    table.answer(first, "approve", no_drive=True)
    with pytest.raises(Refused, match="was answered already: approve by "):
        table.answer(first, "reject")


# -- what is told of a loop ------------------------------------------------------------------------------


def test_the_log_of_a_loop_has_every_transition(table: Table) -> None:
    run = table.begun("cleans")
    table.answer(run, "approve", every=True, always=True)
    table.told()
    log(run, database=table.database)
    told = re.findall(r"\d\d:\d\d:\d\d  (.*)  \(", table.told())
    assert [line for line in told if "→" in line] == [
        "PLANNING → EXECUTING",
        "EXECUTING → CONFIRMING",
        "CONFIRMING → EXECUTING",
        "EXECUTING → OBSERVING",
        "OBSERVING → REFLECTING",
        "REFLECTING → COMPLETE",
    ]
    assert "clean  waits for a person: Let m call remove? (it may destroy something) path=a" in told
    assert "answer requested" in told


def test_why_explains_the_retry_of_a_step(table: Table) -> None:
    run = table.begun("retries", code=1)
    table.told()
    why(run, "look", database=table.database)
    told = table.told()
    assert told.splitlines()[0] == "look: failed (OSError: foggy (retries_of_looping_test.py:31))"
    assert "retry by fails, attempt 2  (supervisor)" in told


# -- an upgrade ------------------------------------------------------------------------------------------


def test_a_journal_that_does_not_replay_is_one_error_that_names_the_remedy(table: Table) -> None:
    run = table.begun("asks")
    with sqlite3.connect(table.database) as database:
        database.execute("UPDATE entries SET state = 'EXECUTING' WHERE seq = 4")
    database.close()
    why_not = f"run {run}, entry 4: a replay leads to WAITING, .*; continue from the entry before with: asterism fork {run} --at 3$"
    with pytest.raises(InvalidInput, match=why_not):
        resume(run, database=table.database)
    table.told()
    assert fork(run, at=3, database=table.database) == 3
    assert len(table.asked()) == 6
