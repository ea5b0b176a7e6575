"""The notices of the store in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from asterism.engine.ports.notices import REMOVED_AT_ONCE, STUCK_TRIES, Delivery, Notice, NoticeKind
from asterism.engine.ports.store import InquiryRow, RunRow


class NoticeMemory:
    """The notices and deliveries that all handles share."""

    def __init__(self) -> None:
        self.notices: dict[int, Notice] = {}
        self.unrouted: dict[int, None] = {}
        self.deliveries: dict[tuple[int, str], Delivery] = {}
        self.number = 0

    def add(self, notice: Notice) -> None:
        """Add a notice under the next number."""
        self.number += 1
        self.notices[self.number] = msgspec.structs.replace(notice, number=self.number)
        self.unrouted[self.number] = None

    def note(self, row: RunRow, opened: Sequence[InquiryRow], *, failed: bool) -> None:
        """Note the questions that a commit opens, and the failure of a run without a parent."""
        facts: list[tuple[NoticeKind, str, float]] = [("question", it.inquiry_id, it.asked_at) for it in opened]
        facts += [("failed", "", row.updated_at)] if failed and row.root == row.run_id else []
        for kind, subject, at in facts:
            self.add(Notice(kind=kind, tenant=row.tenant, run_id=row.run_id, subject=subject, at=at))

    def note_stuck(self, row: RunRow, problem: str) -> None:
        """Note that a run was released with a problem, if it has had as many in a row."""
        if problem and row.tries == STUCK_TRIES and row.root == row.run_id:
            self.add(Notice(kind="stuck", tenant=row.tenant, run_id=row.run_id, text=problem, at=row.due_at or 0.0))

    def remove(self, wanted: Callable[[Notice], bool]) -> None:
        """Remove notices with their deliveries."""
        gone = {number for number, it in self.notices.items() if wanted(it)}
        for number in gone:
            del self.notices[number]
            self.unrouted.pop(number, None)
        self.deliveries = {key: it for key, it in self.deliveries.items() if it.notice not in gone}


class MemoryNotices:
    """The part of ``MemoryStore`` that holds notices."""

    _begin: Callable[..., Awaitable[None]]
    _noted: NoticeMemory

    async def add_notice(self, notice: Notice) -> None:
        await self._begin("notice")
        self._noted.add(notice)

    async def unrouted_notices(self, *, limit: int = 100) -> list[Notice]:
        await self._begin()
        return [self._noted.notices[number] for number in list(self._noted.unrouted)[:limit]]

    async def route_notice(self, number: int, deliveries: Sequence[Delivery]) -> None:
        await self._begin("notice")
        if number in self._noted.unrouted:
            del self._noted.unrouted[number]
            self._noted.deliveries.update({(it.notice, it.channel): it for it in deliveries})

    async def deliveries(self, *, due_by: float, limit: int = 100) -> list[tuple[Notice, Delivery]]:
        await self._begin()
        due = [it for _, it in sorted(self._noted.deliveries.items()) if it.status in ("waiting", "sending") and it.next_at <= due_by]
        return [(self._noted.notices[it.notice], it) for it in due[:limit]]

    async def replace_delivery(self, row: Delivery, *, before: Delivery) -> bool:
        await self._begin("notice")
        key = (row.notice, row.channel)
        if self._noted.deliveries.get(key) != before:
            return False
        self._noted.deliveries[key] = row
        return True

    async def remove_notices(self, *, before: float) -> None:
        await self._begin("notice")
        old = set(sorted(number for number, it in self._noted.notices.items() if it.at < before)[:REMOVED_AT_ONCE])
        self._noted.remove(lambda notice: notice.number in old)
