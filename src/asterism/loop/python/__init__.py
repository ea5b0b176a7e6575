"""Orchestration loops in Python: a supervisor that plans and reflects, and workers.

Supervisor and workers are async functions or models.

    from asterism.loop.python import OrchestrationLoop, Step

    workers = {"research": research, "write": write}
    loop = OrchestrationLoop(plan=plan, workers=workers, reflect=reflect)
    ended = await loop.run("what does a tide table say?")

- ``definition`` the loop, also as a device; ``outcome`` its results; ``worker`` the kinds of workers
- ``tool``, ``server`` the tools of a model, and their limits
- ``models`` models as supervisors; ``conversation`` a worker's conversation with its model
- ``performers`` the effects; ``resources`` their connections; ``source`` finding definitions again
- ``toml`` a loop without Python
"""

from __future__ import annotations

from asterism.loop.machine.model import Decision as Decision
from asterism.loop.machine.model import Finding as Finding
from asterism.loop.machine.model import Handoff as Handoff
from asterism.loop.machine.model import Later as Later
from asterism.loop.machine.model import LoopOptions as LoopOptions
from asterism.loop.machine.model import State as State
from asterism.loop.machine.model import Step as Step
from asterism.loop.machine.model import Strategy as Strategy
from asterism.loop.machine.table import TRANSITIONS as TRANSITIONS
from asterism.loop.machine.view import LoopView as LoopView
from asterism.loop.machine.view import Signals as Signals
from asterism.loop.python.definition import OrchestrationLoop as OrchestrationLoop
from asterism.loop.python.definition import resume as resume
from asterism.loop.python.outcome import LoopResult as LoopResult
from asterism.loop.python.outcome import Transition as Transition
from asterism.loop.python.server import McpServer as McpServer
from asterism.loop.python.tool import tool as tool
from asterism.loop.python.tool import within as within
from asterism.loop.python.worker import ChildWorker as ChildWorker
from asterism.loop.python.worker import ModelWorker as ModelWorker
from asterism.loop.python.worker import Worker as Worker
from asterism.loop.python.worker import constellation as constellation
