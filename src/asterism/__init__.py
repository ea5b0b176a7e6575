"""Asterism runs constellations (DAGs of tasks over devices), loops and conversations, and survives being killed.

The house, from the ground up, in the order to read it; imports point down (``.importlinter``):

    errors                                what a user can be told
    kernel                                pure: what a machine is, what a journal is
    constellation                         pure: the model, the graph, conditions, the seven edits
    machines                              pure: the tables, and the wiring between them
    runtime                               the ports, and the driver: the only loop that moves runs
    planner, devices, stores, telemetry   the adapters, which do not know each other
    views                                 pure: what a journal shows, as rows and lines of text
    constellations, loops, flows          each form of work in Python, and how its effects are carried out
    simulation, servers                   the same machines in a world of virtual time and seeded faults; the editor for MCP clients
    settings, bootstrap, cli              what was asked for, the one place that knows every class, the command
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names for type checkers; a test compares the two lists
    from asterism.bootstrap import connect as connect
    from asterism.bootstrap import open as open  # noqa: A004 - `asterism.open()` is its name
    from asterism.constellation.profile import AgentProfile as AgentProfile
    from asterism.constellation.task import TaskStar as TaskStar
    from asterism.devices.skill import SkillContext as SkillContext
    from asterism.devices.skill import skill as skill
    from asterism.errors import AsterismError as AsterismError
    from asterism.errors import IllegalTransition as IllegalTransition
    from asterism.errors import InvalidInput as InvalidInput
    from asterism.runtime.registration import Registration as Registration

_HOME_OF = {
    "AgentProfile": "asterism.constellation.profile",
    "AsterismError": "asterism.errors",
    "IllegalTransition": "asterism.errors",
    "InvalidInput": "asterism.errors",
    "Registration": "asterism.runtime.registration",
    "SkillContext": "asterism.devices.skill",
    "TaskStar": "asterism.constellation.task",
    "connect": "asterism.bootstrap",
    "open": "asterism.bootstrap",
    "skill": "asterism.devices.skill",
}
"""Public name -> the module it lives in, imported when the name is first asked for."""


def __getattr__(name: str) -> object:
    """Resolve a public name and keep it.

    Raises:
        AttributeError: it is no public name.
    """
    if name not in _HOME_OF:
        raise AttributeError(f"module 'asterism' has no public name {name!r}; it has {', '.join(sorted(_HOME_OF))}")
    found: object = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found
