"""What a run and a device say to each other: the attempts, their errors, the questions of devices, and what is found of devices. Pure."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from asterism.engine.control.run_control import Risk, Verb
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.phrase import Phrase, Text
from asterism.engine.kernel.profile import AgentProfile

ErrorCode = Literal[
    "raised",  # the skill raised, or its command exited with a failure
    "crashed",  # its process died
    "timeout",  # one attempt took longer than timeout_s
    "deadline",  # the task's deadline passed, including time in a queue
    "bad_result",  # the result was not JSON, or too large
    "bad_arguments",  # the skill does not accept these arguments
    "guarded",  # a guard of the fleet refuses it
    "device_lost",  # the device was lost during the attempt, or it reports so
    "interrupted",  # our own process died during the attempt, which may have finished or not
    "cancelled",  # stopped on request
    "rejected",  # a person rejected it, or did not answer in time
    "unsatisfied",  # a dependency can never be satisfied
    "no_result",  # an input refers to a value that a result does not have
    "no_device",  # no device of the fleet can perform it
    "child_failed",  # the run that carried it out failed
    "item_failed",  # an item of its for_each failed
]


class TaskError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error of an attempt or a task.

    Attributes:
        message: what happened, as its device, a program or a person has written it; empty for an error
            that the run itself has found.
        why: what happened, of such an error.
    """

    code: ErrorCode
    message: str = ""
    why: Phrase | None = None

    @property
    def words(self) -> str:
        """Return what happened, in words."""
        return self.message or str(self.why or "")


def task_error(code: ErrorCode, why: Text) -> TaskError:
    """Return the error with this code, of a text or a phrase."""
    return TaskError(code=code, message=why) if isinstance(why, str) else TaskError(code=code, why=why)


def text_of(error: TaskError | None) -> Text:
    """Return the text or the phrase of an error; empty without one."""
    return (error.why or error.message) if error else ""


class DeviceQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question of a device. It ends a leg of the attempt; the reply to it begins the next leg.

    Attributes:
        prompt: the question, in words.
        schema: JSON Schema of the answer; empty for any value.
        verbs: the answers it accepts in addition to ``cancel``; ``reject`` declines.
        risk: ``low``, ``medium`` or ``high``.
        state: JSON object that the device needs to continue, 64 KiB at most: ids and sealed tokens,
            never a secret.
        may_go_on: True if the attempt may go on without an answer; its device is asked from time to time.
    """

    prompt: str
    schema: dict[str, Any] = msgspec.field(default_factory=dict)
    verbs: tuple[Verb, ...] = ("respond", "reject")
    risk: Risk = "low"
    state: dict[str, Any] = msgspec.field(default_factory=dict)
    may_go_on: bool = False


class DeviceReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's reply to the question of a device.

    Attributes:
        verb: ``respond`` with a value, ``approve``, or ``reject``, which declines.
        reason: reason of a reject, in words.
    """

    verb: Verb
    value: Any = None
    reason: str = ""


class AttemptFields(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one attempt at one task: of its effect, and of the request that its device receives.

    Attributes:
        skill: the skill to perform; empty for a device that accepts natural language.
        arguments: JSON object, with references resolved.
        number: number of the attempt, from 1.
        priority: higher goes first among the attempts of its run; the runs that wait for a device
            take turns.
        timeout_s: time limit from the moment the device starts it; None for no limit.
        deadline: seconds since the epoch at which it must have ended, even if it still waits in a
            queue; None for no deadline.
        env: environment variables of the task.
        task_folder: working folder of the task, relative to that of the device; empty for the same.
        leg: number of the leg, from 1; each question of the device ends one. The key is the same for
            every leg.
        reply: a person's reply to the question that ended the last leg; None on the first leg.
        state: the state of that question.
        approval: digest of the request that a person has approved; empty for none.
    """

    task_id: str
    device_id: str = msgspec.field(name="device")
    skill: str = ""
    description: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    number: int = msgspec.field(default=1, name="attempt")
    priority: int = 0
    timeout_s: float | None = None
    deadline: float | None = msgspec.field(default=None, name="deadline_at")
    env: dict[str, str] = msgspec.field(default_factory=dict)
    task_folder: str = msgspec.field(default="", name="folder")
    leg: int = 1
    reply: DeviceReply | None = None
    state: dict[str, Any] = msgspec.field(default_factory=dict)
    approval: str = ""


class Attempt(AttemptFields, frozen=True, kw_only=True):
    """One attempt at one task, as a device receives it.

    Attributes:
        key: idempotency key, the id of the effect of its first leg; the same after a crash. A message
            of a leg to the other side has ``message_key`` as its id.
        results: JSON results of the direct predecessors, by task id.
        issued: (seq, index) of the effect in its journal; of equal priorities, the lower goes first.
        folder: working folder of a device without one: where the run was started; empty for the
            driver's.
        queued: True if the journal does not say that the attempt has begun.
        repeatable: True if its work may happen twice: its skill is idempotent.
        begins_durably: True if its work may begin only when the journal says that it has begun.
        again: True if it may have been started already under this key: the device must look for it
            before it starts anything, and return ``interrupted`` if it can neither find it nor rule
            it out.
        handle: what the device reported with ``attached``, by which it finds the attempt; empty if
            it has not.
        since: seconds since the epoch, before the device can have received the attempt.
        secrets: paths of the arguments with references to secrets, which only the performing process
            resolves; other arguments may contain the same text as data.
        networked: True if a text in the arguments may come from another computer, so that it is no path.
        is_foreign: True if something of the task came over the network or from a model.
    """

    key: str
    run_id: str
    results: dict[str, Any] = msgspec.field(default_factory=dict)
    issued: tuple[int, int] = (0, 0)
    folder: str = msgspec.field(default="", name="run_folder")
    queued: bool = False
    repeatable: bool = False
    begins_durably: bool = True
    again: bool = False
    handle: str = ""
    since: float = 0.0
    secrets: tuple[tuple[str | int, ...], ...] = ()
    networked: bool = False
    is_foreign: bool = False

    @property
    def message_key(self) -> str:
        """Return the key of this leg, which differs from that of the other legs."""
        return self.key if self.leg == 1 else f"{self.key}#{self.leg}"


_NOT_SHOWN = frozenset(
    {
        "key",
        "run_folder",
        "run_id",
        "attempt",
        "priority",
        "issued",
        "timeout_s",
        "deadline_at",
        "queued",
        "repeatable",
        "begins_durably",
        "again",
        "handle",
        "since",
        "leg",
        "reply",
        "state",
        "secrets",
        "networked",
        "approval",
        "is_foreign",
    }
)
"""Fields of ``Attempt``, by their names in JSON, that identify and time it, or are the same for the whole run. Any other is shown."""
_EMPTY: tuple[Any, ...] = ("", {}, [], None)


def request_shown(attempt: Attempt) -> dict[str, Any]:
    """Return what a person approves of an attempt: the request as the device gets it, but for what only identifies and times it."""
    request = msgspec.to_builtins(attempt)
    return {name: value for name, value in request.items() if name not in _NOT_SHOWN and (value not in _EMPTY or name == "arguments")}


class DeviceLost(Event, tag="device_lost", frozen=True, kw_only=True):
    """A device was marked as lost; no attempt starts on it until ``DeviceFound``.

    Attributes:
        reason: why, in words.
        removed: True if it has left the fleet.
    """

    is_progress: ClassVar[bool] = False

    device: str
    reason: str = ""
    removed: bool = False


class DeviceFound(Event, tag="device_found", frozen=True, kw_only=True):
    """A lost device is available again, a device has another profile, or a device has joined the fleet.

    Attributes:
        profile: its profile from now on; None for the same.
    """

    device: str
    profile: AgentProfile | None = None
