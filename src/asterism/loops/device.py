"""Kind ``agent`` of a fleet file: a loop as a device, which carries out tasks in natural language, each as a child run."""

from __future__ import annotations

from pathlib import Path

from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError
from asterism.devices.fleet import DeviceEntry, DeviceKind
from asterism.loops.definition import find_loop
from asterism.runtime.ports import Attempt, AttemptEnd, ProgressSink


class AgentEntry(DeviceEntry, frozen=True, kw_only=True):
    """Its table.

    Attributes:
        loop: ``file.py:name``, ``module:name`` or ``file.toml``, relative to the folder of the fleet file.
    """

    loop: str


class AgentDevice:
    """A device whose tasks are begun as child runs by the machine itself; no attempt reaches it."""

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    @property
    def profile(self) -> AgentProfile:  # noqa: D102 - said once, on the port
        return self._profile

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptEnd:  # noqa: ARG002, D102 - said once, on the port
        error = TaskError(code="bad_result", message=f"{attempt.device_id} is an agent: its tasks are runs of their own")
        return AttemptEnd(error=error)


async def _open(entry: AgentEntry, folder: Path) -> AgentDevice:
    loop = find_loop(entry.loop, folder)
    described = entry.description or "; ".join(it.description for it in loop.workers.values() if it.description)
    return AgentDevice(
        AgentProfile(
            device_id=entry.id,
            kind="agent",
            description=described,
            aliases=entry.aliases,
            capabilities=entry.capabilities,
            natural_language=True,
            concurrency=entry.concurrency,
            metadata=entry.metadata,
            child=loop.child(folder, entry.loop),
        )
    )


AGENT_KIND = DeviceKind(AgentEntry, _open)
"""For the registry of kinds."""
