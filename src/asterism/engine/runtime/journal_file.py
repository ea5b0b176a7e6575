"""Copy a journal under another id, and write and read files of journals.

A journal file is JSON lines: a header with the run's row, and its records; then the same for each
run below it; then the logs of all of them, if there are any. The last line has the SHA-256 of all
lines before it, so that a file that was changed is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from asterism.engine.kernel.journal import SCHEMA_VERSION, JournalMismatch, Record
from asterism.engine.kernel.packing import is_readable
from asterism.engine.ports.logs import LogChunk
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.submission import check_id
from asterism.errors import InvalidInput

FORMAT = "asterism journal 1"
END_OF_TIME = 253_370_764_800.0
"""The year 9999; a later time is invalid."""

Journal = tuple[RunRow, list[Record]]
"""The row of a run, and its records."""


def with_run_id(records: Iterable[Record], old: str, new: str) -> list[Record]:
    """Return the records of one run as records of another, with the effect ids in them renamed.

    Raises:
        JournalMismatch: a body that is not JSON.
    """
    effect = re.compile(re.escape(old) + r"(:\d+\.\d+)")

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            found = effect.fullmatch(value)
            return new + found[1] if found else value
        if isinstance(value, dict):
            return {key: renamed(item) for key, item in value.items()}
        return [renamed(item) for item in value] if isinstance(value, list) else value

    copies: list[Record] = []
    for record in records:
        try:
            body = msgspec.json.encode(renamed(msgspec.json.decode(record.body))).decode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise JournalMismatch(old, record.seq, f"cannot be read ({error})") from None
        copies.append(msgspec.structs.replace(record, run_id=new, key=renamed(record.key), body=body))
    return copies


class Export(NamedTuple):
    """The contents of a journal file: the journals, the root's first, and the logs of their runs."""

    journals: list[Journal]
    logs: list[LogChunk]


def journal_lines(journals: Sequence[Journal], logs: Sequence[LogChunk] = ()) -> Iterator[str]:
    """Yield the lines of a journal file with their newlines, the root's journal first."""
    digest = hashlib.sha256()
    for content in _contents(journals, logs):
        # ASCII only: other line separators, and characters that an output encoding lacks, are escaped.
        line = json.dumps(msgspec.to_builtins(content)) + "\n"
        digest.update(line.encode())
        yield line
    yield _end(digest)


def _contents(journals: Sequence[Journal], logs: Sequence[LogChunk]) -> Iterator[dict[str, Any]]:
    for row, records in journals:
        yield {"format": FORMAT, "run": row}
        yield from ({"record": record} for record in records)
    yield from ({"log": chunk} for chunk in logs)


def _end(digest: Any) -> str:
    return json.dumps({"sha256": digest.hexdigest()}) + "\n"


def read_journals(lines: Iterable[str]) -> list[Journal]:
    """Return the runs of a journal file with their records, the root first; errors as for ``read_export``."""
    return read_export(lines).journals


def read_export(lines: Iterable[str]) -> Export:
    """Return the contents of a journal file.

    Raises:
        InvalidInput: not a journal file, an unsupported version, or a file that was changed.
    """
    *contents, end = [*lines] or [""]
    export = Export([], [])
    for number, line in enumerate(contents, 1):
        try:
            _read_line(msgspec.json.decode(line, type=dict[str, Any]), export)
        except InvalidInput as error:
            raise InvalidInput(f"journal file, line {number}: {error}") from None
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidInput(f"journal file, line {number}: not valid ({error}); export the run again") from None
    if end.strip() != _end(hashlib.sha256("".join(contents).encode())).strip():
        raise InvalidInput("journal file: checksum mismatch; the file was changed, or its end is missing, so export the run again")
    if not export.journals or not all(records for _, records in export.journals):
        raise InvalidInput("journal file: it has a run without a journal")
    _check_tree([row for row, _ in export.journals])
    if strange := {chunk.run_id for chunk in export.logs} - {row.run_id for row, _ in export.journals}:
        raise InvalidInput(f"journal file: it has logs of run {min(strange)}, which is not in the file")
    return export


def _read_line(content: dict[str, Any], export: Export) -> None:
    """Add the content of a line to what the lines before it have."""
    if "log" in content:
        export.logs.append(msgspec.convert(content["log"], LogChunk))
    elif "record" in content and export.journals:
        record = msgspec.convert(content["record"], Record)
        _check_version(record.version)
        _check_time(record.at)
        export.journals[-1][1].append(record)
    else:
        export.journals.append((_header(content), []))


def _header(content: dict[str, Any]) -> RunRow:
    if content.get("format") != FORMAT:
        raise InvalidInput(f"the format is {content.get('format')!r}, this program reads {FORMAT!r}")
    row = msgspec.convert(content.get("run"), RunRow)
    check_id(row.run_id, row.parent)
    _check_time(row.created_at)
    _check_time(row.updated_at)
    return row


def _check_time(at: float) -> None:
    if not 0 <= at < END_OF_TIME:
        raise InvalidInput(f"{at:g} s is not a valid time; it must be in 0 <= time < {END_OF_TIME:g}")


def _check_version(version: int) -> None:
    if not is_readable(version):
        known = f"schema version {version}, and this program reads {SCHEMA_VERSION}"
        raise InvalidInput(f"its records have {known}; import it with the version of asterism that exported it")


def _check_tree(rows: Sequence[RunRow]) -> None:
    root = rows[0].run_id
    if rows[0].parent or rows[0].root not in ("", root):
        raise InvalidInput(f"journal file: the first run {root} is a child of {rows[0].root}; a file begins with the root of a tree")
    known = {row.run_id for row in rows}
    if len(known) < len(rows):
        raise InvalidInput("journal file: a run occurs twice")
    for row in rows[1:]:
        if row.root != root or row.parent not in known:
            raise InvalidInput(f"journal file: run {row.run_id} is a child of {row.parent or 'nothing'}, which is not in the file")
