"""The runtime that ``asterism.open()`` yields: it runs goals, and reaches every run by its id."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.python.goal import AnyGoal, goal_of
from asterism.constellation.python.handle import RunHandle, RunResult
from asterism.constellation.python.rounds import submit
from asterism.constellation.requirements import check_opened
from asterism.devices.kinds.here import HereDevice
from asterism.devices.port import Device
from asterism.engine.kernel.profile import Fleet
from asterism.engine.ports.files import Files
from asterism.engine.ports.store import Store
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import InvalidInput


class App(Runtime):
    """A runtime that runs constellations.

    Args:
        store, driver, clock, fleet, fleet_file, fleet_name: as in ``Runtime``.
        here: the device of this program's functions; None to describe them in processes of their own.
        devices: the opened devices, by id.
        files: the files of its runs; None where none are given to a run.
    """

    def __init__(
        self,
        store: Store,
        driver: Driver,
        clock: Clock,
        *,
        fleet: Fleet | None = None,
        fleet_file: str = "",
        fleet_name: str = "",
        here: HereDevice | None = None,
        devices: Mapping[str, Device] = {},
        files: Files | None = None,
    ) -> None:
        super().__init__(store, driver, clock, fleet=fleet, fleet_file=fleet_file, fleet_name=fleet_name)
        self.here = here
        self.devices = devices
        self.files = files
        self._loop = asyncio.get_running_loop()

    async def run(self, goal: AnyGoal, options: RunOptions | None = None, /, **params: Any) -> RunResult:
        """Run a goal until it ends, or until only a person can move it on.

        Args:
            goal: a constellation, a request in words, the path of a plan file, or a plan.
            options: options and limits of the run.
            params: values of the parameters of its plan.

        Raises:
            InvalidInput: the goal is invalid; nothing was written.
            EditRefused: its plan cannot run on these devices; nothing was written.
        """
        return await (await self.start(goal, options, **params)).result()

    async def start(self, goal: AnyGoal, options: RunOptions | None = None, /, **params: Any) -> RunHandle:
        """Start a run of a goal in the background, and return its handle; arguments and errors as of ``run``."""
        self.driver.check_process()
        if not self.driver.is_open or asyncio.get_running_loop() is not self._loop:
            raise InvalidInput("this app is closed, or open in another event loop; use it within its `async with asterism.open() as app:`")
        if not isinstance(options, RunOptions | None):
            raise InvalidInput(f"options are RunOptions(…), not {options!r}; parameters of the plan are given by name")
        goal = goal_of(goal, params)
        if goal.plan is not None:
            check_opened(goal.plan, self.devices)
        handle = self.run_of(await submit(self, goal, options=options, here=self.here))
        handle.drive()
        return handle

    def run_of(self, run_id: str) -> RunHandle:
        """Return the handle of a run of any kind: a constellation, a loop or a conversation. Nothing is driven yet."""
        return RunHandle(self, run_id)
