"""The checker: stands beside a world and asks the invariants after every entry that becomes durable.

It keeps its own replay of each journal, entry by entry from the packed records, so what it looks at is
what a recovery would see. The first violation counts; the world stops at it. What is asked of a run is in ``watched``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from asterism.kernel.journal import Record
from asterism.kernel.machine import Machine
from asterism.kernel.run import Run
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.runtime.ports.store import Commit, RunRow
from asterism.runtime.registration import Registration
from asterism.simulation.checks.shown import SHOWN_EVERY, ViewChecker
from asterism.simulation.checks.watched import Watched, WatchedPlainly
from asterism.simulation.checks.watched_constellation import WatchedConstellation
from asterism.simulation.checks.watched_flow import WatchedFlow
from asterism.simulation.checks.watched_loop import WatchedLoop
from asterism.simulation.device import Performance, PerformanceLog
from asterism.simulation.invariants import InvariantViolated
from asterism.stores.memory import Memory
from asterism.views.view import RunView

MACHINES: Mapping[str, Machine[Any]] = {machine.name: machine for machine in (CONSTELLATION_AGENT, ORCHESTRATION_LOOP, FLOW_AGENT)}
"""The machines that every world has, by name."""
WATCHED: Mapping[str, type[Watched[Any]]] = {
    CONSTELLATION_AGENT.name: WatchedConstellation,
    ORCHESTRATION_LOOP.name: WatchedLoop,
    FLOW_AGENT.name: WatchedFlow,
}
"""How the runs of a machine are watched, by its name; ``WatchedPlainly`` for all others."""
LEAST_SECRET = 9
"""Characters of a secret that is looked for; shorter words are anywhere, and ``continue`` is what a loop's supervisor says."""


class Checker:
    """Checks every run of a world.

    Args:
        now: seconds since the epoch.
        machines: those of its world, by name.
        views: of machines that have one of their own, by the machine's name; None where no rows are looked at.

    Attributes:
        violation: the first one found.
        let_go: processes that have let go of their run; a device that ignores its cancel may go on there for a while.
        patience_s: how long a process may not know what it has written, because the store does not answer.
        secrets: words that were said in confidence.
        entries: how many were checked.
    """

    def __init__(
        self, now: Callable[[], float], machines: Mapping[str, Machine[Any]] = MACHINES, views: Mapping[str, type[RunView]] | None = None
    ) -> None:
        self._now = now
        self._views = views
        self._machines = machines
        self._runs: dict[str, Watched[Any]] = {}
        self._robbed = False
        self.violation: InvariantViolated | None = None
        self.let_go: set[str] = set()
        self.patience_s = 0.0
        self.secrets: set[str] = set()
        self.entries = 0

    # -- when something happens --------------------------------------------------------------------

    def submitted(self, row: RunRow, *records: Record) -> None:
        """A run was written with its first records."""
        if row.run_id in self._runs:
            self._fail(self._runs[row.run_id].fail(6, f"{row.run_id} was started twice"))
        watched = WATCHED.get(row.machine, WatchedPlainly)
        it = self._runs[row.run_id] = watched(self._machines[row.machine], row.run_id, self._now)
        it.robbed = self._robbed
        it.shown = None if self._views is None else ViewChecker(it.machine, row.run_id, self._views)
        self.entries += len(records)
        self._guarded(lambda: it.take(records))

    def committed(self, writer: str, commit: Commit, live: Run[Any] | None) -> None:
        """A commit has become durable.

        Args:
            writer: the process that wrote it.
            commit: what it wrote.
            live: the writer's own state of the run.
        """
        self.entries += len(commit.records)
        self._guarded(lambda: self._runs[commit.run_id].check_commit(writer, commit, live))

    def began(self, performance: Performance, ledger: PerformanceLog) -> None:
        """Somebody has begun to perform something."""
        it = self._runs[performance.run_id]
        self._guarded(lambda: it.check_performance(performance, ledger, patience_s=self.patience_s, let_go=self.let_go))

    def quiet(self, run_id: str, process: str, live: Run[Any] | None) -> None:
        """Nothing was written for a while; a process that has not written its claim yet need not know why."""
        it = self._runs.get(run_id)  # a run that was taken in from elsewhere is not driven
        if live is None or it is None or it.writer != process or live.ended:
            return
        waits = bool(live.outstanding or live.memory.paused)
        late = "" if it.robbed else it.overdue()  # who was robbed is letting go of it, as long as a device takes
        if why := late or ("" if waits else it.unnamed_wait(live)):
            self._fail(it.fail(8, why))

    def story(self, run_id: str) -> list[str]:
        """The last entries of a run, one line each."""
        return self._runs[run_id].replayed.history

    def rob(self) -> None:
        """An owner was declared dead while it lives."""
        self._robbed = True
        for it in self._runs.values():
            it.robbed = True

    def over(self, store: Memory, ledger: PerformanceLog) -> None:
        """Nobody drives the runs any more, and nothing else will happen to them."""
        for run in self._runs:
            self._guarded(functools.partial(self._runs[run].check_end, store, ledger))
            self._guarded(functools.partial(self._runs[run].check_children, store))
        self._guarded(lambda: self._check_secrets(store))

    def _check_secrets(self, store: Memory) -> None:
        """What was said in confidence is written nowhere."""
        for run, records in store.records.items():
            written = [record.body for record in records]
            written += [row.body for row in store.inbox.values() if row.run_id == run]
            written += [inquiry.prompt + inquiry.subject for inquiry in store.inquiries.values() if inquiry.run_id == run]
            if any(secret in text for secret in self.secrets if len(secret) >= LEAST_SECRET for text in written):
                raise self._runs[run].fail(11, "a secret is written")

    def _guarded(self, check: Callable[[], object]) -> None:
        try:
            check()
        except InvariantViolated as violated:
            self._fail(violated)

    def _fail(self, violated: InvariantViolated) -> None:
        self.violation = self.violation or violated


def own_views(seed: int, registrations: Iterable[Registration]) -> Mapping[str, type[RunView]] | None:
    """Return the views of registered machines, by the machine's name; None for the worlds in which no rows are looked at."""
    return None if seed % SHOWN_EVERY else {it.machine.name: it.view for it in registrations if it.view is not None}
