"""Small worlds of a constellation agent on a remote device, whole: handles, questions, losses and stops, in every order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from asterism.constellation.machine.events import (
    AttemptAttached,
    AttemptEnded,
    AttemptStopped,
    ConstellationSubmitted,
    Dispatch,
    StopAttempt,
)
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.devices.model.attempt import DeviceQuestion, TaskError
from asterism.engine.control.run_control import Answered, AskPerson
from asterism.engine.kernel.machine import Effect, Event
from asterism.engine.kernel.run import Run
from asterism.testing.invariants import InvariantViolated
from tests.simulation.exploration.small_run import Move, Situation
from tests.simulation.exploration.small_worlds import AgentSpace


class RemoteSpace(AgentSpace):
    """What can happen to one plan on a remote device. The budget of edits counts its questions."""

    def first(self) -> Event:
        """The plan, and one remote device for all of it."""
        first = super().first()
        assert isinstance(first, ConstellationSubmitted)
        return msgspec.structs.replace(first, fleet=tuple(msgspec.structs.replace(it, kind="a2a", reattach=True) for it in first.fleet))

    def name_of(self, effect: Effect) -> str:
        """As in every space; also the leg of an attempt, and what is stopped."""
        if isinstance(effect, StopAttempt):
            return f"stop of {effect.task_id}"
        return super().name_of(effect) + (f".{effect.leg}" if isinstance(effect, Dispatch) else "")

    def remembered(self, run: Run[ConstellationMemory]) -> dict[str, Any]:
        """As in every space; keys by the task that has them."""
        facts = super().remembered(run)
        for name in ("handles", "still_running"):
            if name in facts:
                facts[name] = sorted(facts[name].values())
        return facts

    def outcomes(self, state: Situation[ConstellationMemory], effect_id: str, effect: Effect) -> Iterator[Move[ConstellationMemory]]:
        """As in every space; also a handle, a question, a loss, an answer, and the end of a stop."""
        name, memory = self.name_of(effect), state.run.memory
        yield from super().outcomes(state, effect_id, effect)
        if isinstance(effect, StopAttempt):
            yield f"{name} is done", lambda: self.take(state, [AttemptStopped(effect_id=effect_id)])
            if state.left.failures:
                left = AttemptStopped(effect_id=effect_id, error=effect.task_id)
                yield f"{name} fails", lambda: self.take(state, [left], spend="failures")
        elif isinstance(effect, AskPerson) and "question" in effect.subject:
            for verb in ("respond", "cancel"):
                yield f"{name}: {verb}", lambda verb=verb: self.take(state, [Answered(effect_id=effect_id, verb=verb)])  # type: ignore[misc]
        if not isinstance(effect, Dispatch):
            return
        if effect.key(effect_id) not in memory.handles:
            yield f"{name} is attached", lambda: self.take(state, [AttemptAttached(of=effect_id, handle=effect.task_id)])
        if effect_id in memory.attempts and effect_id not in memory.queued:
            if state.left.edits:
                asks = AttemptEnded(effect_id=effect_id, question=DeviceQuestion(prompt="?"))
                yield f"{name} asks", lambda: self.take(state, [asks], spend="edits")
            if state.left.failures:
                lost = AttemptEnded(effect_id=effect_id, error=TaskError(code="device_lost", message="no"))
                yield f"{name} is lost", lambda: self.take(state, [lost], spend="failures")

    def watch(self, run: Run[ConstellationMemory]) -> Callable[[Event], None]:
        """As in every space; and what may run elsewhere is under way, has ended there, or is being stopped."""
        look_after, before = super().watch(run), _under_way(run.memory)

        def look(event: Event) -> None:
            look_after(event)
            stopped = {effect.of for effect in run.outstanding.values() if isinstance(effect, StopAttempt)}
            ended = {before.get(event.effect_id, "")} if isinstance(event, AttemptEnded) and not _is_detached(event) else set()
            if gone := set(before.values()) - set(_under_way(run.memory).values()) - stopped - ended:
                raise InvariantViolated(15, f"nobody stops {min(gone)}", run.history)

        return look


def _under_way(memory: ConstellationMemory) -> dict[str, str]:
    """Return the keys of the attempts that have begun, by the effect that continues them."""
    begun = {effect_id: it.key(effect_id) for effect_id, it in memory.attempts.items() if effect_id not in memory.queued or it.leg > 1}
    return {**begun, **{effect_id: it.first for effect_id, it in memory.questions.items() if memory.asked_by_device(effect_id)}}


def _is_detached(event: AttemptEnded) -> bool:
    return event.question is not None or (event.error is not None and event.error.code == "device_lost")
