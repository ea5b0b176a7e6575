"""The states, events and effects of a constellation agent, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from asterism.constellation.model.documents import PlanDocument
from asterism.devices.model.attempt import AttemptFields, DeviceQuestion, TaskError, task_error
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.guards import Guards
from asterism.engine.kernel.machine import Effect, EffectResult, Event, Needs, RecoveryPolicy
from asterism.engine.kernel.phrase import Phrase, Text, phrase
from asterism.engine.kernel.profile import AgentProfile


class ConstellationAgentStatus(StrEnum):
    """States of a constellation agent."""

    START = "START"
    CONTINUE = "CONTINUE"
    FINISH = "FINISH"
    FAIL = "FAIL"


class WeavingMode(StrEnum):
    """The kind of a planner request: a new constellation, or edits of the current one."""

    CREATION = "CREATION"
    EDITING = "EDITING"


Hold = Literal["successors", "none", "all"]
Replan = Literal["always", "when_needed", "never"]
BUDGET = "budget"
"""Code of a planning failure: the answer would have exceeded the budget."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options and limits of a run.

    Attributes:
        replan: when the planner is asked again: after each batch, when needed (a failure, a false
            condition, a result with a true ``replan`` field, the end), or never.
        hold: the tasks that wait while the planner decides.
        wall_limit_s: seconds after which the run fails.
        max_asks: planner requests in all.
        max_reasks: further requests about one batch after refused or rejected answers.
        max_restarts: constellations that may be replaced by new ones.
        inquiry_timeout_s: seconds that a question to a person stays open; None for no limit but the
            wall limit.
        max_tokens: tokens that planning may use; None for no limit. When they are used up, the run
            pauses itself.
        max_cost_usd: the same in US dollars; a model without a known price counts as free.
        approve_plan: True if a person must approve each constellation before any task of it runs.
        approve_edits: True if a person must approve each change that the planner makes.
        accept_failed: True if the planner may finish the run over failed tasks; a planner cannot set it.
        finally_limit_s: limit of all ``on_failure`` tasks together, in seconds, and again of all
            ``finally`` tasks. While one of them waits for a person, the time does not count.
        notify: names of the channels to which a server sends messages about the run; empty for all.
    """

    replan: Replan = "never"
    hold: Hold = "successors"
    wall_limit_s: Annotated[float, msgspec.Meta(gt=0)] = 7 * 86400.0
    max_asks: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    max_reasks: Annotated[int, msgspec.Meta(ge=0)] = 3
    max_restarts: Annotated[int, msgspec.Meta(ge=0)] = 3
    inquiry_timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    max_cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    approve_plan: bool = False
    approve_edits: bool = False
    accept_failed: bool = False
    finally_limit_s: Annotated[float, msgspec.Meta(gt=0)] = 300.0
    notify: tuple[str, ...] = ()


# -- events ----------------------------------------------------------------------------------------


class ConstellationSubmitted(Event, tag="constellation_submitted", frozen=True, kw_only=True):
    """A request with its fleet: the first event of a run.

    Attributes:
        fleet: profiles, in the order of the fleet file.
        fleet_file: file from which a resumed run opens its devices again.
        working_directory: folder where the run was started; base of relative paths in its tasks.
        planner: settings from which a resumed run opens its planner again, never with a key; empty
            for the offline planner.
        plan: the plan, if the planner need not make one.
        inputs: values of ``${inputs.…}`` in the plan of a run that carries out a task of another
            run.
        previous_rounds: earlier rounds of the session, oldest first, each as ``requests.round_of``
            returns it.
        params: values of the plan's parameters, converted and complete; empty for a plan that
            carries out a task, whose ``inputs`` fill them.
        guards: what earlier runs, or the run that starts it, have guarded; the fleet's part of a root
            comes with ``fleet``.
    """

    request: str
    fleet_file: str = ""
    working_directory: str = ""
    fleet: tuple[AgentProfile, ...]
    options: RunOptions = RunOptions()
    planner: dict[str, Any] = msgspec.field(default_factory=dict)
    plan: PlanDocument | None = None
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    previous_rounds: tuple[dict[str, Any], ...] = ()
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    guards: Guards = Guards()

    def needs(self) -> Needs:
        """Return its devices, and the settings of its planner."""
        return Needs(fleet_file=self.fleet_file, devices=self.fleet, planner=self.planner)


class Edited(Event, tag="edited", frozen=True, kw_only=True):
    """Edits from outside during the run; applied as a whole or not at all.

    Attributes:
        actions: as written, ``[{"tool": …, "parameters": {…}}]``; only conflicts with the parts
            they touch matter.
        base_version: version of the constellation they were written against.
    """

    from_outside: ClassVar[bool] = True

    actions: tuple[dict[str, Any], ...]
    base_version: int = 0


class Retry(Event, tag="retry", frozen=True, kw_only=True):
    """Let failed and cancelled tasks run again, and what was skipped because of them.

    Attributes:
        tasks: ids of tasks and items, such as ``transform[3]``; empty for all that have failed.
    """

    from_outside: ClassVar[bool] = True

    tasks: tuple[str, ...] = ()


class Planned(EffectResult, tag="planned", frozen=True, kw_only=True):
    """A proposal of the planner. Its ``status`` is proposed, too: the table decides whether the run takes it.

    Attributes:
        thought, observation: its reasoning, for people.
        status: the state it proposes.
        plan: the constellation, in CREATION; in EDITING, one to merge into the current
            constellation.
        actions: edits as written, ``[{"tool": …, "parameters": {…}}]``, in EDITING.
        result: ``{"summary": …, …}`` for the user.
        prompt, reply: the messages to and from the model, for people; no move reads them.
        notes: problems on the way to this answer, in words: refused replies, waits, use of the
            backup model.
    """

    thought: str = ""
    observation: str = ""
    status: ConstellationAgentStatus = ConstellationAgentStatus.CONTINUE
    plan: PlanDocument | None = None
    actions: tuple[dict[str, Any], ...] = ()
    result: dict[str, Any] = msgspec.field(default_factory=dict)
    usage: Usage = Usage()
    prompt: str = ""
    reply: str = ""
    notes: tuple[str, ...] = ()


class PlanningFailed(EffectResult, tag="planning_failed", frozen=True, kw_only=True):
    """The planner has no plan or edit to offer; trying may have used part of the budget.

    Attributes:
        code: cause, for programs. With ``BUDGET`` the run pauses itself and asks again once its
            limit is raised.
        reason: cause, as a text or a phrase.
        usage, notes: as in ``Planned``.
    """

    code: str
    reason: Text
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


class RaiseLimits(Event, tag="raise_limits", frozen=True, kw_only=True):
    """Set new limits of planning.

    A run that has paused itself for a limit continues. None leaves a limit unchanged.
    """

    from_outside: ClassVar[bool] = True

    max_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    max_cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None


class AttemptEnded(EffectResult, tag="attempt_ended", frozen=True, kw_only=True):
    """An attempt has ended with a result or an error; or a leg of it has ended with a question to a person."""

    result: Any = None
    error: TaskError | None = None
    question: DeviceQuestion | None = None


class AttemptProgressed(Event, tag="attempt_progressed", frozen=True, kw_only=True):
    """A progress report of a running attempt."""

    is_progress: ClassVar[bool] = False

    effect_id: str
    fraction: float | None = None
    message: str = ""


class AttemptBegun(Event, tag="attempt_begun", frozen=True, kw_only=True):
    """A device has begun an attempt that was queued.

    Attributes:
        of: id of the effect.
    """

    is_progress: ClassVar[bool] = False

    of: str


class AttemptQueued(Event, tag="attempt_queued", frozen=True, kw_only=True):
    """An attempt that counted as begun waits: other runs have the places of its device, or for another reason.

    Attributes:
        of: id of the effect.
        reason: that reason, in words; empty if other runs have the places.
    """

    is_progress: ClassVar[bool] = False

    of: str
    reason: str = ""


class AttemptAttached(Event, tag="attempt_attached", frozen=True, kw_only=True):
    """A device has reported the handle by which it finds an attempt again; the attempt has begun.

    Attributes:
        of: id of the effect.
    """

    is_progress: ClassVar[bool] = False

    of: str
    handle: str


class AttemptStopped(EffectResult, tag="attempt_stopped", frozen=True, kw_only=True):
    """A device was asked to end an attempt.

    Attributes:
        error: what may still run, and where; empty if nothing does.
    """

    error: Text = ""


class AttemptLooked(EffectResult, tag="attempt_looked", frozen=True, kw_only=True):
    """A device was asked about an attempt that waits for an answer.

    Attributes:
        gone_on: True if it has gone on without the answer; False also if the device could not say.
    """

    gone_on: bool = False


# -- effects ---------------------------------------------------------------------------------------


class AskPlanner(Effect, tag="ask_planner", frozen=True, kw_only=True):
    """Ask the planner for a constellation, or for edits.

    Attributes:
        base_version: version of the constellation that the answer refers to.
        batch: ids of the ended tasks to consider.
        feedback: reason why the last answer was refused or rejected; None on a first request.
        number: number of the request within the run, from 1.
        rejections: reasons why people rejected earlier answers, oldest first.
    """

    actor: ClassVar[str] = "planner"

    mode: WeavingMode
    request: str
    base_version: int = 0
    batch: tuple[str, ...] = ()
    feedback: Phrase | None = None
    number: int = 1
    rejections: tuple[Phrase, ...] = ()

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return a planning failure, because no answer arrived."""
        return PlanningFailed(effect_id=effect_id, code="interrupted", reason=why)


class Dispatch(AttemptFields, Effect, tag="dispatch", frozen=True, kw_only=True):
    """Start an attempt on a device, or its next leg. The effect's id, of the first leg, is the idempotency key of the attempt.

    Attributes:
        plan: the nested constellation of the task; None if it has none. A ``Dispatch`` that a child
            run carries out (a nested plan, or a device of kind ``agent`` or ``flow``) is never
            scheduled: it is the record of the attempt in the memory, and a ``StartChild`` is
            scheduled.
        recovery: recovery after a crash, from the skill.
        sources: ids of the predecessors that had completed when it was made, whose results it receives:
            the others may complete before a restart. None for all.
        queued: True if other attempts of this run have all places of the device, so that the attempt
            begins with an ``AttemptBegun``; False if it counts as begun now.
        first: id of the effect of the first leg; empty on the first leg.
    """

    logged_as: ClassVar[Callable[[Any], tuple[str, int]] | None] = lambda attempt: (attempt.task_id, attempt.number)

    recovery: RecoveryPolicy = RecoveryPolicy.DO_NOT_RETRY
    plan: dict[str, Any] | None = None
    sources: tuple[str, ...] | None = None
    queued: bool = False
    first: str = ""

    @property
    def actor(self) -> str:
        """Return the device."""
        return f"device:{self.device_id}"

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """Return the policy of its skill."""
        return self.recovery

    @property
    def repeatable(self) -> bool:
        """Return True if its work may happen twice; False also for an attempt that its device finds again."""
        return self.recovery is RecoveryPolicy.RETRY_SAME_KEY

    def key(self, effect_id: str) -> str:
        """Return the idempotency key of the attempt: the id of the effect of its first leg."""
        return self.first or effect_id

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return an interrupted attempt, which may have finished or not."""
        return AttemptEnded(effect_id=effect_id, error=task_error("interrupted", why))


class LookAtAttempt(Effect, tag="look_at_attempt", frozen=True, kw_only=True):
    """Ask a device whether an attempt has gone on although its question is open.

    Attributes:
        inquiry_id: id of the question.
        wait_s: seconds that were waited before.
    """

    inquiry_id: str
    task_id: str
    device: str
    wait_s: float

    @property
    def actor(self) -> str:
        """Return the device."""
        return f"device:{self.device}"

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return that the device could not say."""
        return AttemptLooked(effect_id=effect_id)


class StopAttempt(Effect, tag="stop_attempt", frozen=True, kw_only=True):
    """End an attempt on its device for good: cancelling its ``Dispatch`` only detaches this process from it.

    Attributes:
        of: key of the attempt: the id of the effect of its first leg.
        handle: by which the device finds it; empty if the journal has none.
        leg, state: as the last ``Dispatch`` or question of the attempt has them.
        until: epoch second until which it is tried; at least one try is made.
    """

    of: str
    task_id: str
    device: str
    skill: str = ""
    handle: str = ""
    leg: int = 1
    state: dict[str, Any] = msgspec.field(default_factory=dict)
    until: float = 0.0

    @property
    def actor(self) -> str:
        """Return the device."""
        return f"device:{self.device}"

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return a stop that may have failed."""
        return AttemptStopped(effect_id=effect_id, error=phrase("may_still_run", task=self.task_id, device=self.device, why=why))
