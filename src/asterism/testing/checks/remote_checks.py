"""Comparison of a run's attempts on remote devices with what these devices count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asterism.constellation.machine.events import AttemptEnded, AttemptStopped, Dispatch, StopAttempt
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.engine.control.run_control import Forked
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect
from asterism.engine.kernel.run import Run
from asterism.testing.remote import RemoteJob


class RemoteChecks:
    """The attempts of one run that remote devices perform. A fork begins with none: those of its original are not its own."""

    def __init__(self) -> None:
        self._ends: dict[str, AttemptEnded] = {}
        self._attempts: dict[str, Dispatch] = {}
        self._stopped: set[str] = set()
        self._jobs: dict[str, list[RemoteJob]] = {}

    def note(self, entry: Entry, effects: Mapping[str, Effect]) -> None:
        """Note an entry that was replayed, whose effects are among these."""
        event = entry.event
        if isinstance(event, Forked):
            self._ends.clear()
            self._attempts.clear()
        if entry.note:
            return
        effect = effects.get(event.effect_id) if isinstance(event, AttemptEnded | AttemptStopped) else None
        if isinstance(event, AttemptEnded) and isinstance(effect, Dispatch) and event.question is None:
            self._ends[effect.key(event.effect_id)] = event
            self._attempts[effect.key(event.effect_id)] = effect
        elif isinstance(event, AttemptStopped) and isinstance(effect, StopAttempt) and not event.error:
            self._stopped.add(effect.of)

    def why_not_begun(self, job: RemoteJob, *, is_known: bool, is_unrepeatable: bool) -> str:
        """Return why a job that has begun must not begin; empty if it may."""
        earlier = [it for it in self._jobs.get(job.key, []) if not it.is_forgotten]
        self._jobs.setdefault(job.key, []).append(job)
        if not is_known:
            return f"{job.key} has begun, but is not in the journal"
        if earlier and is_unrepeatable:
            return f"{job.key} has begun {len(earlier) + 1} times"
        return f"{job.key} has begun after it was stopped" if job.key in self._stopped else ""

    def why_left(self, run: Run[ConstellationMemory], jobs: Sequence[RemoteJob], devices: Mapping[str, object]) -> str:
        """Return what is wrong with the jobs of the run at the end of its world; empty if nothing is."""
        memory = run.memory
        named = {effect.key(effect_id) for effect_id, effect in memory.attempts.items()} | memory.still_running.keys()
        named |= {attempt.first for attempt in memory.questions.values()}
        named |= {effect.of for effect in run.outstanding.values() if isinstance(effect, StopAttempt)}
        named |= {key for key, end in self._ends.items() if end.error is not None and end.error.code == "interrupted"}
        for job in jobs:
            if job.status in ("running", "asking") and job.key not in named:
                return f"{job.key} is {job.status} on {job.attempt.device_id}, and the run does not name it"
        for key, end in self._ends.items():
            if end.error is None and self._attempts[key].device_id in devices:
                done = [job for job in jobs if job.key == key and job.status == "ended"]
                counted = [job for job in done if not job.is_forgotten]
                if not done or (len(counted) > 1 and not self._attempts[key].repeatable):
                    return f"{key} has a result, but {len(counted or done)} of its jobs have ended"
        return ""
