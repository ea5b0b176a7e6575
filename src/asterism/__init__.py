"""Asterism, a durable workflow engine: DAGs of tasks across devices, agent loops, conversations.

A run is a state machine that writes each event into a journal, from which it continues after a
crash. The rooms in reading order; ``.importlinter`` has the direction of their imports:

    errors              errors that users see
    engine              machines and journals (pure: kernel, control), ports, client and driver
    words               English without a model: requests, replies, plans
    constellation       DAGs of tasks: model, machine, planner, view, Python API
    loop, conversation  the other two forms of runs: machine, view, Python API
    views               pure: a journal as rows and lines for display
    devices, stores     what performs attempts, and what stores journals
    console, service    the pages of a server, and its API, tokens, schedules, notices, telemetry
    testing             runs in virtual time, with seeded faults
    app, cli            configuration and assembly, and the commands

The public names of all packages are available here, for example ``asterism.OrchestrationLoop``.
Each is imported on first use, so ``import asterism`` itself is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names for type checkers; a test compares the two lists
    from asterism.app.bootstrap import open as open  # noqa: A004 - `asterism.open()` is its name
    from asterism.app.bootstrap import run as run
    from asterism.app.connect import connect as connect
    from asterism.constellation.machine.events import ConstellationAgentStatus as ConstellationAgentStatus
    from asterism.constellation.machine.events import RunOptions as RunOptions
    from asterism.constellation.machine.events import WeavingMode as WeavingMode
    from asterism.constellation.machine.table import ConstellationAgent as ConstellationAgent
    from asterism.constellation.model.constellation import TaskConstellation as TaskConstellation
    from asterism.constellation.model.line import TaskStarLine as TaskStarLine
    from asterism.constellation.model.parameters import Param as Param
    from asterism.constellation.model.task import RetryPolicy as RetryPolicy
    from asterism.constellation.model.task import TaskStar as TaskStar
    from asterism.constellation.planner.processor import ConstellationAgentProcessor as ConstellationAgentProcessor
    from asterism.constellation.planner.processor import ConstellationProcessorContext as ConstellationProcessorContext
    from asterism.constellation.planner.processor import ConstellationStrategyFactory as ConstellationStrategyFactory
    from asterism.constellation.planner.processor import ContextNames as ContextNames
    from asterism.constellation.planner.processor import ProcessingPhase as ProcessingPhase
    from asterism.constellation.planner.processor import ProcessingResult as ProcessingResult
    from asterism.constellation.planner.processor import depends_on as depends_on
    from asterism.constellation.planner.processor import provides as provides
    from asterism.constellation.planner.prompter import ConstellationPrompterFactory as ConstellationPrompterFactory
    from asterism.constellation.planner.reply import ConstellationAgentResponse as ConstellationAgentResponse
    from asterism.constellation.python.app import App as App
    from asterism.constellation.python.definition import Constellation as Constellation
    from asterism.constellation.python.definition import each as each
    from asterism.constellation.python.goal import Goal as Goal
    from asterism.constellation.python.handle import RunHandle as RunHandle
    from asterism.constellation.python.handle import RunResult as RunResult
    from asterism.constellation.python.reference import Task as Task
    from asterism.constellation.python.rounds import Round as Round
    from asterism.constellation.python.rounds import follow as follow
    from asterism.constellation.python.rounds import submit as submit
    from asterism.conversation.machine.events import STATE_TRANSITIONS as STATE_TRANSITIONS
    from asterism.conversation.machine.events import AgentStatus as AgentStatus
    from asterism.conversation.machine.events import Message as Message
    from asterism.conversation.python.agent import StandardAgent as StandardAgent
    from asterism.conversation.python.agent import flowagent as flowagent
    from asterism.conversation.python.agent_state import AgentResult as AgentResult
    from asterism.conversation.python.conversation import Conversation as Conversation
    from asterism.conversation.python.fields import InputField as InputField
    from asterism.conversation.python.fields import OutputField as OutputField
    from asterism.conversation.python.orchestrator import Orchestrator as Orchestrator
    from asterism.devices.attempts.attempt_files import read_text as read_text
    from asterism.devices.fleet.python_fleet import Device as Device
    from asterism.devices.fleet.python_fleet import Fleet as Fleet
    from asterism.devices.skills.skill import File as File
    from asterism.devices.skills.skill import SkillContext as SkillContext
    from asterism.devices.skills.skill import skill as skill
    from asterism.engine.kernel.profile import AgentProfile as AgentProfile
    from asterism.engine.runtime.client import Client as Client
    from asterism.engine.runtime.form import Form as Form
    from asterism.engine.runtime.runtime import Runtime as Runtime
    from asterism.errors import AsterismError as AsterismError
    from asterism.errors import IllegalTransition as IllegalTransition
    from asterism.errors import Interrupted as Interrupted
    from asterism.errors import InvalidInput as InvalidInput
    from asterism.errors import LimitReached as LimitReached
    from asterism.errors import MissingExtra as MissingExtra
    from asterism.errors import Refused as Refused
    from asterism.errors import RunFailed as RunFailed
    from asterism.errors import RunNotFound as RunNotFound
    from asterism.loop.machine.model import Finding as Finding
    from asterism.loop.machine.model import Handoff as Handoff
    from asterism.loop.machine.model import LoopOptions as LoopOptions
    from asterism.loop.machine.model import State as State
    from asterism.loop.machine.model import Step as Step
    from asterism.loop.machine.table import TRANSITIONS as TRANSITIONS
    from asterism.loop.python.definition import OrchestrationLoop as OrchestrationLoop
    from asterism.loop.python.outcome import LoopResult as LoopResult
    from asterism.service.remote_app import Followed as Followed
    from asterism.service.remote_app import RemoteApp as RemoteApp
    from asterism.service.remote_app import RemoteRun as RemoteRun
    from asterism.service.remote_app import RemoteSchedule as RemoteSchedule
    from asterism.service.remote_conversation import RemoteConversation as RemoteConversation

_PUBLIC = {
    "asterism.app.bootstrap": ("open", "run"),
    "asterism.app.connect": ("connect",),
    "asterism.constellation.model.constellation": ("TaskConstellation",),
    "asterism.constellation.model.line": ("TaskStarLine",),
    "asterism.constellation.model.parameters": ("Param",),
    "asterism.engine.kernel.profile": ("AgentProfile",),
    "asterism.constellation.model.task": ("RetryPolicy", "TaskStar"),
    "asterism.constellation.python.app": ("App",),
    "asterism.constellation.python.definition": ("Constellation", "each"),
    "asterism.constellation.python.goal": ("Goal",),
    "asterism.constellation.python.handle": ("RunHandle", "RunResult"),
    "asterism.constellation.python.reference": ("Task",),
    "asterism.constellation.python.rounds": ("Round", "follow", "submit"),
    "asterism.devices.attempts.attempt_files": ("read_text",),
    "asterism.devices.fleet.python_fleet": ("Device", "Fleet"),
    "asterism.devices.skills.skill": ("File", "SkillContext", "skill"),
    "asterism.errors": (
        "AsterismError",
        "IllegalTransition",
        "Interrupted",
        "InvalidInput",
        "LimitReached",
        "MissingExtra",
        "Refused",
        "RunFailed",
        "RunNotFound",
    ),
    "asterism.conversation.python.agent": ("StandardAgent", "flowagent"),
    "asterism.conversation.python.agent_state": ("AgentResult",),
    "asterism.conversation.python.conversation": ("Conversation",),
    "asterism.conversation.python.fields": ("InputField", "OutputField"),
    "asterism.conversation.python.orchestrator": ("Orchestrator",),
    "asterism.loop.python.definition": ("OrchestrationLoop",),
    "asterism.loop.python.outcome": ("LoopResult",),
    "asterism.constellation.machine.events": ("ConstellationAgentStatus", "RunOptions", "WeavingMode"),
    "asterism.constellation.machine.table": ("ConstellationAgent",),
    "asterism.conversation.machine.events": ("STATE_TRANSITIONS", "AgentStatus", "Message"),
    "asterism.loop.machine.model": ("Finding", "Handoff", "LoopOptions", "State", "Step"),
    "asterism.loop.machine.table": ("TRANSITIONS",),
    "asterism.constellation.planner.processor": (
        "ConstellationAgentProcessor",
        "ConstellationProcessorContext",
        "ConstellationStrategyFactory",
        "ContextNames",
        "ProcessingPhase",
        "ProcessingResult",
        "depends_on",
        "provides",
    ),
    "asterism.constellation.planner.prompter": ("ConstellationPrompterFactory",),
    "asterism.constellation.planner.reply": ("ConstellationAgentResponse",),
    "asterism.engine.runtime.client": ("Client",),
    "asterism.engine.runtime.form": ("Form",),
    "asterism.engine.runtime.runtime": ("Runtime",),
    "asterism.service.remote_app": ("Followed", "RemoteApp", "RemoteRun", "RemoteSchedule"),
    "asterism.service.remote_conversation": ("RemoteConversation",),
}
_HOME_OF = {name: home for home, names in _PUBLIC.items() for name in names}
"""Public name -> the module that defines it, which is imported on first use of the name."""
_EXTRA_OF = {"httpx2": "client", "pydantic_ai": "llm"}
"""Package that a public name may need -> the extra that installs it."""


def __getattr__(name: str) -> object:
    """Return a public name after importing the module that defines it.

    Raises:
        AttributeError: there is no such public name.
        MissingExtra: the name needs an extra that is not installed.
    """
    if name not in _HOME_OF:
        raise AttributeError(f"module 'asterism' has no public name {name!r}; it has {', '.join(sorted(_HOME_OF))}")
    try:
        found: object = getattr(importlib.import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        extra = _EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise importlib.import_module("asterism.errors").MissingExtra(extra, f"asterism.{name}") from None
    globals()[name] = found
    return found
