"""ScriptedPlanner: a planner that replies by a script.

Like a model service it outlives the processes that call it; the same key always gets the same reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a scripted planner.

    Attributes:
        proposal: the proposal.
        after_s: seconds until the reply.
        unavailable: text of a PlanningUnavailable to raise in place of a reply; empty for none.
        code: code of that error.
        breaks: text of a RuntimeError to raise, against the contract of the port; empty for none.
    """

    proposal: Proposal = Proposal()
    after_s: float = 1.0
    unavailable: str = ""
    code: str = "planning"
    breaks: str = ""


class ScriptedPlanner:
    """``Planner`` that follows a script.

    Args:
        script: replies in the order of the questions (afterwards CONTINUE without edits), or a function of the question.

    Attributes:
        questions: the questions in order, each key once.
    """

    def __init__(self, script: Iterable[Reply | Proposal] | Callable[[PlannerRequest], Reply | Proposal] = ()) -> None:
        self._script = script if callable(script) else _in_order(script)
        self._replies: dict[str, Reply] = {}
        self.questions: list[PlannerRequest] = []

    async def propose(self, question: PlannerRequest) -> Proposal:
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

    def reply_to(self, question: PlannerRequest) -> Reply:
        """Return the reply of the script to a question."""
        reply = self._script(question)
        return reply if isinstance(reply, Reply) else Reply(proposal=reply)


def _in_order(replies: Iterable[Reply | Proposal]) -> Callable[[PlannerRequest], Reply | Proposal]:
    left = iter(replies)
    return lambda _: next(left, Reply())
