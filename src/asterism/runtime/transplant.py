"""Journals on the move: copied under another id, written to a file, and read back with every line checked.

A journal file is JSON lines: a header with the run's row, the records, and an end. Each line carries a
sum over itself and everything before it, so that a line changed, lost or moved is found and named.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from asterism.errors import InvalidInput
from asterism.kernel.journal import Record
from asterism.runtime.ports import RunRow

FORMAT = "asterism journal 1"


def renamed(records: Iterable[Record], old: str, new: str) -> list[Record]:
    """Records of one run as records of another: the effect ids in them follow."""
    effect = re.compile(re.escape(old) + r"(:\d+\.\d+)")

    def follow(value: Any) -> Any:
        if isinstance(value, str):
            found = effect.fullmatch(value)
            return new + found[1] if found else value
        if isinstance(value, dict):
            return {key: follow(item) for key, item in value.items()}
        return [follow(item) for item in value] if isinstance(value, list) else value

    return [
        msgspec.structs.replace(
            record, run=new, key=follow(record.key), body=msgspec.json.encode(follow(msgspec.json.decode(record.body))).decode()
        )
        for record in records
    ]


def journal_lines(row: RunRow, records: Iterable[Record]) -> Iterator[str]:
    """The lines of a journal file, each with its newline."""
    chain = hashlib.sha256()
    count = 0
    yield _sealed(chain, {"format": FORMAT, "run": msgspec.to_builtins(row)})
    for record in records:
        count += 1
        yield _sealed(chain, {"record": msgspec.to_builtins(record)})
    yield _sealed(chain, {"end": count})


def read_journal(lines: Iterable[str]) -> tuple[RunRow, list[Record]]:
    """The run and the records of a journal file.

    Raises:
        InvalidInput: not a journal file, another version, or a line that was changed, lost, moved or added; names the line.
    """
    chain = hashlib.sha256()
    row: RunRow | None = None
    records: list[Record] = []
    ended = False
    for number, line in enumerate(lines, 1):
        content = _opened(chain, line, number)
        if ended:
            raise InvalidInput(f"journal file, line {number}: there is something after the end")
        try:
            if row is None:
                if content.get("format") != FORMAT:
                    raise InvalidInput(f"journal file, line 1: the format is {content.get('format')!r}, this program reads {FORMAT!r}")
                row = msgspec.convert(content["run"], RunRow)
            elif "end" in content:
                ended = content["end"] == len(records)
            else:
                records.append(msgspec.convert(content["record"], Record))
        except (KeyError, msgspec.ValidationError) as error:
            raise InvalidInput(f"journal file, line {number}: {error}") from None
    if row is None or not ended or not records:
        raise InvalidInput("journal file: it is cut short; the end is missing")
    return row, records


def _sealed(chain: Any, content: dict[str, Any]) -> str:
    text = msgspec.json.encode(content, order="deterministic").decode()
    chain.update(text.encode())
    return msgspec.json.encode({"sum": chain.hexdigest(), "line": text}).decode() + "\n"


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
    except (KeyError, msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidInput(f"journal file, line {number}: not a line of a journal file ({error})") from None
