"""A device whose tasks are child runs, of any machine that a constellation can start."""

from __future__ import annotations

from asterism.constellation.profile import AgentProfile, ChildSpec
from asterism.constellation.task import TaskError
from asterism.devices.fleet import DeviceEntry
from asterism.runtime.ports.device import Attempt, AttemptResult, ProgressSink


class ChildDevice:
    """A device whose tasks the machine starts as child runs; no attempt reaches it.

    Args:
        entry: its table in the fleet file.
        child: how a task of this device is started.
        description: used if its table has none.
    """

    def __init__(self, entry: DeviceEntry, child: ChildSpec, description: str) -> None:
        self._profile = AgentProfile(
            device_id=entry.id,
            kind=entry.kind,
            description=entry.description or description,
            aliases=entry.aliases,
            capabilities=entry.capabilities,
            natural_language=True,
            concurrency=entry.concurrency,
            metadata=entry.metadata,
            child=child,
        )

    @property
    def profile(self) -> AgentProfile:
        return self._profile

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptResult:  # noqa: ARG002 - the port has it
        error = TaskError(code="bad_result", message=f"the tasks of device {attempt.device_id} are child runs, not attempts")
        return AttemptResult(error=error)
