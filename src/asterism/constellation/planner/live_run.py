"""A draft that is an unfinished run: it reads the journal and sends edits through the inbox.

Another process usually owns the run; nothing here writes to the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from asterism.constellation.machine.events import Edited
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import EditRefused, RefusalCode, parse_actions
from asterism.constellation.planner.draft import Accepted
from asterism.engine.kernel.data import check_json
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.phrase import words_of
from asterism.engine.kernel.refusal import refusal_of, verdict_words
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import ACCEPTED
from asterism.engine.runtime.client import VERDICT_POLL_S, Client
from asterism.errors import AsterismError, InvalidInput

POLLS_PER_DRIVE_CHECK = 10
"""Polls for a verdict between two checks that a process drives the run."""


class LiveRun:
    """A draft that is an unfinished run.

    Args:
        client, machine, run_id: the run, its store and its state machine.
        actor: the person or program that edits, for the journal.
        rouse: ensures that a process drives the run.
        timeout_s: seconds that an edit waits for its verdict.
    """

    def __init__(
        self,
        client: Client,
        machine: Machine[ConstellationMemory],
        run_id: str,
        *,
        actor: str,
        rouse: Callable[[], Awaitable[None]],
        timeout_s: float = 30.0,
    ) -> None:
        self._client = client
        self._packer = packer(machine)
        self._read_so_far: Run[ConstellationMemory] = Run(machine, run_id, performs=False)
        self._reading = asyncio.Lock()
        self._sent: dict[str, Accepted] = {}
        self._run_id = run_id
        self._actor = actor
        self._rouse = rouse
        self._timeout_s = timeout_s

    async def read(self) -> TaskConstellation:
        """Return the constellation that the journal holds now; see ``Draft.look``."""
        await self._read_on()
        if self._read_so_far.memory.schedule is None:
            raise EditRefused("no_constellation", "run", f"run {self._run_id} has no constellation yet; it is being planned")
        return self._read_so_far.memory.constellation

    async def edit(self, *actions: Mapping[str, Any]) -> Accepted:
        """Send the edits in one event and wait for the run's verdict; see ``Draft.edit``."""
        try:
            check_json(list(actions), "action")  # the journal could not store it
        except InvalidInput as error:
            raise EditRefused("bad_content", "action", str(error)) from None
        parse_actions(actions)  # unreadable edits need not reach the run
        row = await self._client.store.run(self._run_id)
        if row.status == "ended":
            raise EditRefused("ended", "run", f"it has ended ({row.outcome}); nothing of it can be edited any more")
        await self._read_on()
        key = self._client.clock.new_id()
        self._sent[key] = Accepted(constellation=TaskConstellation(), changed=False)
        try:
            edited = Edited(actions=tuple(dict(action) for action in actions), base_version=self._read_so_far.memory.constellation.version)
            await self._client.post(self._run_id, edited, actor=self._actor, key=key)
            verdict = await self._verdict(key)
            if verdict != ACCEPTED:
                refusal = refusal_of(verdict)
                if refusal is None:
                    raise EditRefused("unavailable", "run", verdict_words(verdict))
                raise EditRefused(cast("RefusalCode", refusal.code), refusal.what, refusal.why, refusal.index)
            await self._read_on()
            return msgspec.structs.replace(self._sent[key], constellation=self._read_so_far.memory.constellation)
        finally:
            del self._sent[key]

    async def _verdict(self, key: str) -> str:
        """Wait for the verdict on an inbox row, whichever process drives the run."""
        problem = "the process that drives the run has not handled the edit in time"
        for number in range(max(1, round(self._timeout_s / VERDICT_POLL_S))):
            if verdict := await self._client.store.verdict(self._run_id, key):
                return verdict
            if number % POLLS_PER_DRIVE_CHECK == 0:
                try:
                    await self._rouse()
                except AsterismError as error:
                    problem = str(error)
                    break
            await asyncio.sleep(VERDICT_POLL_S)
        raise EditRefused("unavailable", "run", f"{problem}; the edit stays in the inbox of run {self._run_id} until a process handles it")

    async def _read_on(self) -> None:
        """Replay new journal entries, and remember the results of the edits that were sent here."""
        async with self._reading:
            live = self._read_so_far
            for record in await self._client.store.records(self._run_id, after=live.seq):
                entry, before = self._packer.unpack(record), live.memory.constellation.version
                live.replay([entry])
                if entry.key in self._sent and not entry.note:
                    notes = tuple(map(words_of, entry.side_effects.get("notes", ())))
                    changed = live.memory.constellation.version != before
                    self._sent[entry.key] = msgspec.structs.replace(self._sent[entry.key], changed=changed, notes=notes)
