"""Agents that the written conversations talk to, besides the examples'."""

from __future__ import annotations

import asyncio
import enum
from typing import Any

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent, flowagent, rule
from examples.flows.flows import Expense, LeaveRequest, RestaurantBooking


@flowagent(triggers=["hello"], description="Say hello")
class Greeting(StandardAgent):
    idempotent = True

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, f"Hello, {msg.by}!")


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@flowagent(triggers=["pizza"], requires_approval=True, description="Order a pizza")
class Pizza(StandardAgent):
    idempotent = True
    size: Size = InputField("Small or large?")
    count: int = InputField("How many?", ge=1, le=50)
    wish: str | None = InputField("Any wishes?")
    express: bool = InputField("Express?", default=False)

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, f"{self.count} {self.size.value}{' express' if self.express else ''} on the way.")


@flowagent(description="Fail")
class Failing(StandardAgent):
    idempotent = True
    what = InputField("What shall fail?")

    async def on_running(self, msg: Message) -> AgentResult:
        raise OSError(f"{self.what} is on fire")


@flowagent(description="Fail politely")
class Polite(Failing):
    idempotent = True

    async def on_error(self, msg: Message) -> AgentResult:
        return self.make_result(raw_message="I am sorry. Please call us.")


@flowagent(description="Hang", timeout_s=30)
class Hanging(StandardAgent):
    idempotent = True

    async def on_running(self, msg: Message) -> AgentResult:
        await asyncio.sleep(3600)
        return self.make_result(AgentStatus.COMPLETED, "at last")


@flowagent(description="Wait", requires_approval=True)
class Steps(StandardAgent):
    idempotent = True

    async def on_running(self, msg: Message) -> AgentResult:
        step = self.metadata.setdefault("sub_state", "draft")
        if step == "draft":
            self.metadata["sub_state"] = "final"
            self.rounds = 1
            return self.make_result(AgentStatus.WAITING_FOR_INPUT, "Here is a draft. What shall I change?")
        return self.make_result(AgentStatus.COMPLETED, f"Final, with {msg.get_text()!r}, after {self.rounds} round.")


@flowagent(description="Book a trip")
class Trip(StandardAgent):
    idempotent = True
    days: int = InputField("How many days?", gt=0, validator=lambda days: days != 13)
    budget: float = InputField("Which budget?", ge=0)
    goal: str = InputField("Where to?")

    def validate_goal(self, value: str) -> None:
        if value.lower() == "mordor":
            raise ValueError("one does not simply go there")

    @rule("budget", needs=["days"])
    def is_enough(self) -> bool | str:
        return "that is less than 10 a day" if self.budget < 10 * self.days else True


@flowagent(description="Refuse to pause")
class Restless(StandardAgent):
    idempotent = True
    item = InputField("What?")

    def can_transition(self, from_state: AgentStatus, to_state: AgentStatus) -> bool:
        return to_state is not AgentStatus.PAUSED and super().can_transition(from_state, to_state)


@flowagent(description="Wait for a word")
class Shy(StandardAgent):
    idempotent = True

    async def on_initializing(self, msg: Message) -> AgentResult | None:
        if "please" not in msg.get_text():
            return self.make_result(raw_message="What is the magic word?")
        return await super().on_initializing(msg)


@flowagent(description="Work in rounds")
class Rounds(StandardAgent):
    idempotent = True

    async def on_running(self, msg: Message) -> AgentResult:
        if msg.get_text() == "enough":
            return self.make_result(AgentStatus.COMPLETED, f"Stopped after {self.metadata['round']} rounds.")
        self.metadata["round"] = self.metadata.get("round", 0) + 1
        return self.make_result(AgentStatus.RUNNING, f"Round {self.metadata['round']} is done. Another?")


@flowagent(description="Wait for a parcel")
class Parcel(StandardAgent):
    idempotent = True

    async def on_running(self, msg: Message) -> AgentResult:
        if self.metadata.setdefault("asked", 0):
            return self.make_result(AgentStatus.COMPLETED, "It is there.")
        return self.make_result(AgentStatus.PAUSED, "I have asked for it. Resume when it is there.", metadata={"asked": 1})


@flowagent(description="Wait an hour at most")
class Hasty(StandardAgent):
    idempotent = True
    idle_timeout_s = 3600
    item = InputField("What?")


@flowagent(description="Fail, and call it off")
class Undone(Failing):
    idempotent = True

    async def on_error(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.CANCELLED, "It did not work, and I have called it off.")


AGENTS: dict[str, Any] = {
    agent.__name__: agent
    for agent in (
        Greeting,
        Pizza,
        Failing,
        Polite,
        Hanging,
        Steps,
        Trip,
        Restless,
        Shy,
        Rounds,
        Parcel,
        Hasty,
        Undone,
        RestaurantBooking,
        LeaveRequest,
        Expense,
    )
}
AT_THE_DESK = (RestaurantBooking, LeaveRequest, Pizza, Greeting)
