"""Serve a fleet: one process that stays, and drives every due run of its database.

The planner of a run is the one with which the run was started, and the definitions of its loops and
conversations are those that its journal names. A run that cannot be driven here does not fail: it
is released with the reason, and tried again after a growing delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec

from asterism.app.bootstrap import FORMS, ModelServices, open_devices, open_model_services, open_runtime, open_store
from asterism.app.settings import model_choice
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.requests import PlannerRequest
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.planner.port import Planner, Proposal
from asterism.constellation.python.app import App
from asterism.constellation.python.handle import result_of
from asterism.constellation.python.resumption import check_devices, model_of
from asterism.constellation.python.scheduled import submit_scheduled
from asterism.conversation.python.resumption import check_agents
from asterism.devices.attempts.secrets import secret
from asterism.devices.fleet.fleet_file import read_channels, read_hooks
from asterism.devices.port import Device
from asterism.engine.kernel.journal import JournalMismatch
from asterism.engine.kernel.machine import run_id_of
from asterism.engine.ports.events import Hook
from asterism.engine.ports.notices import Channel
from asterism.engine.ports.observer import Observer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.due_runs import DueRunsEngine
from asterism.engine.runtime.form import idle_kinds
from asterism.engine.runtime.retention import Retention
from asterism.errors import InvalidInput, RunNewer, UnknownMachine
from asterism.loop.python.definition import check_definitions
from asterism.service.hooks import with_keys
from asterism.service.notifications.message import NoticeMessage
from asterism.service.notifications.notifier import LostDevices, Notifier
from asterism.service.notifications.sending import check_channel, send
from asterism.service.schedules.scheduler import Scheduler

MAX_MODELS = 100
"""Models with different settings that one server opens."""


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server drives runs.

    Attributes:
        concurrency: the most root runs that it drives at once.
        grace_s: seconds for work that must not be repeated, when the server stops.
        url: public address of the server, for links in notifications; empty for that of its API.
        retain_s: seconds after its end for which a run is retained; None for ever.
    """

    concurrency: int = 100
    grace_s: float = 10.0
    url: str = ""
    retain_s: float | None = None


class PlannersOfRuns:
    """A planner that asks, for each run, the model with which the run was started.

    Args:
        client: reads the first entry of a run.
        stack: closes the models.
    """

    def __init__(self, client: Client, stack: contextlib.AsyncExitStack) -> None:
        self._client = client
        self._stack = stack
        self._opened: dict[ModelChoice | None, ModelServices] = {}
        self._opening = asyncio.Lock()

    async def propose(self, question: PlannerRequest) -> Proposal:
        """Answer a question; see ``Planner``."""
        row = await self._client.describe(run_id_of(question.key))
        return await (await self.planner_of(await self._client.describe(row.root))).propose(question)

    async def planner_of(self, root: RunRow) -> Planner:
        """Return the planner of a root run and of the runs below it.

        Raises:
            MissingExtra, InvalidInput: its model cannot be opened here.
        """
        choice = model_of(await self._client.first_event(root))
        async with self._opening:
            if choice not in self._opened:
                if len(self._opened) >= MAX_MODELS:
                    raise InvalidInput(f"this server has opened {MAX_MODELS} models with different settings; restart it")
                self._opened[choice] = await self._stack.enter_async_context(open_model_services(choice))
        return self._opened[choice].planner


_UNREADABLE = (JournalMismatch, RunNewer, UnknownMachine)


class JournaledRuns:
    """What messages about runs need, read from their journals. The message about a run that cannot be read goes without."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def reason(self, row: RunRow) -> str:
        """Return why a run has failed; see ``NotifiedRuns``."""
        try:
            return (await result_of(self._client, row)).reason
        except _UNREADABLE:
            return ""

    async def channels(self, row: RunRow) -> Sequence[str]:
        """Return the channels that a root run names; see ``NotifiedRuns``."""
        try:
            first = await self._client.first_event(row)
        except _UNREADABLE:
            return ()
        return first.options.notify if isinstance(first, ConstellationSubmitted) else ()


class Server:
    """A process that drives the due runs of a database.

    Args:
        app: submits, commands and reads runs; the server drives them.
        devices: the open devices, by id.
        planners: the planners of the runs.
        options: how runs are driven.
        channels: where notifications go.
        hooks: where other systems post events, by name.
        lost_devices: the devices that are lost while the server runs.

    Attributes:
        url: address for links in notifications.
        hooks: those that it was given.
    """

    def __init__(
        self,
        app: App,
        devices: Mapping[str, Device],
        planners: PlannersOfRuns,
        options: ServeOptions,
        *,
        channels: Sequence[Channel] = (),
        hooks: Mapping[str, Hook] = {},
        lost_devices: LostDevices,
    ) -> None:
        self.app = app
        self._channels = channels
        self.hooks = hooks
        self._lost_devices = lost_devices
        self._devices = devices
        self.planners = planners
        self._options = options
        self._grace_s = options.grace_s
        self.url = options.url
        self._fleet_file = os.path.realpath(app.fleet_file) if app.fleet_file else ""

    async def serve(self) -> None:
        """Drive the due runs, start those of schedules, report to people and delete what is old, until this is cancelled."""
        app = self.app
        warn = functools.partial(app.driver.warn, "")
        scheduler = Scheduler(app.store, app.clock, functools.partial(submit_scheduled, app, model=model_choice()), warn)
        retention = Retention(app.store, app.files, app.clock, warn, runs_s=self._options.retain_s)
        async with asyncio.TaskGroup() as group:
            group.create_task(scheduler.serve())
            group.create_task(retention.serve())
            if self._channels:
                notifier = Notifier(app.store, app.clock, self._channels, self._send, runs=JournaledRuns(app), url=self.url)
                group.create_task(notifier.serve())
                group.create_task(self._lost_devices.serve(app.store))
            await self.drive_due_runs()

    def hurry(self) -> None:
        """Wait no longer for work under way that must not be repeated, if the server stops now or later."""
        self._grace_s = 0.0

    async def _send(self, channel: Channel, message: NoticeMessage) -> str:
        return await send(channel, message, secret, self.app.clock.now())

    async def drive_due_runs(self) -> None:
        """Drive the due runs until this is cancelled; then release all, so that the next owner loses nothing."""
        app = self.app
        warn, idle = functools.partial(app.driver.warn, ""), idle_kinds(app.driver.forms.values())
        engine = DueRunsEngine(app.store, app.clock, ("", app.fleet_name), warn, idle_kinds=idle, before=app.driver.match_events)
        drive = functools.partial(app.driver.drive_acquired, check=self._check, grace_s=lambda: self._grace_s)
        await engine.serve(drive, concurrency=self._options.concurrency)

    async def _check(self, row: RunRow) -> None:
        """Check that this server can drive a run.

        Raises:
            AsterismError: a device, a skill, a definition or a model is missing here, or the run belongs
                to another fleet. Names the run, and what to do.
        """
        app = self.app
        first = await app.first_event(row)
        file = first.needs().fleet_file if first is not None and not row.fleet else ""
        if file and file != self._fleet_file:  # of a version that has not stored the fleet's name
            raise InvalidInput(
                f"run {row.run_id} needs the fleet {file}, which this server does not serve; use: asterism resume {row.run_id} --here"
            )
        await self.planners.planner_of(row)
        await check_definitions(app, row)
        await check_agents(app, row)
        await check_devices(app, row, self._devices)


@contextlib.asynccontextmanager
async def open_server(
    database: Path, fleet: Path | None, options: ServeOptions, *, observers: Sequence[Observer] = ()
) -> AsyncIterator[Server]:
    """Open a server of a fleet, which says so in the database; it drives nothing yet.

    Several servers of one database and fleet share the runs: each run is driven by one of them.

    Raises:
        InvalidInput: the fleet file, or one of its channels or hooks, cannot be used.
        StoreUnavailable: the database cannot be used.
    """
    channels = read_channels(fleet) if fleet else ()
    for channel in channels:
        check_channel(channel, secret)
    hooks = with_keys(read_hooks(fleet) if fleet else (), secret)
    lost_devices = LostDevices(SystemClock())
    async with contextlib.AsyncExitStack() as stack:
        profiles, devices = await stack.enter_async_context(open_devices(fleet, database, serves=True))
        store = await stack.enter_async_context(open_store(database, create=True))
        services = await stack.enter_async_context(open_model_services(model_choice()))  # for the fields of conversations
        planners = PlannersOfRuns(Client(store, SystemClock(), FORMS), stack)
        app = await stack.enter_async_context(
            open_runtime(
                store,
                devices,
                database,
                planner=planners,
                extractor=services.extractor,
                fleet_file=fleet,
                profiles=profiles,
                observers=observers,
                device_listener=lost_devices.note,
                is_server=True,
            )
        )
        app.is_served = True
        await store.announce_server(app.fleet_name, fleet_file=app.fleet_file)
        yield Server(app, devices, planners, options, channels=channels, hooks=hooks, lost_devices=lost_devices)
