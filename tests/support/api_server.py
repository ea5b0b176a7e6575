"""A real server on a free port of this process, with a runtime that drives its runs, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import httpx2

from asterism.app.bootstrap import open_devices, open_runtime
from asterism.constellation.python.app import App
from asterism.conversation.python.agent import StandardAgent
from asterism.devices.dispatch.places import drains_of
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Device
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.ports.events import Hook
from asterism.engine.ports.store import Store
from asterism.engine.ports.tokens import Role
from asterism.service.api.app import guarded
from asterism.service.api.context import ApiContext, ApiOptions
from asterism.service.listener import Listener, listening_socket
from asterism.service.service import RunNews
from asterism.service.tokens import new_token
from asterism.stores.sqlite import SqliteStore
from asterism.words.planner.planner import OfflinePlanner
from tests.support.http_runs import HandDevice, at_once

DEVICE = AgentProfile(
    device_id="d",
    concurrency=100,
    skills=(Skill(name="work", description="Do the work.", idempotent=True, parameters={"type": "object", "properties": {}}),),
)
DRIVE_S = 0.02
"""Seconds between two looks for runs to drive."""


class Server:
    """A server, its runtime, and its clients.

    Attributes:
        url: where it listens.
        runtime: drives its runs.
    """

    def __init__(self, runtime: App, context: ApiContext, url: str, stack: contextlib.AsyncExitStack, listener: Listener) -> None:
        self.listener = listener
        self.runtime = runtime
        self.context = context
        self.url = url
        self._stack = stack

    @property
    def store(self) -> Store:
        return self.runtime.store

    async def token(self, role: str = "admin", tenant: str = "", *, name: str = "", lasts_s: float = 0.0) -> str:
        """A new token with the roles, separated by commas."""
        token, row = new_token(
            name or f"{role.replace(',', '-')}-{self.runtime.clock.new_id()}",
            cast("list[Role]", role.split(",")),
            self.runtime.clock.now(),
            tenant=tenant,
            lasts_s=lasts_s,
        )
        await self.store.add_token(row)
        return token

    async def client(self, role: str | None = "admin", tenant: str = "", *, name: str = "") -> httpx2.AsyncClient:
        """A client with a new token; None for one without any."""
        headers = {"Authorization": f"Bearer {await self.token(role, tenant, name=name)}"} if role else {}
        return await self._stack.enter_async_context(httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=30))

    async def ended(self, run_id: str) -> str:
        """The outcome of a run, when it has ended."""
        while (row := await self.store.run(run_id)).status != "ended":  # noqa: ASYNC110 - the driver may be of another process
            await asyncio.sleep(DRIVE_S)
        return row.outcome

    async def waiting(self, run_id: str) -> str:
        """The id of the first open question of a run."""
        while not (asked := await self.store.inquiries(root=run_id)):  # noqa: ASYNC110 - as above
            await asyncio.sleep(DRIVE_S)
        return asked[0].inquiry_id


async def approval_of(http: httpx2.AsyncClient, inquiry_id: str, verb: str = "approve", **more: Any) -> dict[str, Any]:
    """The body of an answer by a client that has read the question."""
    read = (await http.get(f"/api/inquiries/{inquiry_id}")).json()
    return {"verb": verb, "digest": read.get("digest", ""), **more}


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    *,
    work: Callable[..., Awaitable[Any]] = at_once,
    port: int = 0,
    options: ApiOptions = ApiOptions(),  # noqa: B008 - frozen
    fleet: Sequence[AgentProfile] = (DEVICE,),
    drives: bool = True,
    agents: Mapping[str, type[StandardAgent]] = {},
    fleet_file: Path | None = None,
    hooks: Mapping[str, Hook] = {},
) -> AsyncIterator[Server]:
    """Serve a database in a folder, on devices of this process, or on those of a fleet file."""
    store = SqliteStore.open(folder / "runs.db", create=True)
    try:
        news = RunNews()
        async with contextlib.AsyncExitStack() as stack:
            devices: Mapping[str, Device] = {profile.device_id: HandDevice(profile, work) for profile in fleet}
            if fleet_file:
                _, devices = await stack.enter_async_context(open_devices(fleet_file, folder / "runs.db"))
            runtime = await stack.enter_async_context(open_runtime(store, devices, folder / "runs.db", observers=[news]))
            context = ApiContext(
                runtime,
                options,
                planner=OfflinePlanner(),
                agents=agents,
                drains=drains_of(runtime.fleet, None, folder / "runs.db"),
                hooks=hooks,
            )
            news.feeds = context.feeds
            listening = listening_socket("127.0.0.1", port)
            listener = Listener(guarded(context))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async with asyncio.TaskGroup() as group:
                served = group.create_task(listener.serve(sockets=[listening]))
                driving = group.create_task(_drive(runtime)) if drives else None
                try:
                    while not listener.started:  # noqa: ASYNC110 - uvicorn has no event for it
                        await asyncio.sleep(0.01)
                    async with contextlib.AsyncExitStack() as clients:
                        yield Server(runtime, context, url, clients, listener)
                finally:
                    context.feeds.stop()
                    listener.should_exit = True
                    if driving:
                        driving.cancel()
                    await served
    finally:
        await store.close()


async def _drive(runtime: App) -> None:
    while True:
        for row in await runtime.store.runs(roots_only=True, limit=10_000):
            if not row.owner and (row.status == "active" or await runtime.store.inbox([row.run_id])):
                _ = runtime.driver.start(row.run_id)
        await asyncio.sleep(DRIVE_S)


def plan(*tasks: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    """A plan of tasks in a chain; a task is given by its id or its fields."""
    given = [{"task_id": it} if isinstance(it, str) else it for it in tasks]
    listed = [{"name": it["task_id"], "device": "d", "skill": "work", **it} for it in given]
    lines = [{"from": one["task_id"], "to": other["task_id"]} for one, other in itertools.pairwise(listed)]
    return {"tasks": listed, "dependencies": lines, **more}


ASKS = plan({"task_id": "deploy", "requires_approval": True})
"""A plan with a task that must be approved."""


async def failing(_: object) -> TaskError:
    """The work of a device on which every task fails."""
    return TaskError(code="raised", message="it broke")
