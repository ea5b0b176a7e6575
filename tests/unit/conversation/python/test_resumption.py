"""A conversation whose class is missing, or has changed so that its journal does not fit, waits and says so."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent, flow
from asterism.conversation.python.registry import KNOWN, name_of
from asterism.errors import DefinitionMissing
from tests.support.conversation_harness import Stage


class Booking(StandardAgent):
    requires_approval = True
    day: str = InputField("Which day?")
    people: int = InputField("How many people?")

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, f"Booked {self.day} for {self.people}.")


class Trip(StandardAgent):
    resumable = True

    async def on_running(self, msg: Message) -> AgentResult:
        booked = await self.child("room", flow(Booking, "book"))
        return self.make_result(AgentStatus.COMPLETED, booked["text"])


@contextlib.contextmanager
def known_as(agent: type, now: Any) -> Iterator[None]:
    """Replace a class by another one, or by none, as an edited file does."""
    name = name_of(agent)
    del KNOWN[name], globals()[agent.__name__]
    if now is not None:
        KNOWN[name] = now
    try:
        yield
    finally:
        KNOWN[name] = globals()[agent.__name__] = agent


def changed(**attributes: Any) -> type:
    kinds = {"day": "str", "people": "int"} | attributes.pop("kinds", {})
    fields = {"day": InputField("Which day?"), "people": InputField("How many people?")} | attributes
    found = {name: value for name, value in fields.items() if value is not None}
    return type(
        "Booking", (StandardAgent,), {"requires_approval": True, "__annotations__": kinds, "__module__": __name__, "dt": dt, **found}
    )


class Renamed(Booking):
    pass


@pytest.mark.parametrize(
    ("lines", "now", "why"),
    [
        (("book",), None, r"the agent .*:Booking cannot be found"),
        (("book", "friday"), {"day": None, "date": InputField("Which date?")}, "it has no field day any more"),
        (("book",), {"day": None, "date": InputField("Which date?")}, "it has no field day any more"),
        (("book", "friday"), {"kinds": {"day": "dt.date"}}, "its field day was str, and is now date"),
        (("book", "friday", "3"), {"requires_approval": False}, "it no longer requires an approval"),
    ],
)
def test_a_class_that_does_not_fit_leaves_the_conversation_as_it_was(lines: tuple[str, ...], now: Any, why: str) -> None:
    stage = Stage(Booking)
    rest = ("friday", "3", "yes")[len(lines) - 1 :]
    for line in lines:
        stage.say(line)
    with known_as(Booking, changed(**now) if now is not None else None):
        for _ in range(2):
            with pytest.raises(DefinitionMissing, match=rf"^run {stage.run_id} waits: .*{why}"):
                stage.play(stage.look() if _ else stage.turn("say", rest[0]))
    assert stage.play(stage.look()).status in ("WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "COMPLETED")
    results = [stage.say(line) for line in rest[1:]]
    assert (results or [stage.play(stage.look())])[-1].raw_message == "Booked friday for 3."


@pytest.mark.parametrize(
    "now", [{"kinds": {"people": "float"}}, {"notes": InputField("Notes?", default="")}, {"day": InputField("On what day?")}]
)
def test_a_class_that_still_fits_goes_on(now: dict[str, Any]) -> None:
    stage = Stage(Booking)
    for line in ("book", "friday", "3"):
        stage.say(line)
    with known_as(Booking, changed(**now, on_running=Booking.on_running)):
        assert stage.say("yes").raw_message.startswith("Booked friday for 3")


def test_a_conversation_whose_class_is_missing_can_be_cancelled() -> None:
    stage = Stage(Booking)
    stage.say("book")
    with known_as(Booking, None):
        with pytest.raises(DefinitionMissing):
            stage.say("friday")

        async def cancel() -> str:
            async with stage.process() as (_, conversation, _):
                with contextlib.suppress(DefinitionMissing):
                    await conversation.cancel()
            return stage.states[-1]

        assert stage.play(cancel()) == "CANCELLED"


def test_a_child_conversation_waits_for_its_class_and_so_does_its_parent() -> None:
    stage = Stage(Trip)
    for line in ("go", "friday"):
        stage.say(line)
    with known_as(Booking, None), pytest.raises(DefinitionMissing, match=r"^run \S+\.0 waits: the agent .*:Booking cannot be found"):
        stage.say("3")
    assert stage.play(stage.look()).status == "RUNNING"
    stage.say("3")  # it was not sent
    assert stage.say("yes").raw_message == "Booked friday for 3."


def test_messages_that_were_sent_meanwhile_are_read_in_order() -> None:
    stage = Stage(Booking)
    stage.say("book")
    with known_as(Booking, None):
        for line in ("friday", "3"):
            with pytest.raises(DefinitionMissing):
                stage.say(line)
    result = stage.play(stage.look())
    assert (result.status, result.fields) == ("WAITING_FOR_APPROVAL", {"day": "friday", "people": 3})
