"""Checks that every store makes before it writes: the caller's mistakes, each a ``ValueError``."""

from __future__ import annotations

from collections.abc import Sequence

from asterism.kernel.journal import Record
from asterism.runtime.ports.store import Commit, InquiryRow, RunRow


def check_submission(row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
    """Check that the records and inquiries are of this run, and seqs go from 1 without gaps."""
    _check(row.run_id, records, 1, opened)


def check_commit(commit: Commit) -> None:
    """Check that the records and inquiries are of this run, and seqs follow ``expected_seq``."""
    _check(commit.run_id, commit.records, commit.expected_seq + 1, commit.opened)


def _check(run_id: str, records: Sequence[Record], start: int, opened: Sequence[InquiryRow]) -> None:
    for seq, record in enumerate(records, start):
        if record.seq != seq or record.run_id != run_id:
            raise ValueError(f"run {run_id}: there is record {record.run_id}#{record.seq} where {run_id}#{seq} belongs")
    for inquiry in opened:
        if inquiry.run_id != run_id:
            raise ValueError(f"run {run_id}: it opens inquiry {inquiry.inquiry_id} of run {inquiry.run_id}")
