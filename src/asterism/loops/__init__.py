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

from asterism.loops.definition import OrchestrationLoop as OrchestrationLoop
from asterism.loops.definition import resume as resume
from asterism.loops.outcome import LoopResult as LoopResult
from asterism.loops.outcome import Transition as Transition
from asterism.loops.scope import within as within
from asterism.loops.server import McpServer as McpServer
from asterism.loops.tool import tool as tool
from asterism.loops.worker import ChildWorker as ChildWorker
from asterism.loops.worker import ModelWorker as ModelWorker
from asterism.loops.worker import Worker as Worker
from asterism.loops.worker import constellation as constellation
from asterism.machines.orchestration_loop.model import Decision as Decision
from asterism.machines.orchestration_loop.model import Finding as Finding
from asterism.machines.orchestration_loop.model import Handoff as Handoff
from asterism.machines.orchestration_loop.model import Later as Later
from asterism.machines.orchestration_loop.model import LoopOptions as LoopOptions
from asterism.machines.orchestration_loop.model import State as State
from asterism.machines.orchestration_loop.model import Step as Step
from asterism.machines.orchestration_loop.model import Strategy as Strategy
from asterism.machines.orchestration_loop.table import TRANSITIONS as TRANSITIONS
from asterism.machines.orchestration_loop.view import LoopView as LoopView
from asterism.machines.orchestration_loop.view import Signals as Signals
