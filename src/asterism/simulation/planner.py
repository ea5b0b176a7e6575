"""ScriptedPlanner: a planner of the simulated world, which answers what a script says.

It stands for a model service: it outlives the processes that ask it, and the same key gets the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from asterism.runtime.ports.planner import PlannerQuestion, PlanningUnavailable, Proposal


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a scripted planner.

    Attributes:
        proposal: what it proposes.
        after_s: how long it thinks.
        unavailable: instead of answering it raises PlanningUnavailable with this text; empty for no.
        code: of that.
        breaks: instead of answering it raises RuntimeError, against the contract of the port; empty for no.
    """

    proposal: Proposal = Proposal()
    after_s: float = 1.0
    unavailable: str = ""
    code: str = "planning"
    breaks: str = ""


class ScriptedPlanner:
    """``Planner`` by a script.

    Args:
        script: replies in the order of the questions (then CONTINUE without edits), or a function of the question.

    Attributes:
        questions: what it was asked, each key once, in order.
    """

    def __init__(self, script: Iterable[Reply | Proposal] | Callable[[PlannerQuestion], Reply | Proposal] = ()) -> None:
        self._script = script if callable(script) else _in_order(script)
        self._replies: dict[str, Reply] = {}
        self.questions: list[PlannerQuestion] = []

    async def propose(self, question: PlannerQuestion) -> Proposal:
        if question.key not in self._replies:
            self.questions.append(question)
            self._replies[question.key] = self.reply_to(question)
        reply = self._replies[question.key]
        await asyncio.sleep(reply.after_s)
        if reply.breaks:
            raise RuntimeError(reply.breaks)
        if reply.unavailable:
            raise PlanningUnavailable(reply.unavailable, reply.code)
        return reply.proposal

    def reply_to(self, question: PlannerQuestion) -> Reply:
        """What its script says to a question."""
        reply = self._script(question)
        return reply if isinstance(reply, Reply) else Reply(proposal=reply)


def _in_order(replies: Iterable[Reply | Proposal]) -> Callable[[PlannerQuestion], Reply | Proposal]:
    left = iter(replies)
    return lambda _: next(left, Reply())
