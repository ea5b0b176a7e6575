"""What every store refuses before it writes: a caller's mistakes, each a ``ValueError``."""

from __future__ import annotations

from asterism.kernel.journal import Record
from asterism.runtime.ports import Commit, RunRow


def check_submission(row: RunRow, first: Record) -> None:
    """The first record is of this run and has seq 1."""
    if first.run != row.run or first.seq != 1:
        raise ValueError(f"run {row.run}: its first record is {first.run}#{first.seq}, not {row.run}#1")


def check_commit(commit: Commit) -> None:
    """The records are of this run and go on from ``expected_seq`` without gaps; so are the inquiries."""
    for seq, record in enumerate(commit.records, commit.expected_seq + 1):
        if record.seq != seq or record.run != commit.run:
            raise ValueError(f"run {commit.run}: a commit has record {record.run}#{record.seq} where {commit.run}#{seq} belongs")
    for inquiry in commit.opened:
        if inquiry.run != commit.run:
            raise ValueError(f"run {commit.run}: a commit opens inquiry {inquiry.inquiry} of run {inquiry.run}")
