"""Constellations in Python: submit a plan file or a request, and ask for more when its run has ended.

    from asterism import constellations

    async with asterism.open("runs.db", fleet="fleet.toml") as runtime:
        run = await constellations.submit(runtime, "plan.json")
        row = await runtime.drive(run)

``goal`` has a request or a plan, and its rehearsal. ``rounds`` submits the runs of a session. ``resumption`` finds the
fleet and model to resume a run with. ``performers`` carry out the effects of constellation agents.
"""

from __future__ import annotations

from asterism.constellations.goal import Goal as Goal
from asterism.constellations.rounds import Round as Round
from asterism.constellations.rounds import follow as follow
from asterism.constellations.rounds import submit as submit
from asterism.machines.constellation_agent.events import RunOptions as RunOptions
