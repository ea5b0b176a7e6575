"""The devices of a world: those of each process, and what the remote ones reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from asterism.devices.port import Attempt, Device
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput
from asterism.testing.device import Behaviour, FakeDevice, Faults, PerformanceLog, Script, script_for
from asterism.testing.remote import FarSides, RemoteFaults, RemoteJob
from asterism.testing.validation import check_type


class WorldDevices:
    """Makes devices for each process.

    Args:
        fleet: profiles by device id; those with ``reattach`` are of remote devices.
        script, faults: behaviour of all devices, and random faults of those that are not remote.
        log: log of the performances of those.
        questions, remote_faults: as for ``FarSides``.
    """

    def __init__(  # noqa: PLR0917 - the arguments of a world, in its order
        self,
        fleet: Mapping[str, AgentProfile],
        script: Script | Mapping[str, Behaviour] | None,
        faults: Faults | None,
        log: PerformanceLog,
        questions: Callable[[Attempt], int],
        remote_faults: RemoteFaults | None,
    ) -> None:
        self._fleet = fleet
        self._script = script_for(fleet, {} if script is None else script)
        self._faults = check_type("faults", faults or Faults(), Faults)
        self._log = log
        self._started: Callable[[RemoteJob], None] = lambda _: None
        self._fail: Callable[[Exception], None] = lambda _: None
        remote = check_type("remote_faults", remote_faults or RemoteFaults(), RemoteFaults)
        self.far_sides = FarSides(fleet, self._behaviour, questions, remote, self._job_started)

    def report_to(self, started: Callable[[RemoteJob], None], fail: Callable[[Exception], None]) -> None:
        """Report each job that starts on a remote device, and a mistake of the test, which ends the world."""
        self._started, self._fail = started, fail

    def _job_started(self, job: RemoteJob) -> None:
        self._started(job)

    def of(self, process: str) -> Mapping[str, Device]:
        """Return fresh devices for a process."""
        return {name: self._device(profile, process) for name, profile in self._fleet.items()}

    def _device(self, profile: AgentProfile, process: str) -> Device:
        if profile.device_id in self.far_sides:
            return self.far_sides.device(profile.device_id, lambda: process in self._log.crashed_processes)
        return FakeDevice(profile, self._log, self._behaviour, self._faults, process)

    def _behaviour(self, attempt: Attempt) -> Behaviour:
        """Return the behaviour that the script gives. Anything else is a mistake of the test, and ends the world."""
        behaviour = self._script(attempt)
        try:
            what = f"script: the return value for task {attempt.task_id!r} of device {attempt.device_id!r}"
            return check_type(what, behaviour, Behaviour, "return Behaviour(result=…)")
        except InvalidInput as error:
            self._fail(error)
            raise
