"""What `asterism show` says about the guards of a run."""

from __future__ import annotations

from asterism.engine.kernel.guards import DeviceGuards, Guards, SkillGuard
from asterism.views.text.show import guard_lines


def test_the_guards_of_a_run_are_listed_by_who_has_set_them() -> None:
    """A1: what takes an approval is seen before it is asked."""
    guards = Guards(
        devices={
            "vault": DeviceGuards(every=SkillGuard(approval=True)),
            "box": DeviceGuards(skills={"wipe": SkillGuard(approval=True), "tar": SkillGuard(no_options=("*",))}),
        },
        plan_skills=("deploy",),
        plan_devices=("agent",),
        lifted=("send",),
        submitter_may_approve=False,
    )
    assert list(guard_lines(guards)) == [
        "approval by the fleet: vault, box/wipe",
        "approval by the plan: deploy, agent",
        "lifted: send",
        "its submitter may not approve",
    ]
    assert list(guard_lines(Guards())) == []
