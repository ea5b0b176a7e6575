"""The JSON of requests and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from asterism.engine.ports.store import RunStatus
from asterism.service.api.problems import Problem

Seq = Annotated[int, Field(ge=0, le=2**53)]


def _storable(value: Any) -> Any:
    """Return a value that can be written as JSON. Raises ValueError: JSON can have half of a pair of surrogates, UTF-8 cannot."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise ValueError("a text in it is no valid Unicode") from None
    return value


GivenValue = Annotated[Any, AfterValidator(_storable)]
"""Any JSON in a request."""
GivenObject = Annotated[dict[str, Any], AfterValidator(_storable)]
"""A JSON object in a request, whose members are checked later."""


class Given(BaseModel):
    """A part of a request; an unknown name is an error, and so is ``true`` or ``"3"`` for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


def json_of(text: str) -> Any:
    """Return JSON text as a value; None for an empty one. Raises Problem if the database has other text."""
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Problem(500, "the database has text that is no JSON; restore it from a backup") from None


class FromRow(BaseModel):
    """A part of a response; ``model_validate`` reads it from a row, too, and so do the parts that have it."""

    model_config = ConfigDict(from_attributes=True)


JsonText = Annotated[Any, BeforeValidator(json_of)]
"""Any JSON in a response; the row has it as text."""


class RunModel(FromRow):
    """A run."""

    run_id: str
    machine: str
    title: str
    state: str
    status: RunStatus
    outcome: str
    session: str
    parent: str = Field(description="The run that started it; empty for a root.")
    root: str
    actor: str
    seq: int = Field(description="Number of its last entry.")
    driven: Annotated[bool, BeforeValidator(bool)] = Field(validation_alias="owner", description="A process drives it.")
    created_at: float = Field(description="Seconds since the epoch, as all times.")
    updated_at: float
    problem: str = Field(description="Why it is stuck; empty if it is not.")
    due_at: float | None = Field(description="When the server looks at it again.")
    tries: int = Field(description="Drives in a row that ended with a problem.")
    version: int = Field(description="Version of its journal and rules.")


class InquiryModel(FromRow):
    """A question to a person."""

    inquiry_id: str
    run_id: str
    prompt: str
    verbs: list[str]
    subject: JsonText = Field(description="Exactly what needs the answer.")
    digest: str = Field(description="Digest of `subject`; an approval, an edit or words in place of them name it.")
    form: JsonText = Field(validation_alias="schema", description="JSON Schema of a value; null for any value.")
    risk: str
    asked_at: float
    expires_at: float = Field(description="0 for never.")
    answer: str = Field(description="The answer that closed it; empty while it is open.")


class RunList(BaseModel):
    """A page of runs, newest first."""

    runs: list[RunModel]
    next: str | None = Field(description="The `after` of the next page; null if this is the last one.")


class InquiryList(BaseModel):
    """Questions to people, oldest first."""

    inquiries: list[InquiryModel]
    next: str | None = Field(description="The `after` of the next page; null if this is the last one.")


class OriginModel(BaseModel):
    """The run that another one was copied from."""

    run_id: str
    seq: int = Field(description="Number of the last entry that was copied.")
    is_retry: bool = Field(description="The copy was made to run tasks of it again.")
    created_at: float = Field(description="When the origin was created; 0 if it no longer exists.")


class RunDetails(BaseModel):
    """A run with its origin, the runs of its tree, and their open questions."""

    run: RunModel
    origin: OriginModel | None = Field(description="What a fork or a retry was copied from; null for a run that is no copy.")
    tree: list[RunModel]
    inquiries: list[InquiryModel]


class ResultModel(BaseModel):
    """The result of a run, or why it has none yet."""

    run_id: str
    outcome: Literal["finished", "failed", "cancelled", "waiting", "paused"]
    summary: str
    reason: str
    results: dict[str, Any] = Field(description="Results of its completed tasks.")
    errors: dict[str, dict[str, Any]]
    value: dict[str, Any]
    inquiries: list[InquiryModel]


class GivenGoal(Given):
    """What to run: a plan, or a request in words."""

    request: str | None = Field(default=None, min_length=1, max_length=20_000)
    plan: GivenObject | None = Field(default=None, description="A plan, as in a plan file.")
    params: GivenObject = Field(default={}, description="Values of the plan's parameters.")


class Submission(GivenGoal):
    """A run to submit: a plan, or a request in words."""

    options: GivenObject = Field(default={}, description="Options and limits of the run.")
    title: str | None = Field(default=None, min_length=1, max_length=1000)


class CheckedPlan(BaseModel):
    """The plan with which a run would start."""

    plan: dict[str, Any]


class CancelCommand(Given):
    """End the run."""

    command: Literal["cancel"]
    reason: str = Field(default="", max_length=10_000)


class PauseCommand(Given):
    """Start nothing new."""

    command: Literal["pause"]
    reason: str = Field(default="", max_length=10_000)


class UnpauseCommand(Given):
    """Continue after a pause."""

    command: Literal["unpause"]


class RaiseLimitsCommand(Given):
    """Set new limits of planning; null leaves one unchanged."""

    command: Literal["raise_limits"]
    max_tokens: Annotated[int, Field(gt=0, le=2**53)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class EditCommand(Given):
    """Edit the plan of the run; applied as a whole or not at all."""

    command: Literal["edit"]
    actions: list[GivenObject] = Field(min_length=1, max_length=1000, description='`{"tool": …, "parameters": {…}}`')
    version: Seq = Field(default=0, description="Version of the plan that it was written against.")


class ForkCommand(Given):
    """Start a new run as a copy of this one, up to an entry."""

    command: Literal["fork"]
    at: Annotated[int, Field(ge=1, le=2**53)]


class RetryCommand(Given):
    """Let failed tasks run again; in a new run if this one has ended."""

    command: Literal["retry_failed"]
    tasks: list[str] = Field(default=[], max_length=10_000)


class LiftGuardCommand(Given):
    """Lift the guard that a plan has set on a skill or a device."""

    command: Literal["lift_guard"]
    name: str = Field(min_length=1, max_length=1000)
    reason: str = Field(min_length=1, max_length=10_000)


Command = Annotated[
    CancelCommand | PauseCommand | UnpauseCommand | RaiseLimitsCommand | EditCommand | ForkCommand | RetryCommand | LiftGuardCommand,
    Field(discriminator="command"),
]


class Verdict(BaseModel):
    """The verdict on a command or an answer."""

    verdict: Literal["accepted", "pending"]
    run_id: str = Field(description="The run; for a fork, and a retry of a run that has ended, the new one.")
    key: str = Field(description="Idempotency key under which it was sent.")


class GivenAnswer(Given):
    """An answer to a question."""

    verb: Literal["approve", "edit", "reject", "respond", "cancel"]
    value: GivenValue = None
    reason: str = Field(default="", max_length=10_000)
    digest: str = Field(
        default="",
        max_length=64,
        description="The `digest` of the question that was read; each answer to an approval but a reject names it.",
    )


class ViewModel(BaseModel):
    """The rows of a run after an entry."""

    run_id: str
    seq: int
    rows: dict[str, dict[str, Any]]


class EntryModel(FromRow):
    """An entry of a journal."""

    run_id: str
    seq: int
    at: float
    actor: str
    kind: str
    state: str
    body: JsonText
    key: str
    note: str
    version: int = Field(description="Version of the format and the rules by which it was written.")


class EntryList(BaseModel):
    """Entries of a journal, in order."""

    entries: list[EntryModel]


class FileModel(FromRow):
    """A file of a run."""

    digest: str
    name: str
    media_type: str
    size: int
    at: float


class FileList(BaseModel):
    """The files of a tree of runs."""

    files: list[FileModel]


def _text_of(data: bytes) -> str:
    """Return what was printed as text; bytes that are no UTF-8 are replaced."""
    return data.decode(errors="replace")


class LogModel(FromRow):
    """A part of what a task printed."""

    seq: int
    run_id: str
    effect: str = Field(
        validation_alias="key", description="Id of the attempt; empty for a note that `position` bytes of the run's output were removed."
    )
    task: str
    number: int
    stream: str
    position: int = Field(description="Bytes of the stream before it.")
    size: Annotated[int, BeforeValidator(len)] = Field(validation_alias="data", description="Its bytes.")
    at: float
    text: Annotated[str, BeforeValidator(_text_of)] = Field(validation_alias="data")


class LogList(BaseModel):
    """What the tasks of a run and of the runs below it have printed."""

    chunks: list[LogModel]
    next: int = Field(description="The `after` of the next read.")
