"""Orchestration loops in Python: a supervisor that plans and reflects, and workers.

Supervisor and workers are async functions or models.

    from asterism.loops import OrchestrationLoop, Step

    workers = {"research": research, "write": write}
    loop = OrchestrationLoop(plan=plan, workers=workers, reflect=reflect)
    ended = await loop.run("what does a tide table say?")

- ``definition`` the loop; ``outcome`` its results; ``worker`` the kinds of workers
- ``tool``, ``server``, ``scope`` the tools of a model, and their limits
- ``models`` models as supervisors; ``conversation`` a worker's conversation with its model
- ``performers`` the effects; ``resources`` their connections; ``source`` finding definitions again
- ``toml`` a loop without Python; ``device`` a loop as a device
- ``resumption`` a check before resuming a run
"""

from __future__ import annotations

from asterism.loops.definition import OrchestrationLoop, resume
from asterism.loops.outcome import LoopResult, Transition
from asterism.loops.scope import within
from asterism.loops.server import McpServer
from asterism.loops.tool import tool
from asterism.loops.worker import ChildWorker, ModelWorker, Worker, constellation
from asterism.machines.orchestration_loop.model import Decision, Finding, Handoff, Later, LoopOptions, State, Step, Strategy
from asterism.machines.orchestration_loop.table import TRANSITIONS
from asterism.machines.orchestration_loop.view import LoopView, Signals

__all__ = [
    "TRANSITIONS",
    "ChildWorker",
    "Decision",
    "Finding",
    "Handoff",
    "Later",
    "LoopOptions",
    "LoopResult",
    "LoopView",
    "McpServer",
    "ModelWorker",
    "OrchestrationLoop",
    "Signals",
    "State",
    "Step",
    "Strategy",
    "Transition",
    "Worker",
    "constellation",
    "resume",
    "tool",
    "within",
]
