"""The composition root: the only module that knows every concrete class. It builds runtimes and closes them.

Devices, planners and the driver are imported where they are opened: a program that only reads starts in half the time.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asterism.app.settings import FORMS_VARIABLE, MEMORY, database_path, files_url, form_names, model_choice
from asterism.constellation.form import FORM as CONSTELLATION
from asterism.constellation.machine.events import AskPlanner
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.planner.port import PLANNER_TIMEOUT_S, Planner
from asterism.constellation.python.own_secrets import inherited, own_secrets
from asterism.conversation.form import FORM as CONVERSATION
from asterism.devices.attempts.processes import reap_orphans, without_leftovers, workers_folder
from asterism.devices.port import Device
from asterism.engine.kernel.machine import Effect, Event
from asterism.engine.kernel.profile import HERE
from asterism.engine.kernel.profile import Fleet as Profiles
from asterism.engine.ports.files import Files
from asterism.engine.ports.observer import Observer
from asterism.engine.ports.performer import Performer
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.entry_points import names_of, part_of
from asterism.engine.runtime.form import Form, by_name
from asterism.errors import InvalidInput, MissingExtra
from asterism.loop.form import FORM as LOOP
from asterism.service.telemetry import telemetry_wanted
from asterism.stores.memory import MemoryStore, process_memory
from asterism.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from asterism.constellation.machine.events import RunOptions
    from asterism.constellation.python.app import App
    from asterism.constellation.python.goal import AnyGoal
    from asterism.constellation.python.handle import RunResult
    from asterism.conversation.python.orchestrator import Router
    from asterism.conversation.python.performer import Extractor
    from asterism.devices.dispatch.dispatcher import Dispatcher
    from asterism.devices.fleet.python_fleet import Fleet
    from asterism.devices.kinds.registry import DeviceKinds
    from asterism.engine.runtime.driver import Driver
    from asterism.service.telemetry.observer import Telemetry


def _named_forms() -> Iterator[Form]:
    """Import the forms that the settings name, and nothing else: of a file or module, or by an entry point of an installed package."""
    for name in form_names():
        if ":" in name:
            from asterism.loop.python.source import find

            form = find(name, Path.cwd())
            if not isinstance(form, Form):
                raise InvalidInput(f"{FORMS_VARIABLE}: {name} is no asterism.Form")
        else:
            try:
                form = part_of("asterism.forms", name, Form, "form")
            except KeyError:
                has = ", ".join(names_of("asterism.forms")) or "none"
                raise InvalidInput(f"{FORMS_VARIABLE}: no installed package has the form {name!r}; there is {has}") from None
        form.check_performers()
        yield form


FORMS: Mapping[str, Form] = by_name((CONSTELLATION, LOOP, CONVERSATION), _named_forms())
"""The forms of all runs that this process knows, by the name of their machine."""


@contextlib.asynccontextmanager
async def open_store(database: Path, *, create: bool) -> AsyncIterator[Store]:
    """Open the store at a path. Raises StoreUnavailable if it is no asterism database, or cannot be opened; nothing was written."""
    store = MemoryStore(process_memory()) if database.name == MEMORY else SqliteStore.open(database, create=create)
    try:
        yield store
    finally:
        await store.close()


def run_files(store: Store, database: Path) -> Files:
    """Return the files of runs. Raises InvalidInput, or MissingExtra, if the storage in the settings cannot be used."""
    from asterism.stores.stored_files import StoredFiles, contents_of

    return StoredFiles(store, contents_of(files_url(), database), SystemClock().now)


def device_kinds() -> DeviceKinds:
    """Return the kinds of devices: the built-in ones, and those of installed packages."""
    from asterism.conversation.python.source import FLOW
    from asterism.devices.kinds.registry import KINDS, DeviceKinds
    from asterism.loop.python.definition import AGENT

    return DeviceKinds({**KINDS, "agent": AGENT, "flow": FLOW})


@contextlib.asynccontextmanager
async def open_devices(
    fleet: Path | Fleet | None,
    database: Path | None = None,
    *,
    every: bool = False,
    needed: Collection[str] | None = None,
    serves: bool = False,
) -> AsyncIterator[tuple[Profiles, Mapping[str, Device]]]:
    """Open the devices of a fleet, or of a fleet file; yield their profiles, and the devices together with the device ``here``.

    Args:
        fleet: the fleet.
        database: path of the database of their runs; None for devices that are only described.
        every: False if a device that cannot be opened shall be lost, without skills.
        needed: the devices that tasks need; None if each one may be. Others are not waited for.
        serves: True for a server: its own secrets are withheld from workers.

    Raises:
        InvalidInput, MissingExtra: the fleet cannot be used, or with ``every`` one of its devices; no file is left behind.
    """
    from asterism.devices.fleet.fleet_file import FleetContext, check_tables, open_tables, read_fleet
    from asterism.devices.fleet.python_fleet import Fleet
    from asterism.devices.kinds.here import HereDevice
    from asterism.devices.workers.pool import WorkerPool

    if not isinstance(fleet, Path | Fleet | None):
        raise InvalidInput(f"fleet: expected a fleet file or a Fleet(…), not {fleet!r}")
    async with contextlib.AsyncExitStack() as stack:
        path = database or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="asterism-")), "none.db")
        stack.enter_context(without_leftovers(path))
        pools: list[WorkerPool] = []

        def pool() -> WorkerPool:
            if not pools:
                passed_on = inherited if serves else lambda _: os.environ
                pools.append(WorkerPool(workers_folder(path), own_secrets=own_secrets, inherited=passed_on))
                stack.push_async_callback(pools[0].close)
            return pools[0]

        here = HereDevice(pool)
        if fleet is None:
            yield {}, {HERE: here}
            return
        kinds, declared = device_kinds(), fleet if isinstance(fleet, Fleet) else Fleet()
        if isinstance(fleet, Path):
            entries, named, folder = read_fleet(fleet, kinds), str(fleet), fleet.absolute().parent  # noqa: ASYNC240 - no disk is touched
        else:
            entries, named, folder = check_tables(declared.tables, kinds, "the fleet"), "the fleet", declared.folder
        async with open_tables(entries, kinds, FleetContext(folder, path, pool), named, every=every, needed=needed) as devices:
            yield declared.described(devices), {**devices, HERE: here}


async def read_fleet(fleet: Path | Fleet | None, *, every: bool = False) -> Profiles:
    """Return the profiles of the devices of a fleet, or of a fleet file; errors as of ``open_devices``."""
    async with open_devices(fleet, every=every) as (profiles, _):
        return profiles


class ModelServices(NamedTuple):
    """The services of a model; without one, only ``planner`` is set: no extractor of fields, and no router of messages."""

    planner: Planner
    extractor: Extractor | None = None
    router: Router | None = None


@contextlib.asynccontextmanager
async def open_model_services(choice: ModelChoice | None) -> AsyncIterator[ModelServices]:
    """Open the services of a model over the same connections; the offline planner without one.

    Raises InvalidInput if an API key or examples are missing, and MissingExtra without the model's client.
    """
    from asterism.conversation.python.models import ModelExtractor, ModelRouter
    from asterism.words.planner.planner import OfflinePlanner

    if choice is None:
        yield ModelServices(OfflinePlanner())
        return
    try:
        from asterism.constellation.planner.model import open_model
        from asterism.constellation.planner.processor import ConstellationAgentProcessor
    except ImportError as error:
        raise MissingExtra("llm", f"model {choice.model}") from error
    async with open_model(choice) as access:
        yield ModelServices(ConstellationAgentProcessor(access), ModelExtractor(access.model), ModelRouter(access.model))


@contextlib.asynccontextmanager
async def open_planner(choice: ModelChoice | None) -> AsyncIterator[Planner]:
    """Open the planner with a model, or the offline planner; errors as of ``open_model_services``."""
    async with open_model_services(choice) as services:
        yield services.planner


@contextlib.asynccontextmanager
async def open_runtime(
    store: Store,
    devices: Mapping[str, Device],
    database: Path,
    *,
    planner: Planner | None = None,
    planner_timeout_s: float | None = None,
    extractor: Extractor | None = None,
    fleet_file: Path | None = None,
    profiles: Profiles | None = None,
    observers: Sequence[Observer] = (),
    machines: Sequence[Form] = (),
    device_listener: Callable[[Event, str], None] | None = None,
    is_server: bool = False,
) -> AsyncIterator[App]:
    """Open a runtime that can drive every machine, constellations on these devices.

    ``profiles`` of the devices: by default their own. ``device_listener`` hears of lost and found devices. A server has
    metrics, and does not give up a stop while its device is lost: nobody waits for its process to end.

    Raises InvalidInput if another machine has the name of a registered one.
    """
    from asterism.constellation.python.app import App
    from asterism.constellation.python.performers import PlannerPerformer, attempt_performers, with_files
    from asterism.conversation.python.performer import Devices, flow_performers
    from asterism.conversation.python.plans import on_fleet
    from asterism.conversation.python.secret_fields import process_secret_store
    from asterism.devices.attempts.attempt_files import reading_files
    from asterism.devices.attempts.logged_performers import open_logs
    from asterism.devices.dispatch.dispatcher import Dispatcher
    from asterism.devices.dispatch.places import places_of
    from asterism.devices.dispatch.remote import LOST_S
    from asterism.devices.fleet.fleet_file import fleet_name, submitter_may_approve
    from asterism.devices.kinds.here import here_of
    from asterism.engine.runtime.driver import Driver
    from asterism.loop.python.definition import open_performers
    from asterism.words.planner.planner import OfflinePlanner

    clock, here = SystemClock(), here_of(devices)
    fleet = str(fleet_file.absolute()) if fleet_file else ""  # noqa: ASYNC240 - no disk is touched
    profiles = {name: it.profile for name, it in devices.items() if it is not here} if profiles is None else profiles
    planning = PlannerPerformer(planner or OfflinePlanner(), planner_timeout_s if planner else None)
    files, places = run_files(store, database), places_of(devices, profiles, fleet_file, database)
    lost_s, may = math.inf if is_server else LOST_S, submitter_may_approve(fleet_file)
    serving = Dispatcher(devices, clock.now, places=places, lost_s=lost_s, submitter_may_approve=may)
    async with open_logs(store, clock.now, own_secrets) as logged, serving as dispatcher, open_performers() as loops, planning:
        opened = Devices(tuple(profiles.values()), fleet, here, {CONSTELLATION.machine.name: on_fleet})
        flows = flow_performers(process_secret_store(), extractor, opened)
        attempts = with_files(attempt_performers(dispatcher), files, store, devices, database)
        performers: dict[type[Effect], Performer] = {**attempts, AskPlanner: planning, **reading_files({**loops, **flows}, files, store)}
        if telemetry := _telemetry(lambda: driver, dispatcher, devices, clock) if is_server or telemetry_wanted(os.environ) else None:
            performers[AskPlanner] = telemetry.within(performers[AskPlanner])
        driver = Driver(
            store=store,
            clock=clock,
            forms=by_name((form.performed_by(logged(performers)) for form in FORMS.values()), machines),
            observers=[*observers, telemetry] if telemetry else observers,
            reap=lambda: reap_orphans(workers_folder(database)),
            initial_events=dispatcher.first_events,
            owner=f"process {os.getpid()} on {socket.gethostname()}",
        )
        with contextlib.ExitStack() as stack:
            for listener in (it for it in (driver.announce, device_listener) if it):
                stack.callback(dispatcher.subscribe(listener))
            for close in (it.close for it in (telemetry, here) if it):
                stack.callback(close)
            async with driver.opened():
                name = fleet_name(fleet_file, profiles)
                yield App(store, driver, clock, fleet=profiles, fleet_file=fleet, fleet_name=name, here=here, files=files, devices=devices)


def _telemetry(driver: Callable[[], Driver], dispatcher: Dispatcher, devices: Iterable[str], clock: SystemClock) -> Telemetry:
    from asterism.service.telemetry.observer import Telemetry

    return Telemetry(
        lambda run: driver().live(run),
        clock.now,
        queue_depths=lambda: {name: dispatcher.queue_depth(name) for name in devices},
        starter_of=lambda run: driver().starters.get(run, ""),
    )


@contextlib.asynccontextmanager
async def open_driver_for(
    client: Client, root: RunRow, database: Path, *, fleet_file: Path | None = None, model: ModelChoice | None = None
) -> AsyncIterator[App]:
    """Open a runtime that can drive a run and its children, with the devices and model of the run.

    Args:
        client: client of the database.
        root: row of a run without a parent.
        database: path of the database.
        fleet_file: replaces the fleet file of the run.
        model: replaces the model of the run; by default that of the environment for a conversation.

    Raises:
        InvalidInput: the fleet file, a loop, or the class of a conversation is missing or has changed.
        JournalMismatch: a journal cannot be replayed.
        MissingExtra: the model's client is not installed.
    """
    from asterism.constellation.python.resumption import (
        check_devices,
        declared_fleet,
        devices_left,
        fleet_file_below,
        fleet_file_of,
        model_of,
    )
    from asterism.conversation.python.resumption import check_agents
    from asterism.loop.python.definition import check_definitions

    first = await client.first_event(root)
    fleet_file = fleet_file or fleet_file_of(first, root) or await fleet_file_below(client, root)
    fleet = fleet_file or await declared_fleet(client, root)
    await check_definitions(client, root)
    await check_agents(client, root)
    model = model or (model_choice() if root.machine == CONVERSATION.machine.name else model_of(first))
    needed = None if model else await devices_left(client, root)
    async with open_model_services(model) as services, open_devices(fleet, database, needed=needed) as (profiles, devices):
        await check_devices(client, root, devices)
        planner, extractor, _ = services
        async with open_runtime(
            client.store, devices, database, planner=planner, extractor=extractor, fleet_file=fleet_file, profiles=profiles
        ) as runtime:
            yield runtime


@contextlib.asynccontextmanager
async def connect(
    database: Path | str | None = None,
    *,
    fleet: Path | str | Fleet | None = None,
    machines: Sequence[Form] = (),
    create: bool = True,
) -> AsyncIterator[Client]:
    """Open a client of a database, to submit, command and read runs; another process drives them.

    Args:
        database: file with the journals; by default that of the commands.
        fleet: the devices of submitted constellations, as a fleet file or a ``Fleet``; they are only described.
        machines: the program's own machines, in addition to the built-in ones.
        create: make the database if it does not exist.

    Raises:
        InvalidInput: a bad fleet file, another machine of a registered name, or a module under import calls this.
        StoreUnavailable: the database cannot be used, or it does not exist and ``create`` is False.
    """
    from asterism.devices.fleet.fleet_file import fleet_name
    from asterism.devices.skills.source import refuse_during_import

    refuse_during_import()
    known = by_name(FORMS.values(), machines)  # refused before a database is made
    profiles = await read_fleet(Path(fleet) if isinstance(fleet, str) else fleet)
    async with open_store(database_path(database), create=create) as store:
        file = Path(fleet) if isinstance(fleet, Path | str) else None
        name = fleet_name(file, profiles)
        client = Client(store, SystemClock(), known, fleet=profiles, fleet_file=str(file or ""), fleet_name=name)
        client.files = run_files(store, database_path(database))
        yield client


@contextlib.asynccontextmanager
async def open(  # noqa: A001 - `asterism.open()` is its name
    database: Path | str | None = None,
    *,
    fleet: Path | str | Fleet | None = None,
    planner: Planner | None = None,
    planner_timeout_s: float | None = PLANNER_TIMEOUT_S,
    extractor: Extractor | None = None,
    observers: Sequence[Observer] = (),
    machines: Sequence[Form] = (),
) -> AsyncIterator[App]:
    """Open a runtime over a database.

    Within the ``async with``, everything that names no other runtime runs in it.

    Args:
        database: file with the journals, made if it does not exist; by default that of the
            commands.
        fleet: the devices, as a fleet file or a ``Fleet``; by default none but the device ``here``.
        planner: by default the offline planner, which needs no model.
        planner_timeout_s: seconds for one answer of ``planner``, after which planning has failed; None
            for a planner that has a limit of its own.
        extractor: extracts fields from messages; by default by rules, without a model.
        observers: notified of all appended entries and problems.
        machines: the program's own machines, in addition to the built-in ones.

    Raises:
        InvalidInput: a bad fleet file, another machine of a registered name, a time limit that is not above 0,
            or a module under import calls this.
        StoreUnavailable: the database cannot be used.
    """
    from asterism.constellation.python.program import interrupts_in_words
    from asterism.devices.skills.source import refuse_during_import
    from asterism.engine.runtime.runtime import CURRENT

    refuse_during_import()
    if planner_timeout_s is not None and not planner_timeout_s > 0:
        raise InvalidInput(f"planner_timeout_s: {planner_timeout_s!r} is not a number of seconds above 0; None sets no limit")
    by_name(FORMS.values(), machines)  # refused before a database is made
    for form in machines:
        form.check_performers()
    path = database_path(database)
    async with contextlib.AsyncExitStack() as stack:
        fleet = Path(fleet) if isinstance(fleet, str) else fleet
        profiles, devices = await stack.enter_async_context(open_devices(fleet, path))
        store = await stack.enter_async_context(open_store(path, create=True))
        runtime = await stack.enter_async_context(
            open_runtime(
                store,
                devices,
                path,
                planner=planner,
                planner_timeout_s=planner_timeout_s,
                extractor=extractor,
                fleet_file=fleet if isinstance(fleet, Path) else None,
                profiles=profiles,
                observers=observers,
                machines=machines,
            )
        )
        stack.enter_context(interrupts_in_words(lambda: runtime.driver.driven, database))
        token = CURRENT.set(runtime)
        stack.callback(CURRENT.reset, token)
        yield runtime


@contextlib.asynccontextmanager
async def open_default() -> AsyncIterator[App]:
    """Open a runtime over the default database, for one call of a loop or conversation outside of ``open``; it is not the current one."""
    from asterism.devices.skills.source import refuse_during_import

    refuse_during_import()
    path = database_path()
    async with (
        open_devices(None, path) as (_, devices),
        open_store(path, create=True) as store,
        open_runtime(store, devices, path) as runtime,
    ):
        yield runtime


def run(
    goal: AnyGoal,
    options: RunOptions | None = None,
    /,
    *,
    database: Path | str | None = None,
    fleet: Path | str | Fleet | None = None,
    **params: Any,
) -> RunResult:
    """Open a runtime, run a goal in it as ``App.run`` does, and close it.

    If the run waits for a person, a line on standard error says where to answer, if that is a terminal.

    Raises:
        InvalidInput: in a running event loop, or as ``App.run``.
        Interrupted: Ctrl-C; the run can be resumed.
    """
    from asterism.constellation.python.program import run_program

    return run_program(goal, options, params, lambda: open(database, fleet=fleet), database)
