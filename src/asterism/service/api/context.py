"""What the resources of one server share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Request

from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.planner.port import Planner
from asterism.conversation.python.agent import StandardAgent
from asterism.devices.dispatch.places import Places
from asterism.engine.kernel.permissions import LOWEST
from asterism.engine.ports.events import Hook
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.ports.tokens import TokenRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import Clock
from asterism.service.api.attempt_history import AttemptHistory
from asterism.service.api.feeds import Feeds
from asterism.service.api.limits import SUBMISSIONS, Limits

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names of this computer in the Host header."""


class ApiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached.

    Attributes:
        hosts: names in the Host header that it answers to.
        secure: True if clients connect over TLS, here or at a proxy in front of it.
        fleet: name of the fleet that it serves.
        submissions: submissions of one token in a minute.
    """

    hosts: Sequence[str] = LOOPBACK
    secure: bool = False
    fleet: str = ""
    submissions: int = SUBMISSIONS


class ApiContext:
    """What the resources of one server share.

    Args:
        client: client of the database, with the fleet of the submitted runs. A resource that writes
            uses ``acting_as``; what forgets it writes with the lowest permissions.
        options: how the server is reached.
        planner: plans requests that are checked without a run; None to check plans only.
        model: plans the requests that are submitted; None for the offline planner.
        agents: flow agents with which clients start conversations, by name.
        drains: sets devices to drain, by id.
        hooks: where other systems post events, by name, with the values of their keys.
        is_ready: returns False while the server starts or stops.
    """

    def __init__(
        self,
        client: Client,
        options: ApiOptions,
        *,
        planner: Planner | None = None,
        model: ModelChoice | None = None,
        agents: Mapping[str, type[StandardAgent]] = {},
        drains: Mapping[str, Places] = {},
        hooks: Mapping[str, Hook] = {},
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self.client = client.acting_with(LOWEST)
        self.options = options
        self.planner = planner
        self.model = model
        self.agents = agents
        self.drains = drains
        self.hooks = hooks
        self.is_ready = is_ready
        self.limits = Limits(client.clock.monotonic, options.submissions)
        self.feeds = Feeds(client.store, client.forms)
        self.attempts = AttemptHistory(client.store, client.forms)

    def acting_as(self, sender: TokenRow) -> Client:
        """Return the client with the permissions of a sender, for everything that this sender writes."""
        return self.client.acting_with(sender.permissions)

    @property
    def store(self) -> Store:
        """Return the store of the client."""
        return self.client.store

    @property
    def clock(self) -> Clock:
        """Return the clock of the client."""
        return self.client.clock

    async def run(self, run_id: str, tenant: str) -> RunRow:
        """Return a run of a tenant. Raises RunNotFound for any other id, whether a run of another tenant has it or not."""
        return await self.store.run(run_id, tenant=tenant)


def _context(request: Request) -> Any:
    return request.app.state.context


Context = Annotated[ApiContext, Depends(_context)]
"""A parameter of a resource: the context of its server."""
