"""The story of a conversation: what was said, where it went, what it started; told as ``Story`` tells a constellation's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.text import Text

from asterism.cli.stories.story import Happening, Story, last_lines
from asterism.cli.words import time_of_day
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, kind_of
from asterism.machines.children import ChildEnded, StartChild, child_of
from asterism.machines.control import Answered, Ask, Broke, Cancel, Claimed, Forked, Pause, Unpause
from asterism.machines.flow_agent.events import Begun, Entered, Handle, Handled, Message, Reported, Said, View
from asterism.machines.flow_agent.memory import FlowMemory
from asterism.machines.flow_agent.moves import ASIDE
from asterism.machines.flow_agent.states import Acting
from asterism.views.words import answer_words, control_words, count, plain, preview


class FlowStory(Story):
    """A conversation as far as it has been read; it has fields where a constellation has tasks."""

    parts = "field or child"

    @property
    def memory(self) -> FlowMemory:
        """What the conversation remembers."""
        memory: FlowMemory = self.run.memory
        return memory

    # -- words -------------------------------------------------------------------------------------

    def _told(self, entry: Entry) -> list[Happening]:
        was, before, message = self.run.state, self.memory.view, None if isinstance(self.memory.handler, Acting) else self.memory.message
        self.run.replay([entry])
        told = [*self._event(entry), *self._fields(entry, before, message)]
        if self.run.state != was:
            sub_state = self.memory.view.metadata.get("sub_state")
            told.append(Happening(entry, f"{was} → {self.run.state}" + (f" ({plain(str(sub_state))})" if sub_state else "")))
        told += self._effects(entry)
        return told or [Happening(entry, kind_of(entry.event), weight="detail")]

    def _event(self, entry: Entry) -> Iterator[Happening]:
        event = entry.event
        match event:
            case Begun() | Said() | Answered():
                if words := _said_words(entry, event):
                    yield Happening(entry, words)
            case Claimed(epoch=epoch, owner=owner):
                yield Happening(entry, f"taken{' up again' if epoch > 1 else ''} by {plain(owner)}", weight="detail")
            case Entered():
                yield Happening(entry, "on_running is entered")
            case Handled(text=text):
                yield Happening(entry, self._handled_words(event), weight="event" if text or event.interrupted else "detail")
            case Reported(text=text):
                yield Happening(entry, plain(text), weight="progress")
            case ChildEnded(outcome=outcome, reason=reason):
                how = f"{'was' if outcome == 'cancelled' else 'has'} {outcome}"
                yield Happening(entry, f"its run {how}" + (f": {plain(reason)}" if reason else ""), self.part_of(event.effect))
            case Pause() | Unpause() | Cancel() | Forked() | Broke():
                yield Happening(entry, control_words(entry))
            case _:
                pass

    def _fields(self, entry: Entry, before: View, message: Message | None) -> Iterator[Happening]:
        """What a handler has given to fields, and by which words; None for those of ``on_running`` itself."""
        after = self.memory.view
        by_words = f", said {plain(message.by)}: {preview(message.text or message.values)}" if message else " in on_running"
        for name in dict.fromkeys((*before.fields, *after.fields, *after.withheld)):
            if name in after.withheld:
                how = "given, a secret" if name not in before.withheld else ""
            elif name not in after.fields:
                how = "taken back"
            else:
                is_new = name not in before.fields or before.fields[name] != after.fields[name]
                how = f"becomes {preview(after.fields[name])}" if is_new else ""
            if how:
                yield Happening(entry, how + by_words, name, weight="detail")

    def _handled_words(self, event: Handled) -> str:
        if event.interrupted:
            called = self.spans[event.effect].effect if event.effect in self.spans else None
            handler = called.handler if isinstance(called, Handle) else "a handler"
            if self.memory.unclear and handler not in ASIDE:
                return "on_running was interrupted; what came of it is not known"
            return f"{handler} was interrupted: {plain(event.reason)}"
        words = f"the agent says {plain(event.text, 2000)}" if event.text else "the agent says nothing"
        is_said = event.reason.rstrip(".") in event.text
        return words + (f" ({plain(event.code)}: {plain(event.reason)})" if event.code and not is_said else "")

    def _part(self, effect_id: str, effect: Effect) -> str:  # noqa: ARG002 - a child is known by its effect
        return next((key for key, child in self.memory.children.items() if child.effect == effect_id), "")

    def _effect(self, entry: Entry, effect_id: str, effect: Effect) -> Iterator[Happening]:
        match effect:
            case Handle(handler=handler):
                yield Happening(entry, f"{handler} is called", weight="detail")
            case StartChild(title=title):
                yield Happening(entry, f"started as run {plain(child_of(effect_id))}: {plain(title)}", self.part_of(effect_id))
            case Ask(prompt=prompt):
                yield Happening(entry, f"waits for a person: {plain(prompt)}", weight="detail")
            case _:
                pass

    # -- how it stands -----------------------------------------------------------------------------

    def picture(self, now: float, limit: int, frame: int = 0) -> list[Text]:  # noqa: ARG002 - it does not move
        """Its fields, its metadata, its children, and what it said last."""
        memory = self.memory
        lines = [
            Text("● ", "green").append(f"{plain(name)}  ", "bold").append(preview(value)) for name, value in memory.view.fields.items()
        ]
        lines += [Text("● ", "green").append(f"{plain(name)}  ", "bold").append("withheld", "dim") for name in memory.view.withheld]
        lines += (
            [Text("○ ").append(f"{plain(memory.view.asking)}  asked for", "dim")]
            if memory.view.asking not in ("", *memory.view.fields)
            else []
        )
        lines += [Text(f"  {plain(name)} = {preview(value)}", "dim") for name, value in memory.view.metadata.items()]
        for key, child in memory.children.items():
            how = child.ended.outcome if child.ended else "waits for a person" if child.effect in memory.resting else "under way"
            lines.append(Text(f"  {plain(key)}  run {plain(child_of(child.effect))}  {how}"))
        return last_lines(lines, limit)

    def counted(self) -> str:
        """How much is collected."""
        return f"{count(len(self.memory.view.fields) + len(self.memory.view.withheld), 'field')} collected"

    def standing(self) -> dict[str, str]:
        """What each field and child has come to, by its name."""
        found = dict.fromkeys(self.memory.view.withheld, "withheld") | {
            name: json.dumps(value, ensure_ascii=False) for name, value in self.memory.view.fields.items()
        }
        return found | {key: child.ended.outcome if child.ended else "under way" for key, child in self.memory.children.items()}

    def outcome(self) -> dict[str, Any]:
        """What it has come to, for programs."""
        memory = self.memory
        view, history = memory.view, msgspec.to_builtins(memory.history)
        return {"fields": view.fields, "withheld": list(view.withheld), "metadata": view.metadata, "history": history}

    def sections(self, happenings: list[Happening], now: float) -> list[Text]:
        """What ``show`` tells of it: what was said and done, and how long it took."""
        lines = [Text("conversation", "bold")]
        for it in happenings:
            if it.weight == "event":
                what = f"{plain(it.task_id)}  {it.text}" if it.task_id else it.text
                lines.append(Text(f"  {time_of_day(it.entry.at)}  ", "dim").append(what))
        return [*lines, *self._metrics(self.counted(), now)]


def _said_words(entry: Entry, event: Begun | Said | Answered) -> str:
    """What a person said; empty where nobody did."""
    who = plain(entry.actor)
    match event:
        case Begun(agent=agent, message=message):
            return f"{who} begins {plain(agent)}: {preview(message.text or message.values)}"
        case Said(text=text, values=values):
            return f"{who} says {preview(text or values)}"
        case Answered(withdrawn=True):
            return ""
        case Answered():
            return answer_words(entry, event)
