"""A loop or conversation outside of `asterism.open()` is in the default database, and in memory only where asked for (B4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import asterism
from asterism import AgentResult, AgentStatus, InputField, OrchestrationLoop, StandardAgent, Step
from asterism.conversation.machine.events import Message
from asterism.conversation.python.conversation import Conversation
from asterism.loop.machine.model import Handoff


async def look(handoff: Handoff) -> str:
    return f"{handoff.intent} seen"


LOOP = OrchestrationLoop(plan=[Step("look", "a heron")], workers={"look": look})


class Trip(StandardAgent):
    days: int = InputField("How many days?")

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, f"{self.days} days")


def outcomes(database: Path) -> dict[str, str]:
    async def read() -> dict[str, str]:
        async with asterism.connect(database, create=False) as client:
            return {row.run_id: row.outcome for row in await client.store.runs()}

    return asyncio.run(read())


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    monkeypatch.setenv("ASTERISM_DATABASE", str(path))
    return path


def test_a_loop_that_names_no_runtime_is_in_the_default_database(database: Path) -> None:
    ended = asyncio.run(LOOP.run("look"))
    assert outcomes(database) == {ended.run_id: "finished"}


def test_calls_of_one_loop_at_the_same_time_have_a_run_each(database: Path) -> None:
    async def play() -> list[str]:
        return [ended.run_id for ended in await asyncio.gather(*(LOOP.run(f"look {number}") for number in range(8)))]

    ended = asyncio.run(play())
    assert outcomes(database) == dict.fromkeys(ended, "finished")
    assert len(outcomes(database)) == 8


def test_a_submitted_loop_is_driven_by_a_later_runtime_of_the_default_database(database: Path) -> None:
    run = asyncio.run(LOOP.submit("look"))
    assert outcomes(database) == {run: ""}
    assert asyncio.run(LOOP.resume(run)).answer == "a heron seen"


def test_a_conversation_that_names_no_runtime_is_in_the_default_database(database: Path) -> None:
    talk = Conversation(Trip)
    assert asyncio.run(talk.say("book a trip")).status == AgentStatus.WAITING_FOR_INPUT
    assert asyncio.run(Conversation(Trip, run_id=talk.run_id).say("3")).raw_message == "3 days"
    assert outcomes(database) == {talk.run_id: "finished"}


def test_open_in_memory_makes_no_file_and_keeps_its_runs_for_the_process(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(database.parent)

    async def play() -> tuple[str, str]:
        async with asterism.open(":memory:"):
            run = (await LOOP.run("look")).run_id
        async with asterism.open(":memory:") as app:
            return run, (await app.store.run(run)).outcome

    assert asyncio.run(play())[1] == "finished"
    assert list(database.parent.iterdir()) == []
