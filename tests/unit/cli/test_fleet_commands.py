"""What the commands say about a device of a fleet."""

from __future__ import annotations

from asterism.cli.fleet_commands import device_lines
from asterism.engine.kernel.guards import DeviceGuards, SkillGuard
from asterism.engine.kernel.profile import AgentProfile, Skill


def test_a_guard_of_a_tool_that_the_device_does_not_offer_is_named() -> None:
    always = SkillGuard(approval=True)
    guards = DeviceGuards(skills={"shipp": always, "pay": always})
    profile = AgentProfile(device_id="shop", kind="mcp", skills=(Skill(name="ship"), Skill(name="pay")), guards=guards)
    assert str(device_lines(profile)[-1]) == "  guards of what it does not offer now: shipp"
