"""The view of a conversation: its fields as rows, its messages, and the calls of its handlers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from asterism.conversation.machine.events import (
    CallHandler,
    ConversationStarted,
    HandlerEnded,
    HandlerReported,
    MessageReceived,
    NotifyHandler,
    RunningEntered,
)
from asterism.conversation.machine.memory import FlowMemory, HandlerRunning, NoHandler
from asterism.conversation.machine.moves import ASIDE
from asterism.engine.control.children import StartChild, child_run_id
from asterism.engine.control.run_control import AskPerson, OwnershipAcquired
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult, kind_of
from asterism.views.delta import LogLine, brief
from asterism.views.view import BaseView, Settled
from asterism.views.words import ownership_words, plain, preview


class FlowRunView(BaseView):
    """The view of a conversation; its parts are fields and the keys of its children."""

    @property
    def memory(self) -> FlowMemory:
        """Return the memory of the conversation."""
        memory: FlowMemory = self.run.memory
        return memory

    # -- state rows --------------------------------------------------------------------------------

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield kind and key of every possible state row."""
        yield from super().parts()
        yield from (("field", name) for name in self.memory.view.named)

    def row(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return a state row; None if it does not exist."""
        view = self.memory.view
        match kind:
            case "field" if key in view.named:
                how = (
                    "said"
                    if key in view.fields
                    else "withheld"
                    if key in view.withheld_fields
                    else "default"
                    if key in view.defaults
                    else "open"
                )
                value = view.fields.get(key, view.defaults.get(key))
                return {"status": how, "value": brief(value), "asked": key == view.asked_field}
            case "field":
                return None
            case _:
                return super().row(kind, key)

    def run_row(self) -> dict[str, Any]:
        """Return the row of the run, with the last message of the agent."""
        memory = self.memory
        handler = memory.handler
        return {
            **super().run_row(),
            "agent": memory.agent,
            "handler": None if isinstance(handler, NoHandler) else handler.handler,
            "acting": isinstance(handler, HandlerRunning),
            "prompt": brief(memory.prompt),
            "said": memory.utterances,
            "queued": len(memory.queue) + len(memory.held),
            "metadata": brief(memory.view.metadata),
            "outputs": brief({**memory.view.outputs, **memory.data}),
            "ends_at": memory.ends_at,
        }

    # -- story rows --------------------------------------------------------------------------------

    def begun(self, effect_id: str, effect: Effect, seq: int) -> tuple[str, dict[str, Any]] | None:
        """Return the story row that an effect begins: a handler call, or a child."""
        match effect:
            case CallHandler(handler=handler):
                return "attempt", {"kind": kind_of(effect), "part": handler}
            case NotifyHandler():
                return None
            case _:
                return super().begun(effect_id, effect, seq)

    def ended(self, event: EffectResult, seq: int) -> dict[str, Any]:
        """Return the fields that a result adds to the story row of its effect."""
        if isinstance(event, HandlerEnded):
            transitions = [str(state) for state in event.transitions]
            return {
                "interrupted": event.interrupted,
                "transitions": transitions,
                "code": event.code or None,
                "reason": brief(event.reason, seq),
            }
        return super().ended(event, seq)

    def story(self, entry: Entry, settled: Settled | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ids and fields of the story rows that an entry adds to, including messages."""
        yield from super().story(entry, settled)
        memory = self.memory
        new = memory.utterances - self.rows.get("run", {}).get("said", 0)
        for number, utterance in enumerate(memory.history[len(memory.history) - new :], start=memory.utterances - new + 1):
            yield f"message:{number}", {"at": entry.at, "by": utterance.by, "text": brief(utterance.text, entry.seq)}

    # -- words -------------------------------------------------------------------------------------

    def part_of(self, effect_id: str, effect: Effect | None) -> str:
        """Return the key of the child that an effect started; empty for any other effect."""
        if not isinstance(effect, StartChild):
            return ""
        return next((key for key, child in self.memory.children.items() if child.effect_id == effect_id), "")

    def lines(self, entry: Entry, settled: Settled | None) -> Iterable[LogLine]:
        """Yield the log lines of an entry: its event, the fields it changed, the change of state, its effects."""
        was, state = self.rows.get("run", {}).get("state", str(self.run.machine.initial)), self.run.state
        yield from self.event_lines(entry, settled)
        yield from self._field_lines()
        if state != was:
            sub_state = self.memory.view.metadata.get("sub_state")
            yield LogLine(f"{was} → {state}" + (f" ({plain(str(sub_state))})" if sub_state else ""))
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            yield from self.effect_lines(effect_id, effect)

    def event_lines(self, entry: Entry, settled: Settled | None) -> Iterator[LogLine]:
        """Yield the log lines of the event of an entry."""
        event = entry.event
        match event:
            case ConversationStarted(agent=agent, message=message):
                yield LogLine(f"{plain(entry.actor)} starts {plain(agent)}: {preview(message.text or message.values)}")
            case MessageReceived(text=text, values=values):
                yield LogLine(f"{plain(entry.actor)} says {preview(text or values)}")
            case OwnershipAcquired():
                yield LogLine(ownership_words(event), weight="detail")
            case RunningEntered():
                yield LogLine("on_running started")
            case HandlerEnded(text=text):
                yield LogLine(self._handler_words(event, settled), weight="event" if text or event.interrupted else "detail")
            case HandlerReported(text=text):
                yield LogLine(plain(text), weight="progress")
            case _:
                yield from super().event_lines(entry, settled)

    def effect_lines(self, effect_id: str, effect: Effect) -> Iterator[LogLine]:
        """Yield the log lines of an issued effect."""
        match effect:
            case CallHandler(handler=handler):
                yield LogLine(f"{handler} called", weight="detail")
            case StartChild(title=title):
                yield LogLine(f"started as run {plain(child_run_id(effect_id))}: {plain(title)}", self.part_of(effect_id, effect))
            case AskPerson(prompt=prompt):
                yield LogLine(f"waits for a person: {plain(prompt)}", weight="detail")
            case _:
                pass

    def _field_lines(self) -> Iterator[LogLine]:
        """Yield the fields that a handler has set, and the message that set them; ``on_running`` sets them itself."""
        memory = self.memory
        was_acting, message = self.rows.get("run", {}).get("acting", False), memory.message
        source = " in on_running" if was_acting else f" by {plain(message.by)}: {preview(message.text or message.values)}"
        for kind, name in self.run.touched:
            if kind != "field":
                continue
            row = self.row(kind, name) or {"status": "open", "value": None}
            before = self.rows.get(f"field:{name}", {"status": "open", "value": None})
            if row["status"] == "withheld":
                how = "secret given" if before["status"] != "withheld" else ""
            elif row["status"] != "said":
                how = "removed" if before["status"] == "said" else ""
            else:
                how = f"set to {preview(memory.view.fields[name])}" if before["status"] != "said" or row["value"] != before["value"] else ""
            if how:
                yield LogLine(how + source, name, "detail")

    def _handler_words(self, event: HandlerEnded, settled: Settled | None) -> str:
        if event.interrupted:
            handler = settled.effect.handler if settled is not None and isinstance(settled.effect, CallHandler) else "a handler"
            if self.memory.interrupted and handler not in ASIDE:
                return "on_running was interrupted; its result is unknown"
            return f"{handler} was interrupted: {plain(event.reason)}"
        words = f"the agent says {plain(event.text, 2000)}" if event.text else "the agent says nothing"
        is_said = str(event.reason).rstrip(".") in event.text
        return words + (f" ({plain(event.code)}: {plain(event.reason)})" if event.code and not is_said else "")
