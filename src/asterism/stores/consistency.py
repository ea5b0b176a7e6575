"""Checks that every store makes before it writes: the caller's mistakes, each a ``ValueError``."""

from __future__ import annotations

from collections.abc import Sequence

from asterism.kernel.journal import Record
from asterism.runtime.ports.store import InquiryRow


def check_rows(run_id: str, records: Sequence[Record], first_seq: int, opened: Sequence[InquiryRow]) -> None:
    """Check that the records and inquiries are of this run, and seqs go from the first without gaps."""
    for seq, record in enumerate(records, first_seq):
        if record.seq != seq or record.run_id != run_id:
            raise ValueError(f"run {run_id}: there is record {record.run_id}#{record.seq} where {run_id}#{seq} belongs")
    for inquiry in opened:
        if inquiry.run_id != run_id:
            raise ValueError(f"run {run_id}: it opens inquiry {inquiry.inquiry_id} of run {inquiry.run_id}")
