"""Flow agents and loops, one below the other: what is asked below comes up to the root, and nothing is begun twice."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, ChildFailed, InputField, Message, StandardAgent, as_child, flowagent
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.runtime import Runtime
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python import ChildWorker, Handoff, OrchestrationLoop, Worker
from asterism.loop.python.definition import find_loop
from tests.support.conversation_harness import NEVER, Stage, talk

DONE: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    DONE.clear()


async def dig(handoff: Handoff) -> Any:
    """Dig."""
    DONE.append(handoff.key)
    return {"found": f"gold under {handoff.context['where']}"}


async def tell(handoff: Handoff) -> Any:
    """Tell."""
    return f"It is {handoff.artifacts['a']['order']}."


digging = OrchestrationLoop(
    plan=[{"step_id": "dig", "worker": "digger", "intent": "dig", "context": {"where": "the oak"}}],
    workers={"digger": Worker(dig, idempotent=True, requires_approval=True)},
)


class Treasure(StandardAgent):
    resumable = True
    tool = InputField("Dig with what?")

    async def on_running(self, msg: Message) -> AgentResult:
        try:
            found = await self.child("dig", digging.start(f"dig with {self.tool}"))
        except ChildFailed as failed:
            return self.make_result(AgentStatus.COMPLETED, f"Nothing: {failed.ended.outcome}.")
        return self.make_result(AgentStatus.COMPLETED, f"There is {found['answer']['found']}.")


@flowagent(description="Order lunch", requires_approval=True)
class Lunch(StandardAgent):
    idempotent = True
    dish = InputField("Which dish?")
    people: int = InputField("For how many?", ge=1, le=50)
    card = InputField("Which card?", secret=True, default="none")

    async def on_running(self, msg: Message) -> AgentResult:
        DONE.append(self.key)
        if self.dish == "stew":
            await asyncio.sleep(10_000)
        return self.make_result(AgentStatus.COMPLETED, "Ordered.", data={"order": f"{self.dish} for {self.people}"})


def lunching(**more: Any) -> OrchestrationLoop:
    steps = [
        {"step_id": "a", "worker": "lunch", "intent": "lunch", "context": {"people": 3, "card": "4711", "weather": "fine"}},
        {"step_id": "b", "worker": "tell", "intent": "tell", "uses": ["a"]},
    ]
    lunch = ChildWorker(as_child(Lunch), description=Lunch.description, **more)
    return OrchestrationLoop(plan=steps, workers={"lunch": lunch, "tell": Worker(tell, idempotent=True)})


# -- a loop below a conversation -------------------------------------------------------------------


def test_a_question_of_a_loop_is_passed_up_and_its_answer_down() -> None:
    stage, turns = talk(Treasure, "dig", "a spade", "maybe", "yes")
    assert [(turn.raw_message, str(turn.status)) for turn in turns] == [
        ("Dig with what?", "WAITING_FOR_INPUT"),
        ("Let digger do dig (dig)? (where: the oak) (yes/no)", "RUNNING"),
        ("Please answer yes or no. Let digger do dig (dig)? (where: the oak) (yes/no)", "RUNNING"),
        ("There is gold under the oak.", "COMPLETED"),
    ]
    assert len(DONE) == 1
    assert [row.machine for row in stage.database.runs.values()] == ["flow agent", "orchestration loop"]


@pytest.mark.parametrize("line", ["nope, wrong", "no, that is wrong"])
def test_a_fault_found_with_the_question_of_a_loop_is_no_refusal(line: str) -> None:
    turn = talk(Treasure, "dig", "a spade", line)[1][-1]
    asks = 'What is wrong? Write "yes", or "no, because …" with the reason. Let digger do dig (dig)? (where: the oak) (yes/no)'
    assert (turn.raw_message, turn.status) == (asks, "RUNNING")


def test_a_fault_with_because_refuses_the_question_of_a_loop() -> None:
    _, turns = talk(Treasure, "dig", "a spade", "nope, wrong", "no, because it is the wrong tree")
    assert "What is wrong?" not in turns[-1].raw_message
    assert DONE == []


def test_a_cancel_of_the_conversation_reaches_the_loop() -> None:
    stage, turns = talk(Treasure, "dig", "a spade", "!cancel enough")
    assert turns[-1].status == "CANCELLED"
    assert {row.outcome for row in stage.database.runs.values()} == {"cancelled"}
    assert DONE == []


def test_a_conversation_above_a_loop_ends_the_same_when_a_process_is_killed_after_any_entry() -> None:
    stage, turns = talk(Treasure, "dig", "a spade", "yes")
    expected = [turn.raw_message for turn in turns]
    for entry in range(2, max(map(len, stage.database.records.values())) + 1):
        killed, turns = talk(Treasure, "dig", "a spade", "yes", dies_after=entry)
        assert [turn.raw_message for turn in turns] == expected, f"killed after entry {entry}"
        assert (killed.deaths, len(killed.database.runs)) == (1, 2)


# -- a conversation below a loop -------------------------------------------------------------------

ANSWERS: dict[str, tuple[Any, Any]] = {
    "Which dish?": ("respond", "soup"),
    "Order lunch (dish: soup, people: 3). Go ahead? (yes/no)": ("approve", None),
}


class Tree:
    """A loop and what is below it, from process to process until it has ended; each question is answered by its words.

    Attributes:
        asked: the questions that came up, in order.
        row: how the root ended.
    """

    def __init__(self, loop: OrchestrationLoop, answers: dict[str, tuple[Any, Any]], *, dies_after: int = NEVER) -> None:
        self.loop = loop
        self.answers = answers
        self.stage = Stage(Lunch, dies_after=dies_after)
        self.asked: list[str] = []
        self.row: RunRow = self.stage.play(self._live())

    async def _live(self) -> RunRow:
        for _ in range(20):
            async with self.stage.process() as (runtime, _, store):
                with self.loop.here():
                    step = asyncio.ensure_future(self._step(runtime))
                death = asyncio.ensure_future(store.died.wait())
                await asyncio.wait([step, death], return_when=asyncio.FIRST_COMPLETED)
                death.cancel()
                if not store.died.is_set():
                    if row := await step:
                        return row
                    continue
                step.cancel()
                await asyncio.wait([step])
                _ = step.cancelled() or step.exception()
            self.stage.deaths, self.stage.dies_after = self.stage.deaths + 1, NEVER
        raise AssertionError("it does not end")

    async def _step(self, runtime: Runtime) -> RunRow | None:
        if "root" not in self.stage.database.runs:
            await runtime.submit(ORCHESTRATION_LOOP, self.loop.submitted("eat"), title="eat", actor="ann", run_id="root")
        row = await runtime.drive("root")
        if row.status == "ended":
            return row
        (asked,) = await runtime.store.inquiries(root="root")
        self.asked.append(asked.prompt)
        verb, value = self.answers[asked.prompt]
        if verb == "sleep":
            await asyncio.sleep(value)
        else:
            await runtime.post_answer(asked.inquiry_id, verb, actor="ann", value=value)
        return None

    def findings(self) -> list[Any]:
        async def read() -> list[Any]:
            async with self.stage.process() as (runtime, _, _):
                from asterism.loop.python.definition import memory_of  # noqa: PLC0415 - for this alone

                return [(it.status, it.output, str(it.reason)) for it in (await memory_of(runtime, "root")).findings]

        found: list[Any] = self.stage.play(read())
        return found


def test_a_flow_agent_as_a_worker_asks_for_missing_fields() -> None:
    tree = Tree(lunching(), ANSWERS)
    assert tree.asked == list(ANSWERS)
    assert tree.row.outcome == "finished"
    assert tree.findings() == [("ok", {"text": "Ordered.", "order": "soup for 3"}, ""), ("ok", "It is soup for 3.", "")]
    assert len(DONE) == 1


def test_a_secret_is_not_passed_down_and_unknown_fields_are_ignored() -> None:
    tree = Tree(lunching(), ANSWERS)
    (child,) = (records for run, records in tree.stage.database.records.items() if run != "root")
    assert "4711" not in child[0].body
    assert "weather" not in child[0].body


def test_a_loop_above_a_conversation_ends_the_same_when_a_process_is_killed_after_any_entry() -> None:
    whole = Tree(lunching(), ANSWERS)
    for entry in range(2, max(map(len, whole.stage.database.records.values())) + 1):
        DONE.clear()
        tree = Tree(lunching(), ANSWERS, dies_after=entry)
        assert (tree.stage.deaths, tree.row.outcome, len(tree.stage.database.runs)) == (1, "finished", 2), f"killed after entry {entry}"
        assert tree.findings() == whole.findings()
        assert len(set(DONE)) == 1, "performed again only under its own key"


def test_a_rejection_is_a_failed_finding() -> None:
    *_, approval = ANSWERS
    tree = Tree(lunching(), {**ANSWERS, approval: ("reject", None)})
    assert tree.row.outcome == "failed"
    assert tree.findings()[0][0] == "failed"


def test_an_unanswered_conversation_ends_at_the_time_limit_of_its_worker() -> None:
    tree = Tree(lunching(timeout_s=60), {"Which dish?": ("sleep", 61)})
    assert ("timeout", None, "it took longer than 60 s") in tree.findings()
    (child, *_) = (row for row in tree.stage.database.runs.values() if row.parent)
    assert (child.state, child.outcome) == ("CANCELLED", "failed")


def test_a_handler_ends_at_the_time_limit_of_its_worker() -> None:
    stewed = {name.replace("soup", "stew"): (verb, "stew" if value else None) for name, (verb, value) in ANSWERS.items()}
    tree = Tree(lunching(timeout_s=60), stewed)
    assert ("timeout", None, "it took longer than 60 s") in tree.findings()


# -- where a loop is found again -------------------------------------------------------------------

BESIDE = """
from asterism.loop.python import Handoff, OrchestrationLoop


async def dig(handoff: Handoff):
    return "gold"


digging = OrchestrationLoop(plan=[{"step_id": "dig", "worker": "dig", "intent": "dig"}], workers={"dig": dig})
"""


def test_a_loop_in_a_file_outside_a_package_is_recorded_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_of_test.py").write_text(BESIDE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))  # as an agent's file finds its neighbours
    loop = importlib.import_module("beside_of_test").digging
    assert loop.start("dig").start.definition["definition"] == f"{tmp_path / 'beside_of_test.py'}:digging"
    assert find_loop(loop.definition, Path("/")) is loop
    assert digging.definition == "tests.unit.conversation.python.test_with_loops:digging", (
        "what is in a package is found by its name, on any machine"
    )
