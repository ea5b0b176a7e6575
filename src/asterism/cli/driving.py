"""Driving a run in the foreground: it is shown from its journal while it goes on, and signals pause or stop it.

Ctrl-C once: nothing new is started, and what runs may end. Twice, or SIGTERM: what runs is killed. Its outcome stays open in
the journal either way, so that whoever goes on with the run redoes it, or asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from asterism.cli.codes import FAILED, FINISHED, INTERRUPTED, WAITING
from asterism.cli.finding import actor
from asterism.cli.keyboard import confided
from asterism.cli.output import complain, console, put, put_line
from asterism.cli.reporting import FRAME_S, JsonReporter, LineReporter, LiveReporter, Reporter, Update
from asterism.cli.stories.constellation_story import ConstellationStory
from asterism.cli.stories.proposals import answer_line, proposal_lines, subject_of
from asterism.cli.stories.story import Story
from asterism.cli.stories.telling import story_for
from asterism.errors import AsterismError, Refused
from asterism.kernel.journal import Entry
from asterism.kernel.packing import packer
from asterism.machines.run_control import Pause
from asterism.runtime.clock import SystemClock
from asterism.runtime.ports.store import RunRow, Store
from asterism.runtime.private_files import opener
from asterism.runtime.runtime import Runtime
from asterism.views.words import duration, plain


class Watch:
    """Observes the driver: wakes the teller, and passes on trouble."""

    def __init__(self, reporter: Reporter) -> None:
        self.news = asyncio.Event()
        self._reporter = reporter

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:  # noqa: ARG002 - they are read from the journal
        """The journal has grown."""
        self.news.set()

    def trouble(self, run_id: str, message: str) -> None:  # noqa: ARG002 - there is one run
        """Said aloud."""
        self._reporter.warn(plain(message))


class Teller:
    """Reads a journal as it grows, and has it shown.

    Args:
        store: where the journal is.
        story: as far as the journal was read already.
        reporter: shows it.
    """

    def __init__(self, store: Store, story: Story, reporter: Reporter) -> None:
        self._store = store
        self._unpack = packer(story.run.machine).unpack
        self._reporter = reporter
        self.story = story

    async def read(self, *, silently: bool = False) -> None:
        """Read on to the end of the journal."""
        records = await self._store.records(self.story.run.id, after=self.story.run.seq)
        happenings = self.story.read(map(self._unpack, records))
        if not silently:
            self._reporter.show(Update(self.story, records, happenings))

    async def follow(self, news: asyncio.Event) -> None:
        """Read on whenever there is news, and show that time passes; until cancelled."""
        while True:
            try:
                await self.read()
            except AsterismError as error:  # what cannot be shown is driven all the same
                self._reporter.warn(str(error))
                return
            await asyncio.sleep(FRAME_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FRAME_S * 4):
                    await news.wait()
            news.clear()


def reporter_for(*, as_json: bool) -> Reporter:
    """The reporter that fits the standard output."""
    if as_json:
        return JsonReporter()
    out = console()
    return LiveReporter(out, SystemClock()) if out.is_terminal and not out.is_dumb_terminal else LineReporter(out)


async def drive(runtime: Runtime, run_id: str, *, as_json: bool = False, result_file: Path | None = None) -> int:
    """Drive a run until it has ended, only people can move it on, or a signal stops it; returns the exit code.

    Raises:
        RunOwned: another process has it; nothing was done.
    """
    row = await runtime.describe(run_id)
    reporter = reporter_for(as_json=as_json)
    teller = Teller(runtime.store, story_for(runtime.machine_of(row), run_id), reporter)
    await teller.read(silently=row.seq > 1)
    watch = Watch(reporter)
    runtime.driver.observe(watch)
    try:
        driven = await _Foreground(runtime, run_id, reporter).drive(teller, watch)
        await teller.read()
        while driven and driven.status == "waiting" and not as_json and await _confided(runtime, run_id, reporter):  # until they leave
            driven = await _Foreground(runtime, run_id, reporter).drive(teller, watch)
            await teller.read()
    finally:
        runtime.driver.unobserve(watch)
        reporter.close()
    await tell_end(runtime.store, teller.story, driven, as_json=as_json, result_file=result_file)
    return code_of(driven) if driven else INTERRUPTED


async def _confided(runtime: Runtime, run_id: str, reporter: Reporter) -> bool:
    reporter.close()  # a picture that moves is none to type under
    return await confided(runtime, run_id)


class _Foreground:
    """One run being driven, and the signals that may come meanwhile."""

    def __init__(self, runtime: Runtime, run_id: str, reporter: Reporter) -> None:
        self._runtime = runtime
        self._run_id = run_id
        self._reporter = reporter
        self._signals = asyncio.Queue[signal.Signals]()
        self._failure: Exception | None = None
        self._row: RunRow | None = None

    async def drive(self, teller: Teller, watch: Watch) -> RunRow | None:
        """Drive it; the row it has then, or None if it was stopped."""
        loop = asyncio.get_running_loop()
        caught = [it for it in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if it is signal.SIGINT or _is_heeded(it)]
        for number in caught:
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        try:
            async with asyncio.TaskGroup() as group:
                driving = group.create_task(self._drive())
                others = [group.create_task(teller.follow(watch.news)), group.create_task(self._heed(driving))]
                await asyncio.wait([driving])
                for task in others:
                    task.cancel()
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
        if self._failure is not None:
            raise self._failure
        return self._row

    async def _drive(self) -> None:
        try:
            self._row = await self._runtime.drive(self._run_id)
        except AsterismError as error:
            self._failure = error

    async def _heed(self, driving: asyncio.Task[None]) -> None:
        """Pause at the first Ctrl-C, stop at the second or at any other signal."""
        if await self._signals.get() is signal.SIGINT:
            self._reporter.warn("pausing: what runs may end, nothing new is started; Ctrl-C again stops now")
            try:
                await self._runtime.post(self._run_id, Pause(reason="Ctrl-C"), actor=actor(), key=self._runtime.clock.new_id())
            except AsterismError as error:
                self._reporter.warn(str(error))
            else:
                await self._signals.get()
        self._reporter.warn("stopping")
        driving.cancel()


def _is_heeded(number: signal.Signals) -> bool:
    """False for a signal that whoever started us wanted ignored (nohup)."""
    return signal.getsignal(number) is not signal.SIG_IGN


# -- the end ---------------------------------------------------------------------------------------


def code_of(row: RunRow) -> int:
    """The exit code for a run that is driven no further."""
    if row.status == "ended":
        return {"finished": FINISHED, "cancelled": INTERRUPTED}.get(row.outcome, FAILED)
    return WAITING if row.status == "waiting" else INTERRUPTED


def result_of(story: Story, row: RunRow) -> dict[str, Any]:
    """What a run has come to, for programs."""
    return {
        "run": row.run_id,
        "state": row.state,
        "outcome": row.outcome,
        "status": row.status,
        "result": story.run.memory.result(),
        **story.outcome(),
    }


async def tell_end(store: Store, story: Story, driven: RunRow | None, *, as_json: bool, result_file: Path | None) -> None:
    """Say what has become of the run, and what can be done next."""
    row = driven or await store.run(story.run.id)
    result = result_of(story, row)
    if result_file is not None:
        write_whole(result_file, json.dumps(result, indent=2) + "\n")
    lines = await _end_lines(store, story, row, stopped=driven is None)
    if as_json:
        put(json.dumps(result))
        if row.status != "ended":
            complain(lines[0])
        return
    out = console()
    for line in lines:
        put_line(out, Text(line))


async def _end_lines(store: Store, story: Story, row: RunRow, *, stopped: bool) -> list[str]:
    run = row.run_id
    if row.status == "ended":
        result = story.run.memory.result()
        told = [f"{row.state}: {row.outcome} after {duration(story.last_at - story.first_at)}", plain(result["summary"], 2000)]
        counted = story.counted()
        if counted.startswith(told[-1]):
            told[-1] = counted  # a loop that has no answer in words has nothing but a number of steps to say
        elif result.get("total_tasks") != 0 and not told[-1].startswith(f"{result.get('total_tasks')} task"):
            told.append(counted)
        told += [plain(result["reason"], 2000)] if result.get("reason") else []
        return [*told, f"more: asterism show {run}"]
    if stopped:
        return [f"stopped; nothing is lost. Go on with: asterism resume {run}"]
    if row.status == "paused" and isinstance(story, ConstellationStory) and (limit := story.memory.limit):
        return [f"paused itself: {plain(limit)}", f"go on with: asterism resume {run} --max-tokens N, or --max-cost DOLLARS"]
    if row.status == "paused":
        return [f"paused; go on with: asterism resume {run}"]
    told, open_ones = [], await store.inquiries(root=run)
    for asked in open_ones:
        told.append(f"waits for a person: {plain(asked.prompt, 1000)}")
        told += [f"  {line}" for line in proposal_lines(subject_of(asked))]
        told.append(f"  {answer_line(asked, None, run)}")
    if sum("approve" in asked.verbs for asked in open_ones) > 1:
        told.append(f"all of them at once: asterism answer {run} approve|reject --all")
    return told


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody ever reads half of it; a new one is for its user only.

    Raises:
        Refused: it cannot be written.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")  # a pipe or a device: never replaced
            return
        with open(draft, "w", encoding="utf-8", opener=opener) as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            file.write(text)
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # it may never have been there
            draft.unlink()
        raise Refused(f"{path}: it cannot be written there: {error.strerror}") from error
