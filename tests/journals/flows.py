"""Golden conversations: a scene for each thing that a flow agent can go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asterism.conversation.machine.events import (
    AgentStatus,
    AgentView,
    ChildRequested,
    ConversationRecalled,
    HandlerReported,
    MessageReceived,
)
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.children import constellation
from asterism.engine.control.children import ChildEnded, ChildSignaled, SignalChild, StartChild
from asterism.engine.control.run_control import FleetGuarded, Forked, GuardLifted, Imported, TransitionFailed
from asterism.engine.kernel.guards import DeviceGuards, Guards, SkillGuard
from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL
from tests.simulation.conversation_agents import Polite, Steps
from tests.simulation.conversations import Conversation, hold
from tests.support.conversation_harness import talk
from tests.unit.conversation.machine.test_flow_agent import Talk
from tests.unit.conversation.python.test_children import LINES, Paint

S = AgentStatus
LUNCH = ["pizza", "medium", "small", "3", "skip", "!pause lunch", "!resume", "make it 4", "maybe", "yes"]


def told(it: Talk) -> list[Record]:
    return [packer(FLOW_AGENT).pack(entry) for entry in it.entries]


def flow() -> Sequence[Record]:
    """Answers that cannot be used, a pause, a change of what is to be approved, and a yes."""
    return hold(Conversation("golden", "Pizza", LUNCH, ""))[0].records


def flow_child() -> Sequence[Record]:
    """Two runs below, which ask; paused and resumed on the way: the parent's journal."""
    return talk(Paint, *LINES[:2], "!pause", "!resume", *LINES[2:])[0].records


def flow_child_cancel() -> Sequence[Record]:
    """A cancel goes down."""
    return talk(Paint, *LINES[:2], "!cancel enough")[0].records


def flow_sub_states() -> Sequence[Record]:
    """A body that asks for more, and goes on in a sub-state of its own."""
    return talk(Steps, "go", "yes", "bigger", "yes")[0].records


def flow_error() -> Sequence[Record]:
    """A body raises, and the agent says it is sorry."""
    return talk(Polite, "go", "the house")[0].records


def flow_cancel() -> Sequence[Record]:
    """No: cancelled from an approval; what was said while it ran is taken afterwards."""
    it = Talk()
    it.handled(S.WAITING_FOR_APPROVAL, text="Go ahead?", view=AgentView(fields={"item": "pizza"}))
    it.answer("reject", reason="too late")
    it.take(MessageReceived(text="sorry"))
    it.handled(S.CANCELLED, code="rejected", reason="too late")
    return told(it)


def flow_secret() -> Sequence[Record]:
    """A secret that only its owner knows, a message that comes while a handler runs, and a person who was away."""
    it = Talk()
    it.handled(S.WAITING_FOR_INPUT, text="Your password?", view=AgentView(asked_field="password", secret_expected=True))
    it.answer(value="•••")
    it.take(MessageReceived(text="are you there?", values={"item": "tea"}, secret="•••"))  # noqa: S106 - a placeholder, as journals have it
    it.handled(S.WAITING_FOR_INPUT, text="What?", view=AgentView(withheld_fields=("password",), asked_field="item", retries=1))
    it.handled(text="Yes. What?")
    it.take(ConversationRecalled())
    it.answer(value="tea")
    it.entered(S.RUNNING)
    it.handled(S.COMPLETED, text="done", view=AgentView(outputs={"id": 1}, flags={"n": 1}), data={"more": True})
    return told(it)


def flow_interrupted() -> Sequence[Record]:
    """A body whose process died says how far it is the second time: a person has it run again."""
    it = Talk()
    it.entered(S.RUNNING)
    it.handled(interrupted=True)
    it.answer("approve")
    it.handled(again=True)
    it.entered()
    it.take(HandlerReported(effect_id=it.memory.handler_effect, text="half"), actor="agent")
    it.handled(S.COMPLETED, text="done")
    return told(it)


def flow_fork() -> Sequence[Record]:
    """A copy from the middle of a body that may have finished: a person leaves it at that."""
    it = Talk()
    it.entered(S.RUNNING)
    it.take(Forked(origin="r0", seq=3, idle_s=60.0))
    it.answer("reject")
    it.handled(S.ERROR, code="interrupted", reason="it was interrupted")
    it.handled()
    return told(it)


def flow_constellation() -> Sequence[Record]:
    """A constellation below is wanted twice under one key, and a defect of ours ends it by name."""
    it = Talk()
    it.entered(S.RUNNING)
    start = constellation({"tasks": [{"task_id": "a", "device": "d", "skill": "s"}]}, inputs={"when": "now"}, request="do a")
    for _ in range(2):
        it.take(ChildRequested(effect_id=it.memory.handler_effect, key="k", start=start), actor="agent")
    it.take(TransitionFailed(effect_id=it.memory.handler_effect, event="handler_notified", reason="KeyError: x"))
    it.handled(text="Sorry.")
    below, down = (
        next(key for key, effect in it.run.outstanding.items() if isinstance(effect, kind)) for kind in (StartChild, SignalChild)
    )
    it.take(ChildSignaled(effect_id=down))
    it.take(ChildEnded(effect_id=below, outcome="cancelled"))
    return told(it)


def flow_guarded() -> Sequence[Record]:
    """An admin lifts a guard of the run above; a copy asks again for an approval that was not used."""
    it = Talk(guards=Guards(plan_skills=("wipe",), submitter="ada"))
    it.handled(S.WAITING_FOR_APPROVAL, text="Go ahead?", view=AgentView(fields={"item": "pizza"}))
    it.take(GuardLifted(name="wipe", reason="seen"), permissions=ALL)
    it.answer("approve")
    it.take(Forked(origin="r0", seq=it.run.seq, idle_s=60.0))
    it.answer("reject", reason="once is enough")
    it.handled(S.CANCELLED, code="rejected", reason="once is enough")
    return told(it)


def flow_stricter() -> Sequence[Record]:
    """The fleet file becomes stricter while a conversation is under way."""
    it = Talk(guards=Guards(submitter="ada"))
    it.take(FleetGuarded(guards={"s": DeviceGuards(every=SkillGuard(approval=True))}))
    it.handled(S.WAITING_FOR_APPROVAL, text="Go ahead?", view=AgentView(fields={"item": "pizza"}))
    it.answer("reject", reason="not now")
    it.handled(S.CANCELLED, code="rejected", reason="not now")
    return told(it)


def flow_imported() -> Sequence[Record]:
    """A conversation comes from a file with a yes that no handler has used."""
    it = Talk(requires_approval=True)
    it.handled(S.WAITING_FOR_APPROVAL, text="Go ahead?", view=AgentView(fields={"item": "pizza"}))
    it.answer("approve")
    it.take(Imported())
    it.answer("reject", reason="not here")
    it.handled(S.CANCELLED, code="rejected", reason="not here")
    return told(it)


SCENES: tuple[Callable[[], Sequence[Record]], ...] = (
    flow, flow_child, flow_child_cancel, flow_sub_states, flow_error, flow_cancel, flow_secret, flow_interrupted, flow_fork,
    flow_constellation, flow_guarded, flow_stricter, flow_imported,
)  # fmt: skip
