"""What every store refuses before it writes: a caller's mistakes, each a ``ValueError``."""

from __future__ import annotations

from collections.abc import Sequence

from asterism.kernel.journal import Record
from asterism.runtime.ports.store import Commit, InquiryRow, RunRow


def check_submission(row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
    """The records are of this run and go from 1 without gaps; so are the inquiries."""
    _check(row.run, records, 1, opened)


def check_commit(commit: Commit) -> None:
    """The records are of this run and go on from ``expected_seq`` without gaps; so are the inquiries."""
    _check(commit.run, commit.records, commit.expected_seq + 1, commit.opened)


def _check(run: str, records: Sequence[Record], start: int, opened: Sequence[InquiryRow]) -> None:
    for seq, record in enumerate(records, start):
        if record.seq != seq or record.run != run:
            raise ValueError(f"run {run}: there is record {record.run}#{record.seq} where {run}#{seq} belongs")
    for inquiry in opened:
        if inquiry.run != run:
            raise ValueError(f"run {run}: it opens inquiry {inquiry.inquiry} of run {inquiry.run}")
