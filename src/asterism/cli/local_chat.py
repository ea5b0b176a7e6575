"""A chat with agents of this computer; this process drives the conversations."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any

from asterism.app.bootstrap import ModelServices, open_model_services
from asterism.app.bootstrap import open as open_all
from asterism.cli.chat import print_result
from asterism.cli.output import put
from asterism.cli.run_access import connected
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.python.app import App
from asterism.constellation.python.resumption import fleet_file_below
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.agent import StandardAgent
from asterism.conversation.python.agent_state import AgentResult
from asterism.conversation.python.conversation import Conversation
from asterism.conversation.python.orchestrator import Orchestrator
from asterism.conversation.python.plans import check_on_fleet
from asterism.engine.control.run_control import Pause
from asterism.engine.runtime.clock import local_zone
from asterism.engine.runtime.lookup import MAX_RUNS
from asterism.errors import AsterismError, StoreUnavailable, first_of
from asterism.views.words import plain


class LocalChat:
    """``Chat`` with agents of this computer. The first Ctrl-C pauses the conversation, a second one stops at once."""

    def __init__(self, orchestrator: Orchestrator, user: str) -> None:
        self._orchestrator = orchestrator
        self._user = user

    async def current(self) -> Conversation | None:
        """See ``Chat``."""
        return await self._orchestrator.current(self._user)

    async def say(self, text: str) -> AgentResult | None:
        """See ``Chat``."""
        return await self.take(self._orchestrator.handle(text, user=self._user))

    async def take(self, turn: Coroutine[Any, Any, AgentResult]) -> AgentResult | None:
        """See ``Chat``."""
        return await _interruptible(turn, self._orchestrator, self._user)


@contextlib.asynccontextmanager
async def open_local_chat(
    agents: Sequence[type[StandardAgent]],
    user: str,
    opened: contextlib.AbstractAsyncContextManager[tuple[App, ModelServices]],
    *,
    language: str,
    time_zone: str,
) -> AsyncIterator[LocalChat]:
    """Open a chat with agents, and print what they do. Raises InvalidInput if the plan of one cannot run here."""
    async with opened as (runtime, services):
        for known in agents:
            await check_on_fleet(known, runtime.fleet, runtime.here, runtime.devices)
        orchestrator = Orchestrator(
            agents,
            runtime=runtime,
            router=services.router,
            language=language,
            time_zone=time_zone,
            local_zone=local_zone(),
        )
        put(f"{'; '.join(agent.description or agent.__name__ for agent in agents)}. Type /help for commands.")
        for run, agent in (await orchestrator.missing(user)).items():
            put(f"(run {run} waits: the agent {plain(agent)} cannot be found; restore it, or cancel the run: asterism cancel {run})")
        yield LocalChat(orchestrator, user)


@contextlib.asynccontextmanager
async def open_with_models(
    database: Path | None, fleet: Path | None, choice: ModelChoice | None
) -> AsyncIterator[tuple[App, ModelServices]]:
    """Open a runtime whose planner and extractor are those of a model."""
    async with (
        open_model_services(choice) as services,
        open_all(database, fleet=fleet, planner=services.planner, extractor=services.extractor) as runtime,
    ):
        yield runtime, services


async def fleet_of(user: str, database: Path) -> Path | None:
    """Return the fleet file of the runs below a user's open conversations; None if they have none."""
    with contextlib.suppress(StoreUnavailable):  # no database yet, or one that fails below with its reason
        async with connected(database) as client:
            for row in await client.store.runs(limit=MAX_RUNS, roots_only=True, open_only=True):
                if row.machine == FLOW_AGENT.name and row.actor == user and (found := await fleet_file_below(client, row)):
                    return found
    return None


async def _interruptible(turn: Coroutine[Any, Any, AgentResult], orchestrator: Orchestrator, user: str) -> AgentResult | None:
    """Take a turn. The first Ctrl-C pauses the conversation after the running handler, a second one stops at once.

    Returns:
        The result of the turn; None if Ctrl-C has paused the conversation.
    """
    pressed, before = asyncio.Queue[None](), signal.getsignal(signal.SIGINT)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, pressed.put_nowait, None)
    paused: list[str] = []
    try:
        async with asyncio.TaskGroup() as group:
            taken = group.create_task(turn)
            pausing = group.create_task(_pause_at_ctrl_c(pressed, taken, orchestrator, user, paused))
            await asyncio.wait([taken])
            pausing.cancel()
    except* AsterismError as failed:
        raise first_of(failed) from None
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
    if taken.cancelled():
        raise KeyboardInterrupt
    for run in paused:
        if (await orchestrator.runtime.describe(run)).status == "paused":
            print_result(taken.result())
            put(f"paused; nothing is lost. Continue with the same command, or with: asterism resume {run}")
            return None
    return taken.result()


async def _pause_at_ctrl_c(
    pressed: asyncio.Queue[None], taken: asyncio.Task[AgentResult], orchestrator: Orchestrator, user: str, paused: list[str]
) -> None:
    await pressed.get()
    if conversation := await orchestrator.current(user):
        runtime = orchestrator.runtime
        await runtime.post(conversation.run_id, Pause(reason="Ctrl-C"), actor=user, key=runtime.clock.new_id())
        paused.append(conversation.run_id)
    put("pausing: the running handler finishes first; press Ctrl-C again to stop now")  # now that it is recorded
    await pressed.get()
    taken.cancel()
