"""Drive a run in the foreground, or follow one that a server drives: show its journal as it grows, and pause or stop it on signals.

The first Ctrl-C pauses the run: running tasks finish, no new ones start. A second Ctrl-C, or SIGTERM, stops the process
and kills its running tasks. Their effects stay outstanding in the journal, so the next owner retries them or asks a person.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from asterism.cli.exit_codes import FAILED, FINISHED, INTERRUPTED, WAITING
from asterism.cli.output import complain, console, put, put_line
from asterism.cli.questions import Questions, can_ask
from asterism.cli.reporters import FRAME_S, JsonReporter, LineReporter, LiveReporter, Reporter, Update
from asterism.cli.run_access import actor, form_of
from asterism.constellation.view.history import ConstellationHistory
from asterism.constellation.view.proposals import proposal_lines, subject_of
from asterism.engine.control.run_control import AskPerson, Pause
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunReader, RunRow
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.private_files import opener
from asterism.engine.runtime.runs import Runs
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import AsterismError, Refused
from asterism.views.text.history import RunHistory, unread_history
from asterism.views.text.questions import answer_line
from asterism.views.text.show import end_summary, result_data
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import duration, plain


class Display(NamedTuple):
    """How a run is shown while it is driven or followed, as the options of a command say.

    Attributes:
        as_json: print each event, and the result, as JSON.
        every_item: in a pipe, also print each event of the items of a fan-out.
        result_file: file to write the result to as well.
    """

    as_json: bool = False
    every_item: bool = False
    result_file: Path | None = None


AS_LINES = Display()
LOOK_S = 0.2
"""Seconds between two looks at the row of a run that a server drives."""


class Watch:
    """Observer of the driver: notifies the journal printer and reports warnings."""

    def __init__(self, reporter: Reporter) -> None:
        self.news = asyncio.Event()
        self.asked = asyncio.Event()
        self._reporter = reporter

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:  # noqa: ARG002 - the entries are read from the journal
        """Note that the journal has grown, and whether a person is asked."""
        self.news.set()
        if any(isinstance(effect, AskPerson) for entry in entries for effect in entry.effects):
            self.asked.set()

    def trouble(self, run_id: str, message: str) -> None:  # noqa: ARG002 - there is only one run
        """Report a warning."""
        self._reporter.warn(plain(message))


class JournalPrinter:
    """Reader of a growing journal, which passes new entries to a reporter.

    Args:
        store: store of the journal.
        history: history of the run, which may have read a part of the journal.
        reporter: shows the entries.

    Attributes:
        screen: held while the terminal shows something else; ``follow`` waits for it.
    """

    def __init__(self, store: RunReader, history: RunHistory, reporter: Reporter) -> None:
        self.screen = asyncio.Lock()
        self._store = store
        self._unpack = packer(history.run.machine).unpack
        self._reporter = reporter
        self.history = history

    async def read(self, *, silently: bool = False) -> None:
        """Read the new entries, up to the end of the journal."""
        records = await self._store.records(self.history.run.id, after=self.history.run.seq)
        lines = self.history.read(map(self._unpack, records))
        if not silently:
            self._reporter.show(Update(self.history, records, lines))

    async def leave_screen(self) -> None:
        """Show what is new, and end the display; the next entries begin another one."""
        await self.read()
        self._reporter.close()

    async def follow(self, news: asyncio.Event) -> None:
        """Read new entries as they come, and refresh the display in between; runs until cancelled."""
        while True:
            try:
                async with self.screen:
                    await self.read()
            except AsterismError as error:  # a run that cannot be shown is still driven
                self._reporter.warn(str(error))
                return
            await asyncio.sleep(FRAME_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FRAME_S * 4):
                    await news.wait()
            news.clear()


def reporter_for(how: Display) -> Reporter:
    """Return the reporter that fits the standard output."""
    if how.as_json:
        return JsonReporter()
    out = console()
    return (
        LiveReporter(out, SystemClock()) if out.is_terminal and not out.is_dumb_terminal else LineReporter(out, every_item=how.every_item)
    )


async def drive(runtime: Runtime, run_id: str, how: Display = AS_LINES) -> int:
    """Drive a run as ``drive_shown`` does, and print its end; return the exit code.

    Raises:
        RunOwned: another process owns the run; nothing was changed.
    """
    history, driven = await drive_shown(runtime, run_id, how, driver=runtime)
    await print_end(runtime.store, history, driven, how)
    return exit_code_of(driven) if driven else INTERRUPTED


async def drive_shown(
    runs: Runs, run_id: str, how: Display = AS_LINES, *, driver: Runtime | None = None
) -> tuple[RunHistory, RunRow | None]:
    """Show a run while it is driven until it ends, waits for a person, or is stopped by a signal.

    Without a ``driver``, a server drives it, and a signal stops only the showing. At a terminal, its questions are asked.

    Returns:
        Its history, and its row; None if it was stopped.

    Raises:
        RunOwned: another process owns the run; nothing was changed.
    """
    row = await runs.describe(run_id)
    reporter = reporter_for(how)
    printer = JournalPrinter(runs.store, unread_history(form_of(row), run_id), reporter)
    await printer.read(silently=row.seq > 1)
    watch = Watch(reporter)
    asking = runs if can_ask() and not how.as_json and isinstance(runs, Runtime) else None
    questions = Questions(asking, run_id, watch.asked, printer.screen, printer.leave_screen) if asking else None
    if driver:
        driver.driver.observe(watch)
    try:
        driven = await _Foreground(runs, driver, run_id, reporter, questions).drive(printer, watch)
        while questions and driven and driven.status == "waiting" and await questions.must_drive():  # bounded by the person's answers
            driven = await _Foreground(runs, driver, run_id, reporter, questions).drive(printer, watch)
        await printer.read()
    finally:
        if driver:
            driver.driver.unobserve(watch)
        reporter.close()
    return printer.history, driven


class _Foreground:
    """A run that is driven, here or by a server, and the signals received meanwhile."""

    def __init__(self, runs: Runs, driver: Runtime | None, run_id: str, reporter: Reporter, questions: Questions | None) -> None:
        self._runs = runs
        self._driver = driver
        self._run_id = run_id
        self._reporter = reporter
        self._questions = questions
        self._signals = asyncio.Queue[signal.Signals]()
        self._failure: Exception | None = None
        self._row: RunRow | None = None

    async def drive(self, printer: JournalPrinter, watch: Watch) -> RunRow | None:
        """Drive the run; return its row afterwards, or None if the run was stopped."""
        loop = asyncio.get_running_loop()
        caught = [it for it in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if it is signal.SIGINT or _is_handled(it)]
        for number in caught:
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        try:
            async with asyncio.TaskGroup() as group:
                driving = group.create_task(self._drive())
                others = [group.create_task(printer.follow(watch.news)), group.create_task(self._handle_signals(driving))]
                if self._questions:
                    others.append(group.create_task(self._questions.keep_asking()))
                await asyncio.wait([driving])
                if self._questions and self._row and self._row.status == "waiting":
                    await self._questions.ask_open()
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
            self._row = await (self._driver.drive(self._run_id) if self._driver else _settled(self._runs, self._run_id))
        except AsterismError as error:
            self._failure = error

    async def _handle_signals(self, driving: asyncio.Task[None]) -> None:
        """Pause on the first Ctrl-C; stop on the second, or on any other signal. At a question, Ctrl-C leaves the question.

        A run that a server drives goes on without a pause.
        """
        while (received := await self._signals.get()) is signal.SIGINT and self._questions and self._questions.leave():
            pass
        if self._driver is None:
            driving.cancel()
            return
        if received is signal.SIGINT:
            self._reporter.warn("pausing: running tasks finish, no new ones start; press Ctrl-C again to stop now")
            try:
                await self._driver.post(self._run_id, Pause(reason="Ctrl-C"), actor=actor(), key=self._driver.clock.new_id())
            except AsterismError as error:
                self._reporter.warn(str(error))
            else:
                await self._signals.get()
        self._reporter.warn("stopping")
        driving.cancel()


async def _settled(runs: Runs, run_id: str) -> RunRow:
    """Return the row of a run that a server drives once it has ended, or only a person or a repair can move it on."""
    while True:  # bounded by the run
        await asyncio.sleep(LOOK_S)
        row = await runs.describe(run_id)
        is_due = row.due_at is not None and row.due_at <= SystemClock().now()
        if row.owner or (is_due and row.status != "ended"):
            continue
        is_waiting = row.status == "waiting" and await _needs_person(runs.store, row)
        if row.problem or row.status in ("ended", "paused") or is_waiting:
            return row


async def _needs_person(store: RunReader, row: RunRow) -> bool:
    """Return False for a run that waits for a time or an event."""
    if await store.inquiries(root=row.run_id):
        return True
    return row.due_at is None and not await store.inquiries(root=row.run_id, events=True)


def _is_handled(number: signal.Signals) -> bool:
    """Return False for a signal that the parent process has set to be ignored (nohup)."""
    return signal.getsignal(number) is not signal.SIG_IGN


# -- the end ---------------------------------------------------------------------------------------


def exit_code_of(row: RunRow) -> int:
    """Return the exit code for a run that is no longer driven."""
    if row.status == "ended":
        return {"finished": FINISHED, "cancelled": INTERRUPTED}.get(row.outcome, FAILED)
    return WAITING if row.status == "waiting" else INTERRUPTED


async def print_end(store: RunReader, history: RunHistory, driven: RunRow | None, how: Display = AS_LINES) -> None:
    """Print the result of the run and the commands that may follow."""
    row = driven or await store.run(history.run.id)
    result = result_data(history, row)
    if how.result_file is not None:
        write_atomically(how.result_file, json.dumps(result, indent=2) + "\n")
    lines = await _end_lines(store, history, row, stopped=driven is None, was_asked=can_ask() and not how.as_json)
    if how.as_json:
        put(json.dumps(result))
        if row.status != "ended":
            complain(lines[0])
        return
    out = console()
    for line in lines:
        put_line(out, StyledLine(line))


async def _end_lines(store: RunReader, history: RunHistory, row: RunRow, *, stopped: bool, was_asked: bool) -> list[str]:
    """Return the last lines of a command; a question that was asked at the terminal is not shown in full again."""
    run = row.run_id
    if row.status == "ended":
        result = history.run.memory.result()
        lines = [f"{row.state}: {row.outcome} after {duration(history.last_at - history.first_at)}", end_summary(result)]
        counted = history.summary()
        if counted.startswith(lines[-1]):
            lines[-1] = counted  # the summary of a loop without an answer is its number of steps
        elif result.get("total_tasks") != 0 and not lines[-1].startswith(f"{result.get('total_tasks')} task"):
            lines.append(counted)
        lines += [plain(result["reason"], 2000)] if result.get("reason") else []
        return [*lines, f"more: asterism show {run}"]
    if stopped:
        return [f"stopped; nothing is lost. Resume with: asterism resume {run}"]
    if row.status == "paused" and isinstance(history, ConstellationHistory) and (limit := history.memory.limit):
        return [f"paused at a limit: {plain(limit)}", f"resume with: asterism resume {run} --max-tokens N, or --max-cost DOLLARS"]
    if row.status == "paused":
        return [f"paused; resume with: asterism resume {run}"]
    lines, inquiries = [], await store.inquiries(root=run)
    for asked in inquiries:
        lines.append(f"waits for a person: {plain(asked.prompt, 1000)}")
        lines += [f"  {line}" for line in proposal_lines(subject_of(asked))] if not was_asked else []
        lines.append(f"  {answer_line(asked, run)}")
    if sum("approve" in asked.verbs for asked in inquiries) > 1:
        lines.append(f"answer all: asterism answer {run} approve|reject --all")
    return lines


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically; a new file is readable by its owner only.

    Raises:
        Refused: the file cannot be written.
    """
    path = Path(os.path.realpath(path))  # a symbolic link is followed, not replaced
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")  # a pipe or a device is never replaced
            return
        with open(draft, "w", encoding="utf-8", opener=opener) as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            file.write(text)
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # it may not exist
            draft.unlink()
        raise Refused(f"{path}: cannot write the file: {error.strerror}") from error
