"""Orchestration loops in Python: a supervisor that plans and reflects, and workers, as plain async functions or models.

    from asterism.loops import OrchestrationLoop, Step

    loop = OrchestrationLoop(plan=plan, workers={"research": research, "write": write}, reflect=reflect)
    ended = await loop.run("what does a tide table say?")

``definition`` the loop · ``worker`` what carries out a step · ``outcome`` what comes back ·
``source`` where definitions are found again · ``performers`` how effects are carried out ·
``tool``, ``server`` what a model may call · ``scope`` within what ·
``conversation`` what is said to it · ``models`` models as supervisors · ``resources`` what stays open · ``toml`` a loop without Python ·
``device`` a loop as a device · ``resumption`` whether the loops of a run can be found again.
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
