"""Telemetry: an observer that follows the runs of one runtime through their appended entries.

There is one span per transition, and one per effect, from the entry that issues it to the entry
with its result. An effect's span is a child of the transition that issued it, and the transition
with its result is a child of the effect's span. All other spans, and effects that another process
issued, are children of the run (``spans.run_context``).

A process that dies writes no span for its open effects; the next owner writes them, from its
takeover on.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from asterism.constellation.machine.events import AttemptBegun, AttemptEnded, AttemptQueued, Dispatch
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.task import TaskStar
from asterism.engine.control.run_control import Answered, AskPerson, OwnershipAcquired
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult, make_effect_id, run_id_of
from asterism.engine.kernel.run import Run
from asterism.engine.ports.performer import Performer, WithinContext
from asterism.service.telemetry.logs import LogWriter
from asterism.service.telemetry.metrics import QueueDepths, instruments
from asterism.service.telemetry.spans import Spans, UnderWay, effect_name, outcome_of, run_context, under

MAX_RUNS = 5_000
"""Runs with open effects that are followed at once; beyond it, the run without an entry for longest
is dropped."""


class _Followed(msgspec.Struct, eq=False):
    """A run with its open effects, by id."""

    context: Context
    under_way: dict[str, UnderWay] = msgspec.field(default_factory=dict)


class Telemetry:
    """An observer that writes spans, metrics and log lines.

    Args:
        live: returns the live state of a run that is driven here (``Driver.live``).
        now: returns the seconds since the epoch.
        queue_depths: returns the number of waiting attempts by device.
        starter_of: returns the id of the effect that started a child which is driven here; empty
            for any other run. A tree is one trace, and a child's spans are below that effect's
            span.
        tracer_provider, meter_provider: the global ones by default.
    """

    def __init__(
        self,
        live: Callable[[str], Run[Any] | None],
        now: Callable[[], float],
        *,
        queue_depths: QueueDepths = dict,
        starter_of: Callable[[str], str] = lambda _: "",
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._live = live
        self._now = now
        self._queue_depths = queue_depths
        self._starter_of = starter_of
        self._spans = Spans(tracer_provider)
        self._instruments = instruments(meter_provider)
        self._instruments.depths.append(queue_depths)
        self._lines = LogWriter()
        self._runs: dict[str, _Followed] = {}  # the run without an entry for longest is first
        self._look()

    def close(self) -> None:
        """End all open spans as left open: the runs are released."""
        if self._queue_depths in self._instruments.depths:
            self._instruments.depths.remove(self._queue_depths)
        for run in tuple(self._runs):
            self._leave(run)

    # -- notifications -----------------------------------------------------------------------------

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Record entries that are durable now."""
        if entries and isinstance(entries[0].event, OwnershipAcquired):
            self._look()
        if not entries or not self._is_wanted:
            return
        self._instruments.append_s.record(max(0.0, self._now() - entries[-1].at))
        followed = self._runs.pop(run_id, None) or _Followed(self._context_of(run_id))
        lines_wanted = self._lines.wanted
        for entry in entries:
            self._take(followed, entry)
            if lines_wanted:
                self._lines.transition(entry)
        if isinstance(entries[0].event, OwnershipAcquired):
            self._take_over(followed, entries[0])
        if followed.under_way:
            self._runs[run_id] = followed
            if len(self._runs) > MAX_RUNS:
                self._leave(next(iter(self._runs)))
        elif any(not entry.note and not isinstance(entry.event, OwnershipAcquired) for entry in entries):
            self._end(run_id)

    def trouble(self, run_id: str, message: str) -> None:
        """Log a problem that the driver is dealing with."""
        if self._lines.wanted:
            self._lines.trouble(run_id, message)

    def _context_of(self, run_id: str) -> Context:
        """Return the parent context of a run's spans: the effect that started it, or its root."""
        starter, root = self._starter_of(run_id), run_id
        while above := self._starter_of(root):
            root = run_id_of(above)
        under_way = self._under_way(starter)
        return under(under_way.span, run_context(root)) if under_way else run_context(root)

    def _under_way(self, effect_id: str) -> UnderWay | None:
        followed = self._runs.get(run_id_of(effect_id))
        return followed.under_way.get(effect_id) if followed else None

    def within(self, performer: Performer) -> Performer:
        """Return a performer that makes each effect's span the current one for nested spans."""
        return WithinContext(performer, self._current)

    @contextlib.asynccontextmanager
    async def _current(self, effect_id: str, _: Any) -> AsyncIterator[None]:
        token = attach(self._context_in(effect_id))
        try:
            yield
        finally:
            detach(token)

    def _context_in(self, effect_id: str) -> Context:
        """Return the context of the spans below an effect."""
        run = run_id_of(effect_id)
        context = self._runs[run].context if run in self._runs else self._context_of(run)
        under_way = self._under_way(effect_id)
        return under(under_way.span, context) if under_way else context

    def _look(self) -> None:
        """Check if anything records telemetry.

        Done at each takeover only, because it costs more than recording an entry.
        """
        self._instruments.look()
        self._spans.look()
        self._is_wanted = self._spans.on or self._instruments.on or self._lines.wanted

    # -- one entry ---------------------------------------------------------------------------------

    def _take(self, followed: _Followed, entry: Entry) -> None:
        event, parent = entry.event, followed.context
        if isinstance(event, EffectResult) and not entry.note:
            under_way = followed.under_way.pop(event.effect_id, None)
            if under_way is None:  # another process issued the effect; only its end is observed
                opened = self._spans.effect(event.effect_id, None, parent, entry.at, name=effect_name(event))
                under_way = UnderWay(None, entry.at, opened, asked_here=False)
            under_way.settle(event, entry.at)
            self._measure(under_way, event, entry)
            parent = under(under_way.span, parent)
        elif isinstance(event, AttemptBegun | AttemptQueued) and (waiting := followed.under_way.get(event.of)):
            waiting.note_begin(entry.at if isinstance(event, AttemptBegun) else None, entry.at)
        span = self._spans.transition(entry, parent)
        if entry.effects:
            children = under(span, followed.context)
            for index, effect in enumerate(entry.effects):
                asked = make_effect_id(entry.run_id, entry.seq, index)
                opened = self._spans.effect(asked, effect, children, entry.at)
                followed.under_way[asked] = UnderWay(effect, entry.at, opened, asked_here=True)
                if effect.cancels and (target := followed.under_way.get(effect.cancels)):
                    target.call_off()

    def _take_over(self, followed: _Followed, entry: Entry) -> None:
        """Adjust the open effects to those of a run that this process has acquired."""
        if isinstance(entry.event, OwnershipAcquired) and entry.event.epoch == 1:
            self._instruments.runs_started.add(1)
        live = self._live(entry.run_id)
        if live is None:
            return
        for settled_elsewhere in followed.under_way.keys() - live.outstanding.keys():
            followed.under_way.pop(settled_elsewhere).leave(entry.at)
        for asked, effect in live.outstanding.items():
            if asked not in followed.under_way:
                span = self._spans.effect(asked, effect, followed.context, entry.at)
                followed.under_way[asked] = UnderWay(effect, entry.at, span, asked_here=False)

    def _measure(self, under_way: UnderWay, event: EffectResult, entry: Entry) -> None:
        effect, begun_at = under_way.effect, under_way.begun_at
        if isinstance(effect, Dispatch):
            kind = {"asterism.device": effect.device_id, "asterism.skill": effect.skill, "asterism.outcome": outcome_of(event)}
            self._instruments.attempts.add(1, kind)
            if under_way.asked_here:
                waited_s = (entry.at if begun_at is None else begun_at) - under_way.since
                self._instruments.queue_s.record(max(0.0, waited_s), {"asterism.device": effect.device_id})
            if under_way.asked_here and begun_at is not None:
                self._instruments.attempt_s.record(max(0.0, entry.at - begun_at), kind)
        elif isinstance(event, Answered) and under_way.asked_here:
            self._instruments.people_s.record(max(0.0, entry.at - under_way.since), {"asterism.outcome": outcome_of(event)})
        if self._lines.wanted and isinstance(event, AttemptEnded | Answered) and (task := self._task(entry.run_id, effect)):
            self._lines.task_ended(entry.run_id, entry.seq, task, effect_id=event.effect_id, outcome=outcome_of(event))

    def _task(self, run_id: str, effect: Effect | None) -> TaskStar | None:
        """Return the task of an effect, as it is after the batch."""
        live = self._live(run_id)
        if live is None or not isinstance(live.memory, ConstellationMemory):
            return None
        task_id = effect.task_id if isinstance(effect, Dispatch) else effect.subject.get("task_id") if isinstance(effect, AskPerson) else ""
        return live.memory.constellation.tasks.get(str(task_id))

    # -- the end -----------------------------------------------------------------------------------

    def _end(self, run_id: str) -> None:
        """Record the end of a run without open effects, if it has ended."""
        live = self._live(run_id)
        if live is None or not live.ended:
            return
        outcome = live.memory.outcome()
        self._instruments.runs_ended.add(1, {"asterism.outcome": outcome})
        tasks = live.memory.constellation.in_order() if isinstance(live.memory, ConstellationMemory) else []
        counts = collections.Counter(str(task.status) for task in tasks)
        for status, count in counts.items():
            self._instruments.tasks.add(count, {"asterism.status": status})
        if self._lines.wanted:
            for task in tasks:
                if not task.started_at:  # skipped or cancelled: no result was logged
                    self._lines.task_ended(run_id, live.seq, task)
            self._lines.run_ended(run_id, live.seq, outcome, dict(counts))

    def _leave(self, run_id: str) -> None:
        """Forget a run and leave its spans open; its effects continue elsewhere, or later."""
        now = self._now()
        for under_way in self._runs.pop(run_id).under_way.values():
            under_way.leave(now)
