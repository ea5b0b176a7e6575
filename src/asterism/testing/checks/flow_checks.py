"""Checks of a conversation: it acts once, with every required field, after its approval, and follows its table."""

from __future__ import annotations

from typing import Any

from asterism.conversation.machine.events import CallHandler, HandlerEnded, Message, RunningEntered
from asterism.conversation.machine.memory import FlowMemory
from asterism.conversation.python.agent import StandardAgent
from asterism.conversation.python.registry import agent_class
from asterism.engine.control.run_control import AskPerson
from asterism.engine.kernel.journal import Entry
from asterism.testing.checks.run_checks import RunChecks, canonical
from asterism.testing.device import Performance
from asterism.words.reading import replies


class FlowChecks(RunChecks[FlowMemory]):
    """Checks of one run of a flow agent."""

    edges = {  # noqa: RUF012 - as the machine's own
        "INITIALIZING": "RUNNING WAITING_FOR_INPUT WAITING_FOR_APPROVAL PAUSED COMPLETED ERROR",
        "RUNNING": "COMPLETED ERROR PAUSED WAITING_FOR_INPUT WAITING_FOR_APPROVAL",
        "WAITING_FOR_INPUT": "RUNNING WAITING_FOR_APPROVAL PAUSED COMPLETED ERROR WAITING_FOR_INPUT",
        "WAITING_FOR_APPROVAL": "RUNNING WAITING_FOR_INPUT WAITING_FOR_APPROVAL PAUSED COMPLETED CANCELLED ERROR",
        "PAUSED": "INITIALIZING RUNNING WAITING_FOR_INPUT WAITING_FOR_APPROVAL CANCELLED ERROR",
        "COMPLETED": "",
        "ERROR": "CANCELLED",
        "CANCELLED": "",
    }
    exits = frozenset({("ERROR", "CANCELLED")})

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._asked_in: dict[str, str] = {}  # state in which each inquiry was opened
        self._used_approvals: set[str] = set()  # inquiries whose approval was used
        self._approved: object = None
        self._entered: set[str] = set()
        self._uncertain: set[str] = set()
        self._needs_confirmation = False  # interrupted while acting, and not yet confirmed by a person
        self._paused_in = ""

    def limit_s(self) -> float | None:
        return self.replayed.memory.limits.wall_s

    def performance_started(self, performance: Performance) -> None:
        """Record that a handler which had entered ``on_running`` is repeated although the agent does not allow it."""
        agent = agent_class(self.replayed.memory.agent)
        if performance.key in self._entered and not (agent._is_repeatable() or self.is_fenced):  # noqa: SLF001 - as the performer decides
            self._uncertain.add(performance.key)

    def before(self, entry: Entry) -> None:
        memory, event = self.replayed.memory, entry.event
        if self.replayed.state != "PAUSED":
            self._paused_in = str(self.replayed.state)
        if entry.note:
            return
        if isinstance(event, RunningEntered) and event.effect_id == memory.handler_effect:
            self._check_entered(event)
        if isinstance(event, HandlerEnded) and event.effect_id == memory.handler_effect:
            self._check_handler_end(event)

    def after(self, entry: Entry) -> None:
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(effect, AskPerson):
                self._asked_in[effect_id] = str(entry.state)
            if isinstance(effect, CallHandler) and effect.handler == "on_running" and self._needs_confirmation:
                raise self.fail(9, f"{effect_id} acts again without an approval, although the interrupted action may have finished")
        handlers = [
            key
            for key, it in self.replayed.outstanding.items()
            if isinstance(it, CallHandler) and key not in self.replayed.cancelled_effects
        ]
        if len(handlers) > 1:
            raise self.fail(2, f"handlers run at the same time: {', '.join(handlers)}")

    # -- acting ------------------------------------------------------------------------------------

    def _check_entered(self, event: RunningEntered) -> None:
        agent, handle = agent_class(self.replayed.memory.agent), self.effects[event.effect_id]
        if not isinstance(handle, CallHandler):
            raise self.fail(2, f"{event.effect_id} acts, but is not a handler call")
        if event.effect_id in self._entered:
            raise self.fail(2, f"{event.effect_id} acts twice")
        self._entered.add(event.effect_id)
        given = {name for name, value in event.view.fields.items() if value is not None} | set(event.view.withheld_fields)
        if missing := [name for name, field in agent.input_fields().items() if field.asked and not field.optional and name not in given]:
            raise self.fail(2, f"the agent acts without the fields {', '.join(missing)}")
        if "RUNNING" in event.transitions:
            self._check_approved(agent, handle.message, event.view.shown)

    def _check_handler_end(self, event: HandlerEnded) -> None:
        handle = self.effects[event.effect_id]
        if event.effect_id in self._uncertain and not event.interrupted:
            raise self.fail(6, f"{event.effect_id} was interrupted while it acted, but continues")
        if not isinstance(handle, CallHandler):
            raise self.fail(2, f"{event.effect_id} ended as a handler, but is not a handler call")
        if event.interrupted and (event.effect_id in self._entered or handle.handler == "on_running"):
            self._needs_confirmation = True
        elif handle.handler == "on_interrupted" and _is_approval(handle.message):
            self._needs_confirmation = False
        if "RUNNING" in event.transitions:
            agent, view = agent_class(self.replayed.memory.agent), event.view or self.replayed.memory.view
            self._check_approved(agent, handle.message, view.shown)

    def _check_approved(self, agent: Any, message: Message, fields: dict[str, Any]) -> None:
        """Check that an agent that requires approval has one for exactly these fields, and uses it once."""
        resumed = self.replayed.state == "PAUSED" and self._paused_in == "RUNNING"  # approved before the pause
        is_step = self.replayed.state == "WAITING_FOR_INPUT" and canonical(fields) == self._approved  # of the work approved before
        if not agent.requires_approval or resumed or is_step:
            return
        asked = self.effects.get(message.inquiry_id)
        if not isinstance(asked, AskPerson) or self._asked_in[message.inquiry_id] != "WAITING_FOR_APPROVAL":
            raise self.fail(9, f"the agent acts on {message.text!r}, which does not answer an approval request")
        if canonical(asked.subject["fields"]) != canonical(fields):
            raise self.fail(9, f"the agent acts with {fields}, but {asked.subject['fields']} was approved")
        by_default = agent.on_waiting_for_approval is StandardAgent.on_waiting_for_approval
        if message.verb not in ("approve", "respond") or (by_default and message.verb == "respond" and not replies.is_yes(message.text)):
            raise self.fail(9, f"the agent acts on {message.verb} {message.text!r}, which is not an approval")
        if message.inquiry_id in self._used_approvals:
            raise self.fail(9, f"the agent acts twice on one approval ({message.inquiry_id})")
        self._used_approvals.add(message.inquiry_id)
        self._approved = canonical(fields)


def _is_approval(message: Message) -> bool:
    return message.verb == "approve" or (message.verb == "respond" and replies.is_yes(message.text))
