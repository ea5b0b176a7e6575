"""What a pool and its workers say to each other: one JSON object a line.

Not here: log lines. What a skill prints goes another way and can never be taken for a message.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from asterism.constellation.profile import Skill
from asterism.constellation.task import ErrorCode

OutputForm = Literal["text", "json"]


class FunctionJob(msgspec.Struct, frozen=True, tag="function"):
    """A skill that is a Python function: ``file.py:function`` or ``package.module:function``."""

    source: str


class CommandJob(msgspec.Struct, frozen=True, tag="command"):
    """A skill that is a program: its argv with ``{name}`` placeholders, and what its stdout is."""

    argv: tuple[str, ...]
    output: OutputForm = "text"


Job = FunctionJob | CommandJob


class DescribeSkills(msgspec.Struct, frozen=True, tag="describe"):
    """Asks for the skills behind these sources; answered by one Described."""

    sources: tuple[str, ...]


class Work(msgspec.Struct, frozen=True, kw_only=True, tag="work"):
    """Asks for one attempt; answered by Started, any number of Progress, and one Done or Failed.

    Attributes:
        limit_bytes: bound on the result, as JSON.
        folder: to work in; empty for that of the worker's owner.
    """

    job: Job
    key: str
    task_id: str
    number: int
    arguments: dict[str, Any]
    results: dict[str, Any]
    limit_bytes: int
    folder: str = ""


Order = DescribeSkills | Work


class SkillsDescribed(msgspec.Struct, frozen=True, tag="described"):
    """One answer per source: its skill, or what is wrong with it."""

    answers: tuple[Skill | str, ...]


class WorkStarted(msgspec.Struct, frozen=True, tag="started"):
    """The attempt begins now; before this, none of its code has run."""


class WorkProgress(msgspec.Struct, frozen=True, tag="progress"):
    """What SkillContext.progress was given."""

    fraction: float | None
    message: str


class WorkDone(msgspec.Struct, frozen=True, tag="done"):
    """The attempt returned. ``reusable``: nothing of it is left running in the worker."""

    result: msgspec.Raw
    reusable: bool


class WorkFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The attempt ended with an error."""

    code: ErrorCode
    message: str
    reusable: bool = False


class WorkerExited(msgspec.Struct, frozen=True, tag="exited"):
    """The process that performs is gone: its exit code, or minus the signal that killed it; None where nobody can tell."""

    code: int | None


Report = SkillsDescribed | WorkStarted | WorkProgress | WorkDone | WorkFailed | WorkerExited


class AttemptError(Exception):
    """Raised inside a worker to end its attempt with this code and message."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message
