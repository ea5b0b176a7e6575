"""The checker: evaluates the invariants of a world after every durable entry.

It replays each journal, entry by entry from the packed records, and therefore checks the state that a recovery
would see. The world stops at the first violation. The checks of one run are in ``run_checks``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asterism.constellation.form import FORM as CONSTELLATION
from asterism.conversation.form import FORM as CONVERSATION
from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import Commit, RunRow
from asterism.engine.runtime.form import Form, by_name
from asterism.loop.form import FORM as LOOP
from asterism.stores.memory import MemoryDatabase
from asterism.testing.checks.constellation_checks import ConstellationChecks
from asterism.testing.checks.flow_checks import FlowChecks
from asterism.testing.checks.loop_checks import LoopChecks
from asterism.testing.checks.run_checks import RunChecks, TableChecks
from asterism.testing.checks.view_checks import ViewChecker
from asterism.testing.device import Performance, PerformanceLog
from asterism.testing.invariants import InvariantViolated
from asterism.testing.remote import RemoteJob

_CHECKED = ((CONSTELLATION, ConstellationChecks), (LOOP, LoopChecks), (CONVERSATION, FlowChecks))
FORMS: Mapping[str, Form] = by_name(dataclasses.replace(form, checks=checks) for form, checks in _CHECKED)
"""The forms that every world has, with their checks, by the name of their machine."""
MIN_SECRET_CHARS = 9
"""Minimum length of a secret that is searched for. Shorter words occur by chance, as does a supervisor's ``continue``."""


class Checker:
    """Checks every run of a world.

    Args:
        now: seconds since the epoch.
        forms: forms of the world by the name of their machine.
        checks_views: check the view rows.

    Attributes:
        forms: forms of the world, with their checks, by the name of their machine.
        violation: the first one found.
        released: processes that have released their run; a device that ignores its cancel may continue there for a while.
        max_store_outage_s: seconds for which a process may not know whether its write succeeded.
        secrets: texts that were sent as secrets.
        entries: number of checked entries.
    """

    def __init__(self, now: Callable[[], float], forms: Mapping[str, Form] = FORMS, *, checks_views: bool = False) -> None:
        self._now = now
        self._checks_views = checks_views
        self.forms = forms
        self._runs: dict[str, RunChecks[Any]] = {}
        self._is_fenced = False
        self.violation: InvariantViolated | None = None
        self.released: set[str] = set()
        self.max_store_outage_s = 0.0
        self.secrets: set[str] = set()
        self.entries = 0

    # -- notifications -----------------------------------------------------------------------------

    def submitted(self, row: RunRow, *records: Record) -> None:
        """Check the first records of a new run."""
        if row.run_id in self._runs:
            self._fail(self._runs[row.run_id].fail(6, f"{row.run_id} was started twice"))
        form = self.forms[row.machine]
        watched = form.checks if isinstance(form.checks, type) else TableChecks
        it = self._runs[row.run_id] = watched(form.machine, row.run_id, self._now)
        it.own = () if isinstance(form.checks, type) else form.checks
        it.is_fenced = self._is_fenced
        it.view_checker = ViewChecker(form, row.run_id) if self._checks_views else None
        self.entries += len(records)
        self._record(lambda: it.add(records))

    def committed(self, writer: str, commit: Commit, live: Run[Any] | None) -> None:
        """Check a commit that has become durable.

        Args:
            writer: the process that wrote it.
            commit: the commit.
            live: the writer's live state of the run.
        """
        self.entries += len(commit.records)
        self._record(lambda: self._runs[commit.run_id].check_commit(writer, commit, live))

    def performance_started(self, performance: Performance, log: PerformanceLog) -> None:
        """Check a performance that has just started."""
        it = self._runs[performance.run_id]
        self._record(lambda: it.check_performance(performance, log, max_store_outage_s=self.max_store_outage_s, released=self.released))

    def remote_started(self, job: RemoteJob) -> None:
        """Check a job that has just started on the far side of a remote device."""
        it = self._runs[job.attempt.run_id]
        self._record(lambda: it.remote_started(job))

    def check_quiet(self, row: RunRow, process: str, live: Run[Any] | None) -> None:
        """Check a run of a process that has written nothing for a while. Before it owns the run, nothing is checked."""
        it = self._runs.get(row.run_id)  # an imported run is not driven
        if live is None or it is None or it.writer != process or live.ended:
            return
        if row.epoch != it.epoch:  # the same process has acquired the run again, and has not recorded that
            return
        waits = bool(live.outstanding or live.memory.paused)
        late = "" if it.is_fenced else it.overdue()  # a fenced owner releases the run as soon as its devices have stopped
        if why := late or ("" if waits else it.unexplained_wait(live)):
            self._fail(it.fail(8, why))

    def history(self, run_id: str) -> list[str]:
        """Return the last entries of a run, one line each."""
        return self._runs[run_id].replayed.history

    def fence(self) -> None:
        """Note that a living owner was declared dead, so that two processes may perform at once for a while."""
        self._is_fenced = True
        for it in self._runs.values():
            it.is_fenced = True

    def check_end(self, database: MemoryDatabase, log: PerformanceLog, jobs: Sequence[RemoteJob] = ()) -> None:
        """Check the final state of all runs, after the last process has ended."""
        for run in self._runs:
            self._record(functools.partial(self._runs[run].check_end, database, log))
            self._record(functools.partial(self._runs[run].check_children, database))
            self._record(functools.partial(self._runs[run].check_jobs, [job for job in jobs if job.attempt.run_id == run]))
        self._record(lambda: self._check_secrets(database))

    def _check_secrets(self, database: MemoryDatabase) -> None:
        """Check that no secret was written."""
        for run, records in database.records.items():
            written = [record.body for record in records]
            written += [row.body for row in database.inbox.values() if row.run_id == run]
            written += [inquiry.prompt + inquiry.subject for inquiry in database.inquiries.values() if inquiry.run_id == run]
            if any(secret in text for secret in self.secrets if len(secret) >= MIN_SECRET_CHARS for text in written):
                raise self._runs[run].fail(11, "a secret was written")

    def _record(self, check: Callable[[], object]) -> None:
        try:
            check()
        except InvariantViolated as violated:
            self._fail(violated)

    def _fail(self, violated: InvariantViolated) -> None:
        self.violation = self.violation or violated
