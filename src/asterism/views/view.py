"""The view of a run of any machine: the run itself, its open questions, its child runs, and its attempts.

The views of the three machines extend it, and so can the view of your own machine: ``row`` and ``parts`` add state rows,
``begun`` and ``ended`` fill story rows, ``lines`` words the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, Self

import msgspec

from asterism.engine.control.children import ChildBlocked, ChildEnded, SignalChild, StartChild, child_run_id
from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    Cancel,
    CancelEffect,
    Forked,
    Imported,
    OwnershipAcquired,
    Pause,
    TransitionFailed,
    Unpause,
)
from asterism.engine.control.waits import EventTaken, WaitFor
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult, Event, Machine, kind_of
from asterism.engine.kernel.refusal import verdict_words
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.times import in_utc
from asterism.views.delta import Delta, LogLine, Rows, brief
from asterism.views.words import answer_words, child_end_words, control_words, ownership_words, plain, plain_words, preview

_encode = msgspec.json.encode


class RunView(Protocol):
    """The view of a run.

    Attributes:
        run: the run, replayed up to the last entry read.
    """

    run: Run[Any]

    @property
    def rows(self) -> Rows:
        """Return the state rows, by id."""
        ...

    def read(self, entries: Iterable[Entry]) -> list[Delta]:
        """Read the next entries; return one delta for each.

        Raises:
            JournalMismatch: the entries do not follow the ones read before.
        """
        ...

    @classmethod
    def at(cls, run: Run[Any]) -> Self:
        """Return the view of a run in its current state, made from its memory. From now on ``read`` advances the run."""
        ...


class Shown(Protocol):
    """A form of runs, as far as it is shown."""

    @property
    def machine(self) -> Machine[Any]:
        """Return its machine."""
        ...

    @property
    def view_class(self) -> type[Any] | None:
        """Return the class of its views; None for ``BaseView``."""
        ...

    @property
    def history_class(self) -> type[Any] | None:
        """Return the class of its histories; None for ``RunHistory``."""
        ...


def view_of(form: Shown, run: Run[Any]) -> RunView:
    """Return the view of a run of a form in its current state; the view advances the run from now on."""
    view: RunView = (form.view_class or BaseView).at(run)
    return view


def unread_view(form: Shown, run_id: str) -> RunView:
    """Return the view of a run before its first entry."""
    return view_of(form, Run(form.machine, run_id, performs=False))


class Settled(msgspec.Struct, frozen=True):
    """The effect that a result settles, as it was before the entry.

    Attributes:
        effect: the effect.
        part: id of the part it belongs to; empty for none.
        abandoned: the effect had been cancelled.
    """

    effect: Effect
    part: str
    abandoned: bool


class BaseView:
    """The view of a run of any machine; see ``RunView``."""

    def __init__(self, run: Run[Any]) -> None:
        self.run = run
        self._rows: Rows | None = None

    @classmethod
    def at(cls, run: Run[Any]) -> Self:
        """Return the view of a run in its current state; a run without entries has no rows."""
        return cls(run)

    def read(self, entries: Iterable[Entry]) -> list[Delta]:
        """Read the next entries; return one delta for each."""
        return [self._read_entry(entry) for entry in entries]

    # -- state rows --------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """Return the state rows, by id; made from memory when they are first read."""
        if self._rows is None:
            parts = self.parts() if self.run.seq else ()
            self._rows = {row_id(*part): row for part in parts if (row := self.row(*part)) is not None}
        return self._rows

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield kind and key of every possible state row."""
        yield "run", ""
        for key, effect in self.run.outstanding.items():
            if isinstance(effect, AskPerson):
                yield "ask", key
            elif isinstance(effect, StartChild):
                yield "child", key

    def row(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return a state row with all its fields, from memory; None if it does not exist."""
        run = self.run
        match kind, run.outstanding.get(key):
            case "run", _:
                return self.run_row()
            case "ask", AskPerson() as ask if key not in run.abandoned:
                return ask_row(key, ask, self.part_of(key, ask))
            case "child", StartChild() as child:
                blocked, cancelling = key in run.memory.blocked_children, key in run.abandoned
                row = {"run": child_run_id(key), "machine": child.machine, "title": child.title}
                return {**row, "blocked": blocked, "cancelling": cancelling}
            case _:
                return None

    def run_row(self) -> dict[str, Any]:
        """Return the row of the run itself. It is made for every entry, so its cost must not grow with the run."""
        run, memory = self.run, self.run.memory
        ended = run.ended
        return {
            "machine": run.machine.name,
            "state": str(run.state),
            "paused": memory.paused,
            "ended": ended,
            "outcome": memory.outcome() if ended else None,
            "code": memory.code or None,
            "reason": brief(memory.reason) or None,
            "summary": brief(memory.result().get("summary")) if ended else None,
        }

    # -- story rows --------------------------------------------------------------------------------

    def begun(self, effect_id: str, effect: Effect, seq: int) -> tuple[str, dict[str, Any]] | None:
        """Return the kind and the fields of the story row that an effect begins; None if it begins none.

        Args:
            effect_id: id of the effect.
            effect: the effect.
            seq: number of the entry that issues it.
        """
        if isinstance(effect, StartChild):
            return "attempt", {"kind": kind_of(effect), "part": self.part_of(effect_id, effect), "child": child_run_id(effect_id)}
        if not effect.performed_outside or isinstance(effect, SignalChild | CancelEffect):
            return None
        part = self.part_of(effect_id, effect)
        return "attempt", {"kind": kind_of(effect), "part": part, "given": brief(_data(effect), seq)}

    def ended(self, event: EffectResult, seq: int) -> dict[str, Any]:
        """Return the fields that a result adds to the story row of its effect."""
        if isinstance(event, ChildEnded):
            return {"outcome": event.outcome, "result": brief(event.result, seq), "reason": brief(event.reason, seq)}
        return {"outcome": kind_of(event), "result": brief(_data(event), seq)}

    def story(self, entry: Entry, settled: Settled | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ids and fields of the story rows that an entry adds to; ``rows`` do not include the entry yet."""
        event = entry.event
        if settled is not None and isinstance(event, EffectResult) and (begun := self.begun(event.effect_id, settled.effect, entry.seq)):
            yield row_id(begun[0], event.effect_id), {"ended_at": entry.at, "abandoned": settled.abandoned, **self.ended(event, entry.seq)}
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if begun := self.begun(effect_id, effect, entry.seq):
                yield row_id(begun[0], effect_id), {"began_at": entry.at, **begun[1]}
        if isinstance(event, OwnershipAcquired) and event.epoch > 1:
            for effect_id in event.retried:
                again = self.run.outstanding.get(effect_id)
                if again is not None and self.repeats(effect_id, again) and (begun := self.begun(effect_id, again, entry.seq)):
                    yield row_id(begun[0], effect_id), {"retried_at": entry.at}

    def repeats(self, effect_id: str, effect: Effect) -> bool:  # noqa: ARG002 - for machines whose effects may go on without a driver
        """Return True if a resumed run performs an open effect again; False if it may be under way elsewhere."""
        return not isinstance(effect, AskPerson | WaitFor | StartChild)

    # -- words -------------------------------------------------------------------------------------

    def part_of(self, effect_id: str, effect: Effect | None) -> str:  # noqa: ARG002 - for machines with parts
        """Return the part that an effect belongs to, from the effect or from memory; empty for none."""
        return ""

    def lines(self, entry: Entry, settled: Settled | None) -> Iterable[LogLine]:
        """Yield the log lines of an entry. ``run`` includes the entry, ``rows`` do not yet."""
        event, was = entry.event, self.rows.get("run", {}).get("state", entry.state)
        yield from self.event_lines(entry, settled)
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            yield from self.effect_lines(effect_id, effect)
        if was != entry.state:
            yield LogLine(f"{was} → {entry.state}", weight="detail" if isinstance(event, OwnershipAcquired) else "event")

    def event_lines(self, entry: Entry, settled: Settled | None) -> Iterator[LogLine]:
        """Yield the log lines of the event of an entry."""
        event = entry.event
        match event:
            case OwnershipAcquired(epoch=epoch):
                yield LogLine(ownership_words(event), weight="detail" if epoch == 1 else "event")
            case Pause() | Unpause() | Cancel() | Forked() | Imported() | TransitionFailed():
                yield LogLine(control_words(entry))
            case Answered(cancelled=False):
                yield LogLine(answer_words(entry, event), settled.part if settled else "")
            case EventTaken(event_id=event_id, data=data):
                yield LogLine(f"event {plain(event_id)} came: {preview(data)}", settled.part if settled else "")
            case ChildEnded():
                yield LogLine(child_end_words(event), settled.part if settled else "")
            case _:
                pass

    def effect_lines(self, effect_id: str, effect: Effect) -> Iterator[LogLine]:
        """Yield the log lines of an issued effect."""
        part = self.part_of(effect_id, effect)
        match effect:
            case AskPerson(prompt=prompt):
                yield LogLine(f"waits for a person: {plain(prompt)}", part)
            case WaitFor(event=event) if event:
                yield LogLine(f"waits for the event {plain(event)}", part)
            case WaitFor(until=until):
                yield LogLine(f"waits until {in_utc(until)}", part)
            case StartChild(title=title):
                yield LogLine(f"started as run {plain(child_run_id(effect_id))}" + (f": {plain(title)}" if title else ""), part)
            case _:
                pass

    def noted(self, entry: Entry) -> str:
        """Return the log line of an entry that changed nothing."""
        if isinstance(entry.event, Answered):
            return f"answer {entry.event.verb} by {entry.actor} refused: {verdict_words(entry.note)}"
        return f"{kind_of(entry.event)} by {entry.actor} had no effect: {verdict_words(entry.note)}"

    # -- one entry ---------------------------------------------------------------------------------

    def _read_entry(self, entry: Entry) -> Delta:
        self.rows  # noqa: B018 - those before the entry, which its lines may compare with
        settled, lines = self._replay(entry)
        if entry.note:
            return _delta(entry, lines, {}, ())
        story = list(self.story(entry, settled))
        put, drop = self._changed(entry)
        for story_id, fields in story:
            put[story_id] = put.get(story_id, {}) | fields
        return _delta(entry, lines, put, tuple(drop))

    def _replay(self, entry: Entry) -> tuple[Settled | None, list[LogLine]]:
        """Replay an entry; return the effect that it settles, and its log lines."""
        event, run = entry.event, self.run
        if entry.note:
            run.replay([entry])
            return None, [LogLine(plain(self.noted(entry)), weight="event" if entry.key else "detail")]
        settled = None
        if isinstance(event, EffectResult) and (effect := run.outstanding.get(event.effect_id)):
            settled = Settled(effect, self.part_of(event.effect_id, effect), event.effect_id in run.abandoned)
        run.replay([entry])
        return settled, list(self.lines(entry, settled)) or [LogLine(plain_words(event), weight="detail")]

    def _changed(self, entry: Entry) -> tuple[Rows, list[str]]:
        """Update the rows that an entry has touched; return their changed fields, and the ids of removed rows."""
        put: Rows = {}
        drop = []
        for kind, key in dict.fromkeys(self.touched(entry)):
            its_id = row_id(kind, key)
            now, was = self.row(kind, key), self.rows.get(its_id)
            if now is None:
                if was is not None:
                    del self.rows[its_id]
                    drop.append(its_id)
            elif fields := now if was is None else _changes(now, was):
                self.rows[its_id], put[its_id] = now, fields
        return put, drop

    def touched(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """Yield kind and key of the rows that an entry may have changed: by its event, its effects, or its move."""
        yield "run", ""
        event, targets = entry.event, []
        match event:
            case EffectResult(effect_id=effect):
                targets.append(effect)
            case ChildBlocked(effect_id=of):
                targets.append(of)
            case OwnershipAcquired() | Forked():
                targets += [key for key, effect in self.run.outstanding.items() if isinstance(effect, StartChild)]
            case _:
                pass
        for effect_id, asked in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(asked, SignalChild | CancelEffect):
                targets.append(asked.effect_id)
            elif isinstance(asked, AskPerson | StartChild):
                targets.append(effect_id)
        for target in targets:
            yield "ask", target
            yield "child", target
        yield from self.run.touched


def row_id(kind: str, key: str) -> str:
    """Return the id of a row."""
    return f"{kind}:{key}" if key else kind


def ask_row(key: str, ask: AskPerson, part: str) -> dict[str, Any]:
    """Return the row of an open question."""
    seq = int(key.rpartition(":")[2].partition(".")[0])
    return {
        "part": part,
        "prompt": brief(ask.prompt, seq),
        "subject": brief(ask.subject, seq),
        "verbs": list(ask.verbs),
        "schema": brief(ask.schema, seq),
        "risk": ask.risk,
        "expires_at": ask.expires_at or None,
    }


def _delta(entry: Entry, lines: list[LogLine], put: Rows, drop: tuple[str, ...]) -> Delta:
    first, *more = lines
    return Delta(
        seq=entry.seq,
        at=entry.at,
        kind=kind_of(entry.event),
        actor=entry.actor,
        state=str(entry.state),
        text=first.text,
        part=first.part,
        weight=first.weight,
        more=tuple(more),
        put=put,
        drop=drop,
    )


def _data(it: Event | Effect) -> dict[str, Any]:
    """Return the fields of an event or effect as JSON."""
    data: dict[str, Any] = msgspec.json.decode(_encode(it))
    return {name: value for name, value in data.items() if name not in ("type", "effect_id")}


def _changes(now: dict[str, Any], was: dict[str, Any]) -> dict[str, Any]:
    """Return the changed fields, compared as JSON: 1 and True are equal in Python, but not in JSON."""
    return {
        name: value
        for name, value in now.items()
        if value is not (before := was[name]) and (value != before or _encode(value) != _encode(before))
    }
