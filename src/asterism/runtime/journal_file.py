"""Journals on the move: copied under another id, written to a file, and read back with every line checked.

A journal file is JSON lines: a header with the run's row, the records, and an end; then the same for each run below it. Each line carries a
sum over itself and everything before it, so that a line changed, lost or moved is found and named.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from asterism.errors import InvalidInput
from asterism.kernel.journal import SCHEMA_VERSION, JournalMismatch, Record
from asterism.kernel.packing import is_readable
from asterism.runtime.ports.store import RunRow
from asterism.runtime.submission import check_id

FORMAT = "asterism journal 1"
END_OF_TIME = 253_370_764_800.0
"""The year 9999: a later time is not one that a clock has told."""

Journal = tuple[RunRow, list[Record]]
"""A run as the store lists it, and its records."""


class _End(msgspec.Struct, forbid_unknown_fields=True):
    """The last line of one journal: how many records it has, and how many journals follow it."""

    end: int
    left: Annotated[int, msgspec.Meta(ge=0)] = 0


def with_run_id(records: Iterable[Record], old: str, new: str) -> list[Record]:
    """Records of one run as records of another: the effect ids in them follow.

    Raises:
        JournalMismatch: a body that is not JSON.
    """
    effect = re.compile(re.escape(old) + r"(:\d+\.\d+)")

    def follow(value: Any) -> Any:
        if isinstance(value, str):
            found = effect.fullmatch(value)
            return new + found[1] if found else value
        if isinstance(value, dict):
            return {key: follow(item) for key, item in value.items()}
        return [follow(item) for item in value] if isinstance(value, list) else value

    followed: list[Record] = []
    for record in records:
        try:
            body = msgspec.json.encode(follow(msgspec.json.decode(record.body))).decode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise JournalMismatch(old, record.seq, f"cannot be read ({error})") from None
        followed.append(msgspec.structs.replace(record, run_id=new, key=follow(record.key), body=body))
    return followed


def journal_lines(journals: Sequence[Journal]) -> Iterator[str]:
    """The lines of a journal file, each with its newline: a root's journal, then those of the runs below it."""
    chain = hashlib.sha256()
    for number, (row, records) in enumerate(journals, 1):
        yield _sealed(chain, {"format": FORMAT, "run": msgspec.to_builtins(row)})
        for record in records:
            yield _sealed(chain, {"record": msgspec.to_builtins(record)})
        left = len(journals) - number
        yield _sealed(chain, {"end": len(records), **({"left": left} if left else {})})


def read_journals(lines: Iterable[str]) -> list[Journal]:
    """The runs of a journal file with their records, the root first.

    Raises:
        InvalidInput: not a journal file, a version that cannot be read, or a line that was changed, lost, moved or added; names the line.
    """
    chain = hashlib.sha256()
    journals: list[Journal] = []
    within, left = False, 1
    for number, line in enumerate(lines, 1):
        content = _opened(chain, line, number)
        if not left:
            raise InvalidInput(f"journal file, line {number}: there is something after the end")
        try:
            if not within:
                journals.append((_header(content), []))
                within = True
            elif "end" in content:
                end = msgspec.convert(content, _End)
                within, left = end.end != len(journals[-1][1]), end.left
            else:
                record = msgspec.convert(content["record"], Record)
                _check_version(record.version)
                _check_time(record.at)
                journals[-1][1].append(record)
        except (KeyError, msgspec.ValidationError, InvalidInput) as error:
            raise InvalidInput(f"journal file, line {number}: {error}") from None
    if within or left or not all(records for _, records in journals):
        raise InvalidInput("journal file: it is cut short; the end is missing")
    _check_tree([row for row, _ in journals])
    return journals


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
        raise InvalidInput(f"{at:g} seconds are no time of this calendar")


def _check_version(version: int) -> None:
    if not is_readable(version):
        known = f"schema version {version}, and this program reads {SCHEMA_VERSION}"
        raise InvalidInput(f"its records have {known}; import it with the asterism that exported it")


def _check_tree(rows: Sequence[RunRow]) -> None:
    root = rows[0].run_id
    if rows[0].parent or rows[0].root not in ("", root):
        raise InvalidInput(f"journal file: it begins with run {root}, which is a part of {rows[0].root}; a tree begins with its root")
    known = {row.run_id for row in rows}
    if len(known) < len(rows):
        raise InvalidInput("journal file: it has a run twice")
    for row in rows[1:]:
        if row.root != root or row.parent not in known:
            raise InvalidInput(f"journal file: run {row.run_id} is a part of {row.parent or 'nothing'}, which is not in the file")


def _sealed(chain: Any, content: dict[str, Any]) -> str:
    text = msgspec.json.encode(content, order="deterministic").decode()
    chain.update(text.encode())
    # In ASCII: what else may count as the end of a line, or is lost on an output of another encoding, is escaped.
    return json.dumps({"sum": chain.hexdigest(), "line": text}) + "\n"


def _opened(chain: Any, line: str, number: int) -> dict[str, Any]:
    try:
        sealed = msgspec.json.decode(line, type=dict[str, str])
        text, told = sealed["line"], sealed["sum"]
        chain.update(text.encode())
        if chain.hexdigest() != told:
            raise InvalidInput(
                f"journal file, line {number}: its sum does not fit; it, or what stands before it, was changed, lost or moved"
            )
        return msgspec.json.decode(text, type=dict[str, Any])
    except (KeyError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"journal file, line {number}: not a line of a journal file ({error})") from None
