"""A device whose tasks are runs of their own: whatever can be run below a constellation can be one."""

from __future__ import annotations

from asterism.constellation.profile import AgentProfile, ChildSpec
from asterism.constellation.task import TaskError
from asterism.devices.fleet import DeviceEntry
from asterism.runtime.ports.device import Attempt, AttemptResult, ProgressSink


class ChildDevice:
    """A device whose tasks are begun as child runs by the machine itself; no attempt reaches it.

    Args:
        entry: its table in the fleet file.
        child: how a task of it begins.
        description: said of it where its table says nothing.
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

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptResult:  # noqa: ARG002 - said once, on the port
        error = TaskError(code="bad_result", message=f"the tasks of {attempt.device_id} are runs of their own")
        return AttemptResult(error=error)
