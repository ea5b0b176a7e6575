"""Four flow agents that do something small and real: a booking, a leave request, an expense claim, a deployment.

    asterism chat examples/flows/flows.py

What they do is written to files below the current folder, so that it can be looked at, and done again.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import os
from pathlib import Path
from typing import Any

from asterism.conversation.python import (
    AgentResult,
    AgentStatus,
    InputField,
    Message,
    OutputField,
    StandardAgent,
    constellation,
    flowagent,
    rule,
)

NAME = r"\bunder (?:the name )?((?-i:[A-Z])[\w'’-]+(?: (?-i:[A-Z])[\w'’-]+){0,3})"
IBAN = r"\b[A-Z]{2}\d{2}(?: ?[A-Z]{4})?(?: ?\d{4}){2,7}(?: ?\d{1,3})?\b"
PLAN = Path(__file__).parents[1] / "digits" / "plan.json"


def note(agent: StandardAgent, kind: str, **what: Any) -> str:
    """Write one record, named by the idempotency key of the run: doing it again writes the same file."""
    desk = Path(os.environ.get("ASTERISM_FLOWS_DIR", "flows-desk"))
    desk.mkdir(exist_ok=True)
    number = f"{kind}-{agent.run_id}"
    (desk / f"{number}.json").write_text(json.dumps(what, default=str, indent=2) + "\n", encoding="utf-8")
    return number


class Seating(enum.Enum):
    """Where to sit."""

    INSIDE = "inside"
    TERRACE = "terrace"


@flowagent(triggers=["book", "table", "reservation", "Tisch", "Reservierung", "mesa", "reserva", "reservar"], description="Book a table")
class RestaurantBooking(StandardAgent):
    """A table for some people on a day, under a name."""

    idempotent = True

    guests: int = InputField("For how many?", ge=1, le=20)
    day: dt.date = InputField("For which day?", description="The day you want to come, such as Friday or 2026-03-01.")
    name: str = InputField("Under which name?", min_length=2, pattern=NAME)
    seating: Seating | None = InputField("Inside or on the terrace?", description="Where you would like to sit; you may skip this.")
    booking = OutputField("number of the booking")

    def validate_name(self, value: str) -> str | None:
        """A name has a letter in it."""
        return None if any(letter.isalpha() for letter in value) else "a name has letters in it"

    async def on_running(self, msg: Message) -> AgentResult:  # noqa: ARG002 - the fields say it all
        """Write it into the book."""
        self.booking = note(self, "booking", guests=self.guests, day=self.day, name=self.name, seating=self.seating and self.seating.value)
        where = f", {self.seating.value}" if self.seating else ""
        return self.make_result(
            AgentStatus.COMPLETED, f"A table for {self.guests} on {self.day:%A, %d %B}{where}, under {self.name}: {self.booking}."
        )


@flowagent(triggers=["leave", "holiday", "vacation", "Urlaub", "vacaciones"], requires_approval=True, description="Request leave")
class LeaveRequest(StandardAgent):
    """Some days off."""

    idempotent = True

    first: dt.date = InputField("From which day?")
    last: dt.date = InputField("Until which day?")
    reason: str | None = InputField("Do you want to give a reason?", description="It goes to your manager; you may skip it.")

    @rule("last", needs=["first"])
    def ends_after_it_begins(self) -> str | None:
        """Leave does not end before it begins."""
        return "it is before the first day" if self.last < self.first else None

    def get_approval_prompt(self) -> str:
        """What is asked for, in a sentence."""
        because = f" ({self.reason})" if self.reason else ""
        return f"Request leave from {self.first} to {self.last}{because}? (yes/no)"

    async def on_running(self, msg: Message) -> AgentResult:  # noqa: ARG002 - as above
        """Hand it in."""
        days = (self.last - self.first).days + 1
        number = note(self, "leave", first=self.first, last=self.last, days=days, reason=self.reason)
        return self.make_result(AgentStatus.COMPLETED, f"{days} day{'s' * (days > 1)} requested: {number}.", data={"days": days})


@flowagent(
    triggers=["expense", "reimburse", "Spesen", "Auslagen", "erstatten", "gastos"], requires_approval=True, description="Claim an expense"
)
class Expense(StandardAgent):
    """Money that was spent."""

    idempotent = True

    amount: float = InputField("How much was it, in euros?", gt=0, le=10_000, unit="EUR")
    what: str = InputField("What was it for?")
    iban: str = InputField(
        "Which account shall it go to?", secret=True, min_length=8, pattern=IBAN, show_last=4, words=["account", "acct", "Konto", "cuenta"]
    )

    def get_approval_prompt(self) -> str:
        """What is claimed; of the account, people see the end."""
        return f"Claim {self.amount:.2f} € for {self.what}, to the account {self.iban}? (yes/no)"

    async def on_running(self, msg: Message) -> AgentResult:  # noqa: ARG002 - as above
        """Hand it in; nobody else gets the account."""
        number = note(self, "expense", amount=self.amount, what=self.what)
        return self.make_result(AgentStatus.COMPLETED, f"Claimed: {number}.")


@flowagent(
    triggers=["deploy", "release", "ausrollen", "desplegar"], requires_approval=True, description="Train and deploy the digits model"
)
class Deploy(StandardAgent):
    """The constellation of examples/digits, after a yes; what it asks is asked here."""

    resumable = True

    accuracy: float = InputField("Which accuracy must it reach, in percent?", ge=50, le=100, pattern=r"(\d+(?:\.\d+)?) ?%")

    def get_approval_prompt(self) -> str:
        """What is deployed, and when."""
        return f"Train on the GPU server, and deploy to production above {self.accuracy:g} %? (yes/no)"

    async def on_running(self, msg: Message) -> AgentResult:  # noqa: ARG002 - as above
        """Run it; after a crash the same run continues."""
        plan = json.loads(PLAN.read_text(encoding="utf-8"))
        plan["dependencies"][-1]["condition"] = f"accuracy > {self.accuracy / 100}"
        done = await self.child("deployment", constellation(plan, self.fleet, request="deploy the digits model"))
        measured = done["results"]["task_003"]["accuracy"]
        verdict = "It is live" if "task_004" in done["results"] else "It is not deployed"
        return self.make_result(AgentStatus.COMPLETED, f"{verdict}: the measured accuracy is {measured:.1%}.", data={"accuracy": measured})
