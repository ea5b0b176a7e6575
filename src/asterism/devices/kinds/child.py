"""A device whose tasks are child runs, of any machine that a constellation can start."""

from __future__ import annotations

from asterism.constellation.model.task import TaskError
from asterism.devices.fleet.fleet_file import DeviceEntry
from asterism.devices.port import Attempt, AttemptResult, Signs
from asterism.engine.kernel.profile import AgentProfile, ChildSpec


class ChildDevice:
    """A device whose tasks the machine starts as child runs; no attempt reaches it.

    ``description`` is used if its table in the fleet file has none.
    """

    def __init__(self, entry: DeviceEntry, child: ChildSpec, description: str) -> None:
        self._profile = entry.profile(description=entry.description or description, natural_language=True, child=child)

    @property
    def profile(self) -> AgentProfile:
        return self._profile

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:  # noqa: ARG002 - the port has it
        error = TaskError(code="bad_result", message=f"the tasks of device {attempt.device_id} are child runs, not attempts")
        return AttemptResult(error=error)
