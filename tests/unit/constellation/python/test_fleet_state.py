"""The state of the devices of a fleet."""

from __future__ import annotations

import asyncio

from asterism.constellation.python.fleet_state import RunsKnowledge, answers_of, states_of
from asterism.devices.dispatch.places import Drain
from asterism.devices.fleet.fleet_file import DeviceEntry
from asterism.devices.kinds.local import CommandEntry
from asterism.devices.kinds.ssh.device import SshEntry
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.testing.device import FakeDevice, PerformanceLog
from asterism.testing.loop import run
from asterism.views.text.fleet import DeviceState, fleet_lines

NOW = 10_000.0
LAPTOP = DeviceEntry(id="laptop", concurrency=2)
LAB = SshEntry(id="lab", kind="ssh", host="lab", commands=(CommandEntry(name="ls", argv=("ls",)),))


class Far(FakeDevice):
    """A device that answers after a time, or says why it cannot be reached."""

    def __init__(self, name: str, after_s: float, why: str = "") -> None:
        super().__init__(AgentProfile(device_id=name, skills=(Skill(name="dig"),)), PerformanceLog(lambda: 0.0))
        self._after_s, self._why = after_s, why

    async def reach(self) -> str:
        await asyncio.sleep(self._after_s)
        return self._why


def test_all_devices_are_asked_at_once_and_each_has_20_seconds() -> None:
    """D13: one that took longer than 5 s was shown as lost, although ``fleet check`` and a run waited for it."""

    async def whole() -> None:
        devices = {name: Far(name, after_s, why) for name, after_s, why in (("a", 19, ""), ("b", 4, "no route"), ("c", 100, ""))}
        assert await answers_of(devices) == {"a": "", "b": "no route", "c": "it has not answered within 20 s"}
        assert asyncio.get_running_loop().time() == 20

    run(whole())


def state(answer: str | None, known: RunsKnowledge) -> DeviceState:
    """Return the state of the lab; its answer is None if nobody has connected to it."""
    devices = None if answer is None else {"lab": Far("lab", 0)}
    (found,) = states_of([LAB], devices, {} if answer is None else {"lab": answer}, known, NOW)
    return found


def test_the_health_of_a_device_is_its_answer_else_what_a_run_knows() -> None:
    nothing = RunsKnowledge()
    lost = RunsKnowledge(lost={"lab": "no route"}, lost_at={"lab": 9000.0}, seen={"lab": 8000.0})
    flapping = RunsKnowledge(lost={"lab": "too often"}, lost_at={"lab": 9000.0})
    flapping.losses["lab"] = 5
    assert (state("", nothing).health, state("", nothing).skills, state("", nothing).last_seen) == ("ok", ("dig",), NOW)
    assert (state(None, nothing).health, state(None, nothing).skills) == ("unknown", ("ls",))
    refused = state("no route", lost)
    assert (refused.health, refused.reason, refused.since, refused.last_seen) == ("lost", "no route", 9000.0, 8000.0)
    assert (state(None, lost).health, state(None, lost).reason) == ("lost", "no route")
    assert state("", lost).health == "ok"
    assert (state("", flapping).health, state("", flapping).reason) == ("quarantined", "too often")
    draining = RunsKnowledge(draining={"lab": Drain(by="ada@admin", at=NOW)})
    assert (state("", draining).health, "set by ada@admin" in state("", draining).reason) == ("draining", True)


def test_the_list_fits_80_columns_but_for_the_skills() -> None:
    states = [
        DeviceState(
            device="a-device-with-a-very-long-name",
            kind="local",
            health="quarantined",
            reason="it was lost",
            since=NOW - 7300,
            last_seen=NOW - 172_801,
            running=12,
            queued=345,
            limit=64,
            skills=("dig",),
        ),
        DeviceState(device="clerk", kind="agent", health="ok", last_seen=NOW, skills=()),
        DeviceState(device="lab", kind="ssh", health="unknown", last_seen=NOW - 59, limit=1, skills=None),
    ]
    assert [str(line) for line in fleet_lines(states, NOW)] == [
        "DEVICE                KIND   HEALTH       LOAD           SEEN      SKILLS",
        "a-device-with-a-ver…  local  quarantined  12 of 64 +345  2 d ago   dig",
        "  it was lost (for 2 h)",
        "clerk                 agent  ok           0              now",
        "lab                   ssh    unknown      0 of 1         59 s ago  ?",
    ]
