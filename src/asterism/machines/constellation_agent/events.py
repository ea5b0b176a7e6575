"""What happens to a constellation agent, and what it asks for. Plain data."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from asterism.constellation.documents import PlanDocument
from asterism.constellation.edits import Refusal
from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError
from asterism.kernel.machine import Effect, EffectResult, Event, RecoveryPolicy
from asterism.machines.usage import Usage


class ConstellationAgentStatus(StrEnum):
    """States of a constellation agent."""

    START = "START"
    CONTINUE = "CONTINUE"
    FINISH = "FINISH"
    FAIL = "FAIL"


class WeavingMode(StrEnum):
    """What the planner is asked for: a constellation, or edits of one."""

    CREATION = "CREATION"
    EDITING = "EDITING"


Hold = Literal["successors", "none", "all"]
Replan = Literal["always", "when_needed", "never"]
BUDGET = "budget"
"""Code of planning that failed because it would have used more than it may."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a run behaves; the bounds of everything that could go on for ever.

    Attributes:
        replan: when the planner is asked again: after each batch, when needed (a failure, a false
            condition, a result with a true ``replan`` field, the end), or never.
        hold: what waits while an edit is being decided.
        wall_limit_s: past it the run fails.
        max_asks: questions to the planner in all.
        max_reasks: times it is asked again about one batch because its answer was refused.
        max_restarts: constellations thrown away for a new one.
        inquiry_timeout_s: how long a question to a person stays open; None for ever (but for the wall limit).
        max_tokens: tokens that planning may use; None for any number. When they are used the run asks no more and pauses itself.
        max_cost_usd: the same in US dollars; what has no known price costs nothing.
        approve_plan: a person must say yes to each constellation before anything of it runs.
        approve_edits: a person must say yes to each change that the planner wants to make of it.
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


# -- events ----------------------------------------------------------------------------------------


class ConstellationSubmitted(Event, tag="constellation_submitted", frozen=True, kw_only=True):
    """A request, with the fleet it is for.

    Attributes:
        request: the user's words.
        fleet: profiles, in the order of the fleet file.
        fleet_file: where the devices can be opened again, for whoever resumes the run.
        working_directory: where the run was started; what is relative in its tasks is relative to it, whoever drives it.
        planner: how its planner can be opened again, for whoever resumes the run; never a key; empty for the offline one.
        plan: given when nobody needs to plan it.
        inputs: what ``${inputs.…}`` refers to in the plan of a run that carries out another one's task.
        previous_rounds: the rounds of the session before this one, oldest first, each as ``earlier.round_of`` gives it.
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


class Edited(Event, tag="edited", frozen=True, kw_only=True):
    """Edits from outside, while the run goes on: taken whole or not at all.

    Attributes:
        actions: as written, ``[{"tool": …, "parameters": {…}}]``; judged by what they touch, whatever else has changed meanwhile.
        base_version: of the constellation they were written against.
    """

    from_outside: ClassVar[bool] = True

    actions: tuple[dict[str, Any], ...]
    base_version: int = 0


class Planned(EffectResult, tag="planned", frozen=True, kw_only=True):
    """What the planner proposes. Its ``status`` is a proposal too: the table disposes.

    Attributes:
        thought, observation: its reasoning, for people.
        status: the state it proposes.
        plan: the constellation, when it was asked for one; when it was asked for edits, one to be merged into what is there.
        actions: edits as written, ``[{"tool": …, "parameters": {…}}]``, when it was asked for edits.
        result: ``{"summary": …, …}`` for the user.
        usage: what the answer used.
        prompt, reply: what was said to the model and what it said, for the story; no rule reads them.
        notes: what went wrong on the way to this answer, in words: replies that were refused, waits, the backup model.
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
    """No plan, or no edit, can be had; trying has used something all the same.

    Attributes:
        code: why, for programs; ``BUDGET`` where it would have gone past a limit: then the run pauses itself, to be asked again.
    """

    code: str
    reason: str
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


class RaiseLimits(Event, tag="raise_limits", frozen=True, kw_only=True):
    """Planning may use this much in all; a run that has paused itself for its limit goes on. None leaves a limit as it is."""

    from_outside: ClassVar[bool] = True

    max_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    max_cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None


class AttemptEnded(EffectResult, tag="attempt_ended", frozen=True, kw_only=True):
    """An attempt has ended: with a result, or with an error."""

    result: Any = None
    error: TaskError | None = None


class AttemptProgressed(Event, tag="attempt_progressed", frozen=True, kw_only=True):
    """A sign of life of a running attempt."""

    effect_id: str
    fraction: float | None = None
    message: str = ""


class DeviceLost(Event, tag="device_lost", frozen=True, kw_only=True):
    """A device is gone; nothing is started on it until it is found."""

    device: str
    reason: str = ""


class DeviceFound(Event, tag="device_found", frozen=True, kw_only=True):
    """A lost device is back."""

    device: str


# -- effects ---------------------------------------------------------------------------------------


class AskPlanner(Effect, tag="ask_planner", frozen=True, kw_only=True):
    """Ask for a constellation, or for edits.

    Attributes:
        base_version: of the constellation the answer will be written against.
        batch: ids of the tasks that ended and are asked about.
        feedback: why the last answer could not be taken, in words.
        refusal: the same for programs.
        number: which question of the run this is, from 1.
        rejections: why people said no to earlier answers, oldest first.
    """

    mode: WeavingMode
    request: str
    base_version: int = 0
    batch: tuple[str, ...] = ()
    feedback: str = ""
    refusal: Refusal | None = None
    number: int = 1
    rejections: tuple[str, ...] = ()

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return "planner"

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """The planner was not heard."""
        return PlanningFailed(effect_id=effect_id, code="interrupted", reason=why)


class Dispatch(Effect, tag="dispatch", frozen=True, kw_only=True):
    """Start an attempt on a device; its id is the idempotency key.

    Attributes:
        plan: the plan of an attempt that is made by a child run. Such a one is remembered, and shown to people,
            as any other; what is asked for is a ``StartChild``.
        deadline_at: seconds since the epoch, queueing included; None for none.
        recovery: what a crash means for it, by its skill.
    """

    task_id: str
    device: str
    skill: str = ""
    description: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    attempt: int = 1
    priority: int = 0
    timeout_s: float | None = None
    deadline_at: float | None = None
    recovery: RecoveryPolicy = RecoveryPolicy.DO_NOT_RETRY
    plan: dict[str, Any] | None = None

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return f"device:{self.device}"

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """What a crash means for it."""
        return self.recovery

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """Whether it finished is not known."""
        return AttemptEnded(effect_id=effect_id, error=TaskError(code="interrupted", message=why))
