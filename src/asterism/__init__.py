"""Asterism runs durable constellations (DAGs of tasks over devices), loops and conversations.

The packages, from the bottom up, in reading order; imports point down (``.importlinter``):

    errors                                errors with messages for users
    kernel                                pure: machines and journals
    constellation                         pure: the model, the graph, conditions, the seven edits
    machines                              pure: the state tables, and the coupling between them
    runtime                               the ports, and the driver: the only loop of runs
    planner, devices, stores, telemetry   the adapters, which do not depend on each other
    views                                 pure: a journal as rows and lines of text
    constellations, loops, flows          each form of work in Python, with its performers
    simulation                            the machines in a simulated world of virtual time and faults
    settings, bootstrap, cli              settings, the composition root, the command
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
    """Return a public name, and set it on the module.

    Raises:
        AttributeError: not a public name.
    """
    if name not in _HOME_OF:
        raise AttributeError(f"module 'asterism' has no public name {name!r}; it has {', '.join(sorted(_HOME_OF))}")
    found: object = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found
