from __future__ import annotations

from asterism.engine.kernel.diagram import mermaid
from asterism.engine.kernel.machine import Event, Row, row
from tests.support.kettle_machine import KETTLE, TABLE, Boiled, Kettle, Lift, Stopped, lift, make_kettle, settled

Rows = dict[type[Event], Row]


def test_a_table_is_drawn_without_its_internal_rows() -> None:
    assert mermaid(KETTLE) == (
        "stateDiagram-v2\n"
        "    [*] --> COLD\n"
        "    COLD --> HEATING: press\n"
        "    HEATING --> COLD: lift\n"
        "    HEATING --> HOT: boiled\n"
        "    HOT --> [*]\n"
    )


def test_events_with_one_target_share_an_arrow() -> None:
    heating: Rows = {**TABLE[Kettle.HEATING], Lift: row(lift, Kettle.COLD), Stopped: row(settled, Kettle.COLD)}
    assert "    HEATING --> COLD: lift, stopped\n" in mermaid(make_kettle(table={**TABLE, Kettle.HEATING: heating}))


def test_a_drawing_is_the_same_every_time() -> None:
    heating: Rows = {**TABLE[Kettle.HEATING], Boiled: row(settled, Kettle.HOT, Kettle.COLD)}
    assert len({mermaid(make_kettle(table={**TABLE, Kettle.HEATING: heating})) for _ in range(20)}) == 1
