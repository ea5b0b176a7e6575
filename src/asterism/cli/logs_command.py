"""The command that prints what tasks have printed: logs."""

from __future__ import annotations

import asyncio
import codecs
import sys
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Literal, NamedTuple

import msgspec
from cyclopts import Parameter

from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, RunId, ServerUrl
from asterism.cli.output import complain, put
from asterism.cli.run_access import runs_of
from asterism.engine.ports.logs import LogChunk
from asterism.engine.runtime.log_stream import follow_logs
from asterism.engine.runtime.lookup import find_run
from asterism.engine.runtime.runs import Runs
from asterism.errors import InvalidInput, did_you_mean
from asterism.views.words import byte_count, plain, printable


def logs(
    named: RunId,
    task: Annotated[str, Parameter(name="TASK", help="Print only the output of this task, worker, tool or handler.")] = "",
    /,
    *,
    follow: Annotated[bool, Parameter(negative=(), help="Keep printing until the run ends.")] = False,
    attempt: Annotated[int, Parameter(help="Print only the output of the attempt with this number.", show_default=False)] = 0,
    stream: Annotated[Literal["stdout", "stderr"] | None, Parameter(help="Print only this stream.")] = None,
    database: Database = None,
    server: ServerUrl = None,
    json: Annotated[bool, Parameter(negative=(), help="Print each chunk as a line of JSON.")] = False,
) -> int:
    """Print what the tasks of a run have printed, and the tracebacks of their errors."""
    if attempt < 0:
        raise InvalidInput(f"--attempt must be the number of an attempt, not {attempt}")
    printer = _JsonPrinter() if json else _Printer(has_headers=not task)
    return asyncio.run(_logs(named, _Wanted(task, attempt, stream), runs_of(database, server), printer, follow=follow))


class _Wanted(NamedTuple):
    """The output to print: of all tasks, attempts and streams by default."""

    task: str
    attempt: int
    stream: str | None

    def has(self, chunk: LogChunk) -> bool:
        """Return True if a chunk is to be printed; so is the note that the store has removed some."""
        is_asked = self.task in ("", chunk.task) and self.attempt in (0, chunk.number) and self.stream in (None, chunk.stream)
        return is_asked or not chunk.key


async def _logs(named: str, wanted: _Wanted, opening: AbstractAsyncContextManager[Runs], printer: _Printer, *, follow: bool) -> int:
    seen: set[str] = set()
    found = False
    async with opening as runs:
        row = await find_run(runs.store, named)
        async for chunk in follow_logs(runs.store, row.run_id, until_now=not follow):
            seen.add(chunk.task)
            if wanted.has(chunk):
                found = True
                printer.put(chunk)
        printer.close()
    if wanted.task and wanted.task not in seen and not follow:
        there = f"; there is output of {', '.join(sorted(seen - {''})) or 'nothing'}"
        raise InvalidInput(f"{wanted.task} has printed nothing in run {row.run_id}{did_you_mean(wanted.task, seen) or there}")
    if not found:
        complain(f"run {row.run_id} has no such output" if any(wanted) else f"run {row.run_id} has printed nothing")
    return FINISHED


class _Printer:
    """Prints chunks as text, with a line before the output of each attempt if ``has_headers``, and a line for each gap."""

    def __init__(self, *, has_headers: bool) -> None:
        self._has_headers = has_headers
        self._ends: dict[tuple[str, str], int] = {}
        self._decoders: dict[tuple[str, str], codecs.IncrementalDecoder] = {}
        self._key = ""
        self._at_line_start = True

    def put(self, chunk: LogChunk) -> None:
        """Print a chunk."""
        if not chunk.key:
            self._note(f"… {byte_count(chunk.position)} of this run's output left out …")
            return
        place = chunk.key, chunk.stream
        if chunk.key != self._key:
            self._key = chunk.key
            if self._has_headers:
                attempt = f", attempt {chunk.number}" if chunk.number > 1 else ""
                self._note(f"--- {chunk.task}{attempt} ---")
        if (gap := chunk.position - self._ends.get(place, 0)) > 0:
            self._note(f"… {byte_count(gap)} left out …")
        self._ends[place] = chunk.position + len(chunk.data)
        decoder = self._decoders.setdefault(place, codecs.getincrementaldecoder("utf-8")("replace"))
        self._write(decoder.decode(chunk.data))

    def close(self) -> None:
        """End the last line."""
        if not self._at_line_start:
            self._write("\n")

    def _note(self, text: str) -> None:
        self.close()
        self._write(f"{plain(text)}\n")

    def _write(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            shown = text if not sys.stdout.isatty() else "\n".join(printable(line.expandtabs()) for line in text.split("\n"))
            sys.stdout.write(shown)
            sys.stdout.flush()


class _JsonPrinter(_Printer):
    """Prints chunks as lines of JSON."""

    def __init__(self) -> None:
        super().__init__(has_headers=False)

    def put(self, chunk: LogChunk) -> None:
        """Print a chunk; bytes that are no UTF-8 are replaced."""
        fields = msgspec.structs.asdict(chunk)
        fields["run"] = fields.pop("run_id")
        del fields["skipped"]
        put(msgspec.json.encode({**fields, "data": chunk.data.decode(errors="replace")}).decode())
