"""Constellations in Python: define one, run it, and reach it by its id.

    import asterism
    from asterism import Constellation

    nightly = Constellation("nightly")
    files = nightly.task(download, url="https://…")
    nightly.task(publish, first=files[0])

    async with asterism.open() as app:
        ended = await app.run(nightly)

``definition`` has constellations as programs define them, with their fan-out, and ``reference`` their values. ``app``
runs them, ``program`` runs one as the work of a program, and ``handle`` reaches a run by its id. ``goal`` has a request
or a plan, and its rehearsal, and ``early_check`` a check without the devices; ``fleet_state`` shows the devices of a
fleet. ``rounds`` submits the runs of a session. ``resumption`` finds the fleet and model to resume a run with, and copies
an ended run to retry it. ``scheduled`` submits the runs of schedules, and ``goal_process`` reads a constellation in a
process of its own. ``own_secrets`` has the secrets of Asterism itself, and what processes inherit. ``performers`` carry
out the effects of constellation agents.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asterism.constellation.machine.events import RunOptions as RunOptions
    from asterism.constellation.python.definition import Constellation as Constellation
    from asterism.constellation.python.definition import each as each
    from asterism.constellation.python.goal import Goal as Goal
    from asterism.constellation.python.handle import RunHandle as RunHandle
    from asterism.constellation.python.handle import RunResult as RunResult
    from asterism.constellation.python.reference import Task as Task
    from asterism.constellation.python.rounds import Round as Round
    from asterism.constellation.python.rounds import follow as follow
    from asterism.constellation.python.rounds import submit as submit

_HOME_OF = {
    "Constellation": "asterism.constellation.python.definition",
    "Goal": "asterism.constellation.python.goal",
    "Round": "asterism.constellation.python.rounds",
    "RunHandle": "asterism.constellation.python.handle",
    "RunOptions": "asterism.constellation.machine.events",
    "RunResult": "asterism.constellation.python.handle",
    "Task": "asterism.constellation.python.reference",
    "each": "asterism.constellation.python.definition",
    "follow": "asterism.constellation.python.rounds",
    "submit": "asterism.constellation.python.rounds",
}


def __getattr__(name: str) -> object:
    """Return a public name after importing its module: a process that resumes a run needs the performers only."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no public name {name!r}; it has {', '.join(_HOME_OF)}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
