"""What a schedule does at a due time: overlaps, downtimes, pauses."""

from __future__ import annotations

import msgspec
import pytest

from asterism.engine.ports.schedules import Firing, Schedule
from asterism.errors import InvalidInput
from asterism.service.schedules.firing import check_schedule, fired, resumed, started
from tests.unit.service.schedules.test_cron import at, text

HOURLY = Schedule(name="hourly", cron="0 * * * *", zone="Europe/Berlin", what="a.yaml", next_at=at("2026-11-23 02:00"), created_at=1.0)


def outcomes(firings: list[Firing]) -> list[tuple[str, str]]:
    return [(text(it.due_at)[11:16], it.status) for it in firings]


def test_nothing_happens_before_the_time() -> None:
    assert fired(HOURLY, HOURLY.next_at - 0.1) == (HOURLY, [])


def test_a_due_time_starts_a_run_whose_id_follows_from_it() -> None:
    after, (firing,) = fired(HOURLY, HOURLY.next_at + 0.3)
    assert firing == started(HOURLY, HOURLY.next_at)
    assert firing.status == "due"
    assert firing.run_id.startswith("hourly-20261123T0100-")
    assert text(after.next_at) == "2026-11-23 03:00+01:00"
    assert firing.run_id != started(msgspec.structs.replace(HOURLY, tenant="b"), HOURLY.next_at).run_id
    assert firing.run_id != started(msgspec.structs.replace(HOURLY, created_at=2.0), HOURLY.next_at).run_id


def test_a_run_that_has_not_ended_is_not_overlapped_unless_that_is_allowed() -> None:
    after, (firing,) = fired(HOURLY, HOURLY.next_at, unfinished="r1")
    assert (firing.status, firing.reason, firing.run_id) == ("skipped", "run r1 had not ended", "")
    assert text(after.next_at) == "2026-11-23 03:00+01:00"
    _, (allowed,) = fired(msgspec.structs.replace(HOURLY, overlap="allow"), HOURLY.next_at, unfinished="r1")
    assert allowed.status == "due"


def test_after_a_downtime_one_run_starts_for_all_missed_times() -> None:
    after, firings = fired(HOURLY, at("2026-11-25 10:20"))
    assert outcomes(firings) == [("02:00", "skipped"), ("10:00", "due")]
    assert "missed: no server ran until 2026-11-25 09:20 UTC" in firings[0].reason
    assert text(after.next_at) == "2026-11-25 11:00+01:00"


def test_after_a_downtime_no_run_starts_where_missed_times_are_skipped() -> None:
    skipping = msgspec.structs.replace(HOURLY, missed="skip")
    _, firings = fired(skipping, at("2026-11-25 10:20"))
    assert outcomes(firings) == [("02:00", "skipped"), ("10:00", "skipped")]
    _, on_time = fired(skipping, at("2026-11-25 10:00") + 30)
    assert outcomes(on_time) == [("02:00", "skipped"), ("10:00", "due")]


def test_a_clock_that_is_set_back_fires_nothing_twice() -> None:
    after, _ = fired(HOURLY, HOURLY.next_at)
    assert fired(after, HOURLY.next_at - 1800) == (after, [])


def test_a_pause_is_not_made_up_for() -> None:
    paused = msgspec.structs.replace(HOURLY, paused=True)
    again = resumed(paused, at("2026-12-01 10:30"))
    assert not again.paused
    assert text(again.next_at) == "2026-12-01 11:00+01:00"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "a" * 41, "a\nb", "ä", "a.b"])
def test_a_name_that_cannot_be_part_of_the_ids_of_runs_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be the name of a schedule"):
        check_schedule(msgspec.structs.replace(HOURLY, name=name))


def test_a_schedule_for_one_time_starts_one_run_and_is_over() -> None:
    once = msgspec.structs.replace(HOURLY, cron="2026-11-23T02:00")
    after, (firing,) = fired(once, once.next_at + 0.3)
    assert (firing.status, after.paused) == ("due", True)
    with pytest.raises(InvalidInput, match="no date matches '2026-11-23T02:00' any more"):
        resumed(after, once.next_at + 1.0)
