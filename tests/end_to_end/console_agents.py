"""A flow agent for the tests of the console."""

from __future__ import annotations

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent, flowagent


@flowagent(requires_approval=True, description="Order lunch")
class Lunch(StandardAgent):
    """Takes an order."""

    dish: str = InputField("What would you like?")
    pin: str = InputField("Your PIN?", secret=True)

    async def on_running(self, msg: Message) -> AgentResult:
        """Order it."""
        return self.make_result(AgentStatus.COMPLETED, f"{self.dish} is on the way.")


@flowagent(description="Plan a picnic")
class Picnic(StandardAgent):
    """Asks where and what."""

    place: str = InputField("Where will it be?")
    food: str = InputField("What will you bring?")

    async def on_running(self, msg: Message) -> AgentResult:
        """Plan it."""
        return self.make_result(AgentStatus.COMPLETED, f"{self.food} at {self.place}.")
