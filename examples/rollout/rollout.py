"""Deploys to hosts, one after the other: what may have happened is not repeated, and each host is watched for ten minutes."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any

from asterism import Form
from asterism.engine.control import (
    Answered,
    AskPerson,
    BatchEnded,
    ChildEnded,
    Effect,
    EffectResult,
    Event,
    Forked,
    RecoveryPolicy,
    RunControl,
    RunMemory,
    StartRequest,
    StepContext,
    Text,
    cancels_to,
    child_start,
    define_machine,
    fails_to,
    row,
)
from asterism.testing.people import Crash, everyone_says
from asterism.testing.world import World


class State(StrEnum):
    """The states of a rollout; in BAKING, a host is watched."""

    START = "START"
    DEPLOYING = "DEPLOYING"
    ASKING = "ASKING"
    BAKING = "BAKING"
    NEXT_HOST = "NEXT_HOST"
    DONE = "DONE"
    STOPPED = "STOPPED"


class Begin(Event, tag="begin", frozen=True, kw_only=True):
    """The event that begins a run."""

    hosts: tuple[str, ...]


class Deployed(EffectResult, tag="deployed", frozen=True, kw_only=True):
    """The result of a Deploy; `problem` is empty if the host has been deployed to."""

    problem: str = ""


class Deploy(Effect, tag="deploy", frozen=True, kw_only=True):
    """Deploy to a host. It may not be repeated without a question."""

    host: str

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """Return DO_NOT_RETRY: after a crash, the result is that of `interrupted`."""
        return RecoveryPolicy.DO_NOT_RETRY

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return a result that says why it is not known whether the host has been deployed to."""
        return Deployed(effect_id=effect_id, problem=str(why))


class Memory(RunMemory, kw_only=True):
    """The data of a run; `bakes_until` is the time until which the host is watched, or 0."""

    hosts: tuple[str, ...] = ()
    bakes_until: float = 0.0

    def wake_at(self) -> float | None:
        """Return when the run goes on by itself; never while it is paused."""
        return self.bakes_until if self.bakes_until and not self.paused else None

    def result(self) -> dict[str, Any]:
        """Return the hosts of this run and of its child runs."""
        return {"summary": ", ".join(self.hosts), **self.failure_info()}


def begin(memory: Memory, event: Begin, context: StepContext) -> State:
    """Deploy to the first host."""
    memory.hosts = event.hosts
    context.schedule(Deploy(host=memory.hosts[0]))
    return State.DEPLOYING


def deployed(memory: Memory, event: Deployed, context: StepContext) -> State:
    """Watch the host, or ask a person."""
    if not event.problem:
        memory.bakes_until = context.at + 600
        return State.BAKING
    context.schedule(AskPerson(question=f"{memory.hosts[0]}: {event.problem}. Deploy to it again?"))
    return State.ASKING


def answered(memory: Memory, event: Answered, context: StepContext) -> State:
    """Deploy again, or give up."""
    if event.verb == "approve":
        context.schedule(Deploy(host=memory.hosts[0]))
        return State.DEPLOYING
    memory.code, memory.reason = "given_up", f"{context.actor} gave {memory.hosts[0]} up"
    return State.STOPPED


def go_on(memory: Memory, event: BatchEnded, context: StepContext) -> State | None:  # noqa: ARG001 - a move
    """Start a run for the next hosts once the host has been watched."""
    if memory.paused or context.outstanding or context.at < memory.bakes_until:
        return None
    memory.bakes_until = 0.0
    if len(memory.hosts) == 1:
        memory.code = "finished"
        return State.DONE
    context.schedule(child_start("rollout", StartRequest(definition={"hosts": memory.hosts[1:]}), "the next hosts"))
    return State.NEXT_HOST


def child_ended(memory: Memory, event: ChildEnded, context: StepContext) -> State:  # noqa: ARG001 - a move
    """End as the child run has."""
    if event.outcome == "finished":
        memory.code = "finished"
        return State.DONE
    memory.code, memory.reason = "child_failed", event.reason
    return State.STOPPED


def forked(memory: Memory, event: Forked, context: StepContext) -> None:  # noqa: ARG001 - a move
    """Watch the host as long as the original run."""
    if memory.bakes_until:
        memory.bakes_until += event.idle_s


def starts(start: StartRequest) -> Begin:
    """Return the first event of a child run."""
    return start.defined_as(Begin)


ROLLOUT = define_machine(
    "rollout",
    states=State,
    initial=State.START,
    table={
        State.START: {Begin: row(begin, State.DEPLOYING)},
        State.DEPLOYING: {Deployed: row(deployed, State.BAKING, State.ASKING)},
        State.ASKING: {Answered: row(answered, State.DEPLOYING, State.STOPPED)},
        State.BAKING: {BatchEnded: row(go_on, State.NEXT_HOST, State.DONE)},
        State.NEXT_HOST: {ChildEnded: row(child_ended, State.DONE, State.STOPPED), BatchEnded: row(go_on, internal=True)},
        State.DONE: {},
        State.STOPPED: {},
    },
    effects=(Deploy,),
    memory=Memory,
    control=RunControl(cancel=cancels_to(State.STOPPED), defect=fails_to(State.STOPPED), forked=forked),
    starts=starts,
)


class Slow:
    """Deploys in a minute, to nowhere."""

    async def perform(self, effect_id: str, effect: Deploy, report: Any) -> EffectResult:  # noqa: ARG002 - a performer
        """Deploy to a host."""
        await asyncio.sleep(60)
        return Deployed(effect_id=effect_id)


FORM = Form(ROLLOUT, performers={Deploy: Slow()})

if __name__ == "__main__":
    world = World(7, machines=[FORM], people=everyone_says("approve"), crashes=[Crash(during="deploy", after_s=30)])
    ending = world.run_machine(ROLLOUT, Begin(hosts=("a", "b")))
    print("\n".join(question.prompt for question in world.database.inquiries.values()))
    print(ending.outcome, round(ending.lasted_s), "s", ending.children[0].outcome)
