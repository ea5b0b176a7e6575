"""The plan history of a run: the decisions about its constellation, with actor, reason and changes, read from the journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from asterism.constellation.machine.events import AskPlanner, ConstellationSubmitted, Planned, PlanningFailed
from asterism.constellation.machine.memory import AwaitingApproval, ConstellationMemory
from asterism.constellation.model.changes import Change, Written, changes, written
from asterism.constellation.view.words import count_tasks
from asterism.engine.control.run_control import Answered, AskPerson
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.phrase import words_of
from asterism.engine.kernel.run import Run
from asterism.views.words import count, duration, plain, preview

MAX_CHANGES = 20
"""Changes of one decision that are listed at most; the journal has all."""


class PlanDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about the constellation.

    Attributes:
        seq, at, actor: number, time and actor of its journal entry.
        generation: generation of the constellation it is about.
        what: the decision in a few words.
        thought: thought of the planner.
        asked: request to the planner; None if it was not asked.
        batch: tasks that the planner was asked about, also if a person then approved its answer.
        created: True for the first decision, which created the constellation.
        took_s: seconds until the answer.
        changed: changes, with the values before and after; everything, where it created the constellation.
        remarks: edits that changed nothing, and reasons why edits were dropped.
        usage: usage of the answer.
    """

    seq: int
    at: float
    actor: str
    generation: int
    what: str
    thought: str = ""
    asked: AskPlanner | None = None
    batch: tuple[str, ...] = ()
    created: bool = False
    took_s: float = 0.0
    changed: tuple[Change, ...] = ()
    remarks: tuple[str, ...] = ()
    usage: Usage = Usage()

    def shown(self) -> dict[str, Any]:
        """Return the decision as JSON data, with feedback in words."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        if self.asked and self.asked.feedback:
            words = {"feedback": str(self.asked.feedback), "rejections": [*map(str, self.asked.rejections)]}
            found["asked"] |= {name: value for name, value in words.items() if value}
        return found


class _Before(NamedTuple):
    """The constellation before an entry that may decide about it, and the proposal that the entry answers."""

    written: Written
    generation: int
    proposed: Planned | None = None
    batch: tuple[str, ...] = ()


class PlanHistory:
    """The decisions about the constellation of a run.

    Call ``before`` and ``after`` around the replay of each entry, or ``read``, which also replays.

    Args:
        run: the run before its first entry.

    Attributes:
        decisions: decisions so far, in order.
    """

    def __init__(self, run: Run[ConstellationMemory]) -> None:
        self.decisions: list[PlanDecision] = []
        self._run = run
        self._asked: dict[str, tuple[AskPlanner, float]] = {}
        self._before: _Before | None = None

    def read(self, entries: Iterable[Entry]) -> None:
        """Replay the next entries and read them."""
        for entry in entries:
            self.before(entry)
            self._run.replay([entry])
            self.after(entry)

    def before(self, entry: Entry) -> None:
        """Note the constellation before an entry, if the entry may decide about it."""
        event, memory = entry.event, self._run.memory
        if entry.note or not _may_decide(type(event)):
            return
        before, planning = _Before(written(memory.constellation), memory.restarts), memory.planning
        if isinstance(planning, AwaitingApproval) and isinstance(event, Answered) and event.effect_id == planning.effect_id:
            before = before._replace(proposed=planning.proposed, batch=planning.request.batch)
        self._before = before

    def after(self, entry: Entry) -> None:
        """Read an entry that the run has just replayed."""
        before, self._before = self._before, None
        if before is not None:
            self._decide(entry, before)
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(effect, AskPlanner):
                self._asked[effect_id] = effect, entry.at

    def _decide(self, entry: Entry, before: _Before) -> None:
        event, memory = entry.event, self._run.memory
        restarted = memory.restarts != before.generation
        changed = () if restarted else tuple(changes(before.written, written(memory.constellation)))
        answer = event if isinstance(event, Planned | PlanningFailed) else None
        if not changed and not restarted and answer is None:
            return
        asked, since = self._asked.get(answer.effect_id, (None, entry.at)) if answer else (None, entry.at)
        remarks = list(answer.notes) if answer else []
        remarks += map(words_of, entry.side_effects.get("notes", ()))
        remarks += [words_of(entry.side_effects["dropped"])] if "dropped" in entry.side_effects else []
        plan = event if isinstance(event, Planned) else before.proposed
        self.decisions.append(
            PlanDecision(
                seq=entry.seq,
                at=entry.at,
                actor=entry.actor,
                generation=before.generation,
                what=_what(entry, changed, proposed=before.proposed is not None, restarted=restarted),
                thought=plan.thought if plan else "",
                asked=asked,
                batch=asked.batch if asked else before.batch,
                created=not before.written,
                took_s=entry.at - since,
                changed=changed,
                remarks=tuple(remarks),
                usage=answer.usage if answer else Usage(),
            )
        )


def _may_decide(event: type[Event]) -> bool:
    return event.from_outside or issubclass(event, ConstellationSubmitted | Planned | PlanningFailed)


def _what(entry: Entry, changed: tuple[Change, ...], *, proposed: bool, restarted: bool) -> str:
    event = entry.event
    made = f"{count(len(changed), 'change')}" if changed else "no change"
    if restarted:
        return "restart: new plan requested"
    match event:
        case ConstellationSubmitted():
            return f"submitted with the request: {count_tasks((it.after or {}).get('role', 'task') for it in changed if it.part == 'task')}"
        case PlanningFailed():
            return f"no answer: {plain(event.reason, 500)}"
        case Planned():
            return f"{event.status}, {made}" if changed or not _waits(entry) else f"{event.status}, waiting for approval"
        case Answered():
            return f"{_APPROVED.get(event.verb, event.verb) if proposed else f'answered ({event.verb})'}, {made}"
        case _:
            return f"external edit, {made}"


_APPROVED = {"approve": "approved", "edit": "approved with changes"}


def _waits(entry: Entry) -> bool:
    return any(isinstance(effect, AskPerson) for effect in entry.effects)


# -- words -----------------------------------------------------------------------------------------


def change_words(change: Change) -> str:
    """Return a change in one line: ``+`` for an addition, ``-`` for a removal, ``~`` for changed fields."""
    subject = f"{change.part} {plain(change.id)}"
    if change.before is None:
        fields = {name: value for name, value in (change.after or {}).items() if name not in ("task_id", "id", "from", "to")}
        return f"+ {subject}  {preview(fields)}".rstrip()
    if change.after is None:
        return f"- {subject}"
    names = dict.fromkeys((*change.before, *change.after))
    return f"~ {subject}  " + "; ".join(f"{name}: {_value(change.before, name)} → {_value(change.after, name)}" for name in names)


def _value(fields: dict[str, Any], name: str) -> str:
    return preview(fields[name]) if name in fields else "none"


def usage_words(usage: Usage) -> str:
    """Return tokens, cost and model in words; empty if nothing was used."""
    if usage == Usage():
        return ""
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    model = f", {plain(usage.model)}" if usage.model else ""
    return f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens{cost}, {count(usage.requests, 'request')}{model}"


def decision_words(decision: PlanDecision) -> list[str]:
    """Return a decision in lines: a heading, and its details."""
    asked = decision.asked
    about = f" about {', '.join(map(plain, asked.batch[:10]))}" if asked and asked.batch else ""
    head = f"asked{about}, answered after {duration(decision.took_s)}: " if asked else ""
    lines = [f"{head}{decision.what}"]
    lines += [f"feedback: {plain(str(asked.feedback), 500)}"] if asked and asked.feedback else []
    lines += [f"thought: {plain(decision.thought, 1000)}"] if decision.thought else []
    lines += [change_words(change) for change in decision.changed[:MAX_CHANGES]]
    lines += [f"and {count(len(decision.changed) - MAX_CHANGES, 'change')} more"] if len(decision.changed) > MAX_CHANGES else []
    lines += [plain(remark, 500) for remark in decision.remarks]
    lines += [used] if (used := usage_words(decision.usage)) else []
    return lines
