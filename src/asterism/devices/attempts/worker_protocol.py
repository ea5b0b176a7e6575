"""Messages between a pool and its workers: one JSON object per line.

Log lines are not among them: the output of a skill has a pipe of its own, and is never mistaken for
a message.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from asterism.devices.model.attempt import ErrorCode
from asterism.devices.port import Attempt
from asterism.engine.kernel.profile import Skill

OutputForm = Literal["text", "json", "file"]
FieldType = Literal["str", "int", "float", "bool", "list", "dict"]


class FunctionJob(msgspec.Struct, frozen=True, tag="function"):
    """A skill that is a Python function: ``file.py:function`` or ``package.module:function``.

    ``plain`` accepts one without ``@skill``.
    """

    source: str
    plain: bool = False


class CommandJob(msgspec.Struct, frozen=True, tag="command"):
    """A skill that is a program: its argv with ``{name}`` placeholders, and its output format.

    ``file`` is the name of the file that it writes, if its output is one; ``returns`` has the types of the fields of its
    JSON output, if it declares them.
    """

    argv: tuple[str, ...]
    output: OutputForm = "text"
    file: str = ""
    returns: dict[str, FieldType] = {}


Job = FunctionJob | CommandJob


class DescribeSkills(msgspec.Struct, frozen=True, tag="describe"):
    """Requests the skills of these sources; answered by one SkillsDescribed.

    ``plain`` accepts functions without ``@skill``; ``folder`` is the working folder of the import.
    """

    sources: tuple[str, ...]
    plain: bool = False
    folder: str = ""


class Work(msgspec.Struct, frozen=True, kw_only=True, tag="work"):
    """Requests one attempt; answered by WorkStarted, WorkProgress, one WorkDone or WorkFailed, and WorkerExited.

    Attributes:
        limit_bytes: size limit of the result, as JSON.
        scratch: folder of the attempt, which the worker makes if it needs it.
    """

    job: Job
    attempt: Attempt
    limit_bytes: int
    scratch: str = ""


Order = DescribeSkills | Work


class SkillsDescribed(msgspec.Struct, frozen=True, tag="described"):
    """One answer per source: its skill, or its error in words."""

    answers: tuple[Skill | str, ...]


class WorkStarted(msgspec.Struct, frozen=True, tag="started"):
    """The attempt starts now; before this, none of its code has run.

    ``secrets`` are the values to mask in what it prints and returns, by name.
    """

    secrets: dict[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"WorkStarted(secrets={list(self.secrets)})"


class WorkProgress(msgspec.Struct, frozen=True, tag="progress"):
    """The arguments of one SkillContext.progress call."""

    fraction: float | None
    message: str


class ProducedFile(msgspec.Struct, frozen=True):
    """A file that a result names: its digest, where it is now, its name and media type."""

    digest: str
    path: str
    name: str
    media_type: str = ""


class WorkDone(msgspec.Struct, frozen=True, tag="done"):
    """The attempt returned.

    Attributes:
        files: the files that the result names.
    """

    result: msgspec.Raw
    files: tuple[ProducedFile, ...] = ()


class WorkFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The attempt ended with an error.

    Attributes:
        missing: True if its function was not found or not imported, so that none of its code has run.
        trace: traceback of the error that its code raised.
    """

    code: ErrorCode
    message: str
    missing: bool = False
    trace: str = ""


class WorkerExited(msgspec.Struct, frozen=True, tag="exited"):
    """The process of an attempt ended, or that of its worker.

    Attributes:
        code: its exit code, or minus its signal; None if unknown.
        reusable: True if the worker is as it was before the attempt, and nothing that the attempt started still runs.
    """

    code: int | None
    reusable: bool = False


Report = SkillsDescribed | WorkStarted | WorkProgress | WorkDone | WorkFailed | WorkerExited
