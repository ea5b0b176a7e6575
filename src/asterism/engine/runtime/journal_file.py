"""Copy a journal under another id, and write and read files of journals.

A journal file is JSON lines: a header with the run's row, the records, and an end; then the same
for each run below it; then the logs of all of them, if there are any. Each line carries a checksum
of itself and everything before it, so that a line that was changed, removed or moved is found and
named.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

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


class _End(msgspec.Struct, forbid_unknown_fields=True):
    """The last line of one journal: the number of its records, and of the journals that follow."""

    end: int
    left: Annotated[int, msgspec.Meta(ge=0)] = 0


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
    chain = hashlib.sha256()
    for number, (row, records) in enumerate(journals, 1):
        yield _sealed(chain, {"format": FORMAT, "run": msgspec.to_builtins(row)})
        for record in records:
            yield _sealed(chain, {"record": msgspec.to_builtins(record)})
        left = len(journals) - number
        yield _sealed(chain, {"end": len(records), **({"left": left} if left else {})})
    for chunk in logs:
        yield _sealed(chain, {"log": msgspec.to_builtins(chunk)})
    if logs:
        yield _sealed(chain, {"logs": len(logs)})


def read_journals(lines: Iterable[str]) -> list[Journal]:
    """Return the runs of a journal file with their records, the root first; errors as for ``read_export``."""
    return read_export(lines).journals


def read_export(lines: Iterable[str]) -> Export:
    """Return the contents of a journal file.

    Raises:
        InvalidInput: not a journal file, an unsupported version, or a line that was changed,
            removed, moved or added; names the line.
    """
    chain = hashlib.sha256()
    journals: list[Journal] = []
    in_journal, left = False, 1
    log_lines: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        content = _verified(chain, line, number)
        if not left:
            log_lines.append(_after_journals(content, log_lines, number))
            continue
        try:
            if not in_journal:
                journals.append((_header(content), []))
                in_journal = True
            elif "end" in content:
                end = msgspec.convert(content, _End)
                in_journal, left = end.end != len(journals[-1][1]), end.left
            else:
                record = msgspec.convert(content["record"], Record)
                _check_version(record.version)
                _check_time(record.at)
                journals[-1][1].append(record)
        except (KeyError, msgspec.ValidationError, InvalidInput) as error:
            raise InvalidInput(f"journal file, line {number}: {error}") from None
    if in_journal or left or not all(records for _, records in journals):
        raise InvalidInput("journal file: the end is missing; the file is incomplete")
    _check_tree([row for row, _ in journals])
    return Export(journals, _logs(log_lines, {row.run_id for row, _ in journals}))


def _after_journals(content: dict[str, Any], before: Sequence[dict[str, Any]], number: int) -> dict[str, Any]:
    """Return a line with logs, or the end of the logs."""
    is_over = bool(before) and "logs" in before[-1]
    if is_over or not content.keys() & {"log", "logs"}:
        raise InvalidInput(f"journal file, line {number}: nothing may follow the end")
    return content


def _logs(lines: Sequence[dict[str, Any]], runs: set[str]) -> list[LogChunk]:
    if not lines:
        return []
    if lines[-1].get("logs") != len(lines) - 1:
        raise InvalidInput("journal file: the end of the logs is missing; the file is incomplete")
    try:
        chunks = [msgspec.convert(line["log"], LogChunk) for line in lines[:-1]]
    except (KeyError, msgspec.ValidationError) as error:
        raise InvalidInput(f"journal file: its logs are damaged: {error}") from None
    if strange := {chunk.run_id for chunk in chunks} - runs:
        raise InvalidInput(f"journal file: it has logs of run {min(strange)}, which is not in the file")
    return chunks


def _header(content: dict[str, Any]) -> RunRow:
    if content.get("format") != FORMAT:
        raise InvalidInput(f"the format is {content.get('format')!r}, this program reads {FORMAT!r}")
    row = msgspec.convert(content["run"], RunRow)
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


def _sealed(chain: Any, content: dict[str, Any]) -> str:
    text = msgspec.json.encode(content, order="deterministic").decode()
    chain.update(text.encode())
    # ASCII only: other line separators, and characters that an output encoding lacks, are escaped.
    return json.dumps({"sum": chain.hexdigest(), "line": text}) + "\n"


def _verified(chain: Any, line: str, number: int) -> dict[str, Any]:
    try:
        sealed = msgspec.json.decode(line, type=dict[str, str])
        text, checksum = sealed["line"], sealed["sum"]
        chain.update(text.encode())
        if chain.hexdigest() != checksum:
            raise InvalidInput(
                f"journal file, line {number}: checksum mismatch; this line, or an earlier one, was changed, removed or moved"
            )
        return msgspec.json.decode(text, type=dict[str, Any])
    except (KeyError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"journal file, line {number}: not valid ({error}); export the run again") from None
