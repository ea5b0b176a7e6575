"""The lines of status: what is not listed, and why a due run is not driven."""

from __future__ import annotations

from asterism.cli.status_command import lines_of
from asterism.engine.ports.store import ProcessRow, RunRow, WorkSummary
from asterism.engine.runtime.database_status import DatabaseStatus, DueSchedule


def texts(found: DatabaseStatus) -> list[str]:
    return [str(line).rstrip() for line in lines_of(found)]


def row(run_id: str, fleet: str = "") -> RunRow:
    return RunRow(run_id=run_id, machine="constellation_agent", title=run_id, state="START", root=run_id, fleet=fleet)


def test_a_due_run_names_the_fleet_that_no_server_serves_and_runs_that_are_not_listed_are_counted() -> None:
    lines = texts(
        DatabaseStatus(
            at=0.0,
            processes=[ProcessRow(description="process 1", serves=True, fleet="lab")],
            work=WorkSummary(counts={"due": 2, "waiting": 4}),
            runs={"due": [row("r1", "/home/me/fleet.toml"), row("r2", "lab")], "waiting": [row("r3"), row("r4"), row("r5")]},
            schedules=[DueSchedule(tenant="", name="nightly", next_at=0.0, problem="a.py: there is no such file")],
        )
    )
    needs = [it for it in lines if "no server serves" in it]
    assert needs == ["          no server serves its fleet, /home/me/fleet.toml; use: asterism serve --fleet FILE"]
    assert lines[lines.index(needs[0]) - 1].startswith("due       r1")
    assert [it.strip() for it in lines if " more" in it] == ["and 1 more"]
    assert lines[-1].strip() == "last run not started: a.py: there is no such file"
