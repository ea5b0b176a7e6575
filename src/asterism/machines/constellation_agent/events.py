"""What happens to a constellation agent, and what it asks for. Plain data."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from asterism.constellation.documents import PlanDocument
from asterism.constellation.edits import Refusal
from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError
from asterism.kernel.machine import Effect, Event, Outcome, Redo
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


class Submitted(Event, tag="constellation_submitted", frozen=True, kw_only=True):
    """A request, with the fleet it is for.

    Attributes:
        request: the user's words.
        fleet: profiles, in the order of the fleet file.
        fleet_file: where the devices can be opened again, for whoever resumes the run.
        folder: where the run was started; what is relative in its tasks is relative to it, whoever drives it.
        planner: how its planner can be opened again, for whoever resumes the run; never a key; empty for the offline one.
        plan: given when nobody needs to plan it.
        inputs: what ``${inputs.…}`` refers to in the plan of a run that carries out another one's task.
        earlier: the rounds of the session before this one, oldest first, each as ``earlier.round_of`` gives it.
    """

    request: str
    fleet_file: str = ""
    folder: str = msgspec.field(default="", name="working_directory")
    fleet: tuple[AgentProfile, ...]
    options: RunOptions = RunOptions()
    planner: dict[str, Any] = msgspec.field(default_factory=dict)
    plan: PlanDocument | None = None
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    earlier: tuple[dict[str, Any], ...] = msgspec.field(default=(), name="previous_rounds")


class Edited(Event, tag="edited", frozen=True, kw_only=True):
    """Edits from outside, while the run goes on: taken whole or not at all.

    Attributes:
        actions: as written, ``[{"tool": …, "parameters": {…}}]``; judged by what they touch, whatever else has changed meanwhile.
        version: of the constellation they were written against.
    """

    from_outside: ClassVar[bool] = True

    actions: tuple[dict[str, Any], ...]
    version: int = msgspec.field(default=0, name="base_version")


class Planned(Outcome, tag="planned", frozen=True, kw_only=True):
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


class PlanningFailed(Outcome, tag="planning_failed", frozen=True, kw_only=True):
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


class TaskEnded(Outcome, tag="attempt_ended", frozen=True, kw_only=True):
    """An attempt has ended: with a result, or with an error."""

    result: Any = None
    error: TaskError | None = None


class Progressed(Event, tag="attempt_progressed", frozen=True, kw_only=True):
    """A sign of life of a running attempt."""

    of: str = msgspec.field(name="effect_id")
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
        version: of the constellation the answer will be written against.
        batch: ids of the tasks that ended and are asked about.
        told: why the last answer could not be taken, in words.
        refusal: the same for programs.
        number: which question of the run this is, from 1.
        rejections: why people said no to earlier answers, oldest first.
    """

    mode: WeavingMode
    request: str
    version: int = msgspec.field(default=0, name="base_version")
    batch: tuple[str, ...] = ()
    told: str = msgspec.field(default="", name="feedback")
    refusal: Refusal | None = None
    number: int = 1
    rejections: tuple[str, ...] = ()

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return "planner"

    def interrupted(self, effect: str, why: str) -> Outcome:
        """The planner was not heard."""
        return PlanningFailed(effect=effect, code="interrupted", reason=why)


class Dispatch(Effect, tag="dispatch", frozen=True, kw_only=True):
    """Start an attempt on a device; its id is the idempotency key.

    Attributes:
        constellation: the plan of an attempt that is made by a child run. Such a one is remembered, and shown to people,
            as any other; what is asked for is a ``StartChild``.
        deadline: seconds since the epoch, queueing included; None for none.
        redone: what a crash means for it, by its skill.
    """

    task_id: str
    device: str
    skill: str = ""
    description: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    number: int = msgspec.field(default=1, name="attempt")
    priority: int = 0
    timeout_s: float | None = None
    deadline: float | None = msgspec.field(default=None, name="deadline_at")
    redone: Redo = msgspec.field(default=Redo.NEVER, name="recovery")
    constellation: dict[str, Any] | None = msgspec.field(default=None, name="plan")

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return f"device:{self.device}"

    @property
    def redo(self) -> Redo:
        """What a crash means for it."""
        return self.redone

    def interrupted(self, effect: str, why: str) -> Outcome:
        """Whether it finished is not known."""
        return TaskEnded(effect=effect, error=TaskError(code="interrupted", message=why))
