"""The attempts of the devices: what they do now, and what they did in a period."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from asterism.engine.runtime.clock import DAY_S
from asterism.service.api.attempt_history import DeviceAttempt
from asterism.service.api.context import Context
from asterism.service.api.identity import Reader
from asterism.service.api.problems import documented

router = APIRouter(tags=["fleet"])

Time = Annotated[float | None, Query(ge=0, allow_inf_nan=False)]


class AttemptModel(BaseModel):
    """An attempt at a task."""

    device: str
    run_id: str
    title: str = Field(description="Title of the run.")
    task: str
    name: str = Field(description="Name of the task; empty if the plan no longer has it.")
    skill: str
    number: int = Field(description="Number of the attempt at its task, from 1.")
    child: str = Field(description="The run that performs it; empty without one.")
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    error: str = Field(description="Code of its error; empty without one.")
    began_at: float = Field(description="When the device began it; of one that waits for a place, when it was queued.")
    ended_at: float | None
    seen_at: float = Field(description="When the device was last heard of in it.")


class AttemptList(BaseModel):
    """Attempts, the last begun first."""

    attempts: list[AttemptModel]
    lost: dict[str, str] = Field(description="Devices that an unfinished run has lost, by id, with the reason.")
    whole: bool = Field(description="False if there is more in the period: too many runs, or more attempts than `limit`.")


@router.get("/attempts", responses=documented(422))
async def list_attempts(
    context: Context,
    sender: Reader,
    device: Annotated[str, Query(max_length=200, description="A device; by default all.")] = "",
    begin: Annotated[Time, Query(description="Begin of the period; by default a day ago.")] = None,
    end: Annotated[Time, Query(description="End of the period; by default now.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> AttemptList:
    """Return what the devices did in a period, and what they do now: the attempts of the newest 200 runs that were active in it."""
    now = context.clock.now()
    found = await context.attempts.read(sender.tenant, begin=now - DAY_S if begin is None else begin, end=end or now + 1, device=device)
    shown = [_model(it) for it in found.attempts[:limit]]
    return AttemptList(attempts=shown, lost=found.lost, whole=found.is_whole and len(found.attempts) <= limit)


def _model(done: DeviceAttempt) -> AttemptModel:
    row: dict[str, Any] = {**done.row}
    times = [row.get(name) or 0.0 for name in ("began_at", "begun_at", "seen_at", "ended_at")]
    text = {name: row.get(name) or "" for name in ("device", "skill", "child")}
    return AttemptModel(
        **text,
        run_id=done.run.run_id,
        title=done.run.title,
        task=row.get("part") or "",
        name=row["name"] if isinstance(row["name"], str) else "",
        number=row.get("number") or 1,
        status=_status(row),
        error=(row.get("error") or {}).get("code", ""),
        began_at=row.get("begun_at") or row["began_at"],
        ended_at=row.get("ended_at"),
        seen_at=max(times),
    )


def _status(row: dict[str, Any]) -> Literal["queued", "running", "succeeded", "failed", "cancelled"]:
    if row.get("ended_at") is None:
        return "queued" if row.get("queued") else "running"
    if row.get("abandoned"):
        return "cancelled"
    return "failed" if row.get("error") or row.get("outcome") == "failed" else "succeeded"
