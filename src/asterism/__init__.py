"""Asterism, a durable workflow engine: DAGs of tasks across devices, agent loops, conversations.

A run is a state machine that writes each event into a journal, from which it continues after a
crash. The packages in reading order; imports point to earlier lines only (``.importlinter``):

    errors                                errors that users see
    language                              pure: English without a model
    reading                               values and wishes in a person's words
    kernel                                pure: state machines, runs, journals, snapshots
    constellation                         pure: DAGs of tasks, conditions, edits, checks
    machines                              pure: the tables of the machines, and their moves
    runtime                               the ports, and the driver that moves the runs
    planner, devices, stores, telemetry   the adapters, which do not import each other
    schedules, notifications              runs at their due times, and messages to people
    views                                 pure: a journal as rows and lines for display
    constellations, loops, flows          for each kind of run: its Python API, its performers
    servers                               tokens, the HTTP API, and its client
    simulation                            runs in virtual time, with seeded faults
    settings, bootstrap, connection, cli  configuration, assembly, clients, commands
    schemas                               JSON Schemas of the files that people write

The public names of all packages are available here, for example ``asterism.OrchestrationLoop``.
Each is imported on first use, so ``import asterism`` itself is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the same names for type checkers; a test compares the two lists
    from asterism.bootstrap import open as open  # noqa: A004 - `asterism.open()` is its name
    from asterism.bootstrap import run as run
    from asterism.connection import connect as connect
    from asterism.constellation.constellation import TaskConstellation as TaskConstellation
    from asterism.constellation.line import TaskStarLine as TaskStarLine
    from asterism.constellation.parameters import Param as Param
    from asterism.constellation.profile import AgentProfile as AgentProfile
    from asterism.constellation.task import RetryPolicy as RetryPolicy
    from asterism.constellation.task import TaskStar as TaskStar
    from asterism.constellations.app import App as App
    from asterism.constellations.definition import Constellation as Constellation
    from asterism.constellations.each import each as each
    from asterism.constellations.goal import Goal as Goal
    from asterism.constellations.handle import RunHandle as RunHandle
    from asterism.constellations.handle import RunResult as RunResult
    from asterism.constellations.reference import Task as Task
    from asterism.constellations.rounds import Round as Round
    from asterism.constellations.rounds import follow as follow
    from asterism.constellations.rounds import submit as submit
    from asterism.devices.file_text import read_text as read_text
    from asterism.devices.python_fleet import Device as Device
    from asterism.devices.python_fleet import Fleet as Fleet
    from asterism.devices.skill import File as File
    from asterism.devices.skill import SkillContext as SkillContext
    from asterism.devices.skill import skill as skill
    from asterism.errors import AsterismError as AsterismError
    from asterism.errors import IllegalTransition as IllegalTransition
    from asterism.errors import Interrupted as Interrupted
    from asterism.errors import InvalidInput as InvalidInput
    from asterism.errors import LimitReached as LimitReached
    from asterism.errors import MissingExtra as MissingExtra
    from asterism.errors import Refused as Refused
    from asterism.errors import RunFailed as RunFailed
    from asterism.errors import RunNotFound as RunNotFound
    from asterism.flows.agent import StandardAgent as StandardAgent
    from asterism.flows.agent import flowagent as flowagent
    from asterism.flows.agent_state import AgentResult as AgentResult
    from asterism.flows.conversation import Conversation as Conversation
    from asterism.flows.fields import InputField as InputField
    from asterism.flows.fields import OutputField as OutputField
    from asterism.flows.orchestrator import Orchestrator as Orchestrator
    from asterism.loops.definition import OrchestrationLoop as OrchestrationLoop
    from asterism.loops.outcome import LoopResult as LoopResult
    from asterism.machines.constellation_agent.events import ConstellationAgentStatus as ConstellationAgentStatus
    from asterism.machines.constellation_agent.events import RunOptions as RunOptions
    from asterism.machines.constellation_agent.events import WeavingMode as WeavingMode
    from asterism.machines.constellation_agent.table import ConstellationAgent as ConstellationAgent
    from asterism.machines.flow_agent.events import STATE_TRANSITIONS as STATE_TRANSITIONS
    from asterism.machines.flow_agent.events import AgentStatus as AgentStatus
    from asterism.machines.flow_agent.events import Message as Message
    from asterism.machines.orchestration_loop.model import Finding as Finding
    from asterism.machines.orchestration_loop.model import Handoff as Handoff
    from asterism.machines.orchestration_loop.model import LoopOptions as LoopOptions
    from asterism.machines.orchestration_loop.model import State as State
    from asterism.machines.orchestration_loop.model import Step as Step
    from asterism.machines.orchestration_loop.table import TRANSITIONS as TRANSITIONS
    from asterism.planner.phases import ConstellationProcessorContext as ConstellationProcessorContext
    from asterism.planner.phases import ConstellationStrategyFactory as ConstellationStrategyFactory
    from asterism.planner.phases import ContextNames as ContextNames
    from asterism.planner.phases import ProcessingPhase as ProcessingPhase
    from asterism.planner.phases import ProcessingResult as ProcessingResult
    from asterism.planner.phases import depends_on as depends_on
    from asterism.planner.phases import provides as provides
    from asterism.planner.processor import ConstellationAgentProcessor as ConstellationAgentProcessor
    from asterism.planner.prompter import ConstellationPrompterFactory as ConstellationPrompterFactory
    from asterism.planner.reply import ConstellationAgentResponse as ConstellationAgentResponse
    from asterism.runtime.client import Client as Client
    from asterism.runtime.registration import Registration as Registration
    from asterism.runtime.runtime import Runtime as Runtime
    from asterism.servers.remote_app import Followed as Followed
    from asterism.servers.remote_app import RemoteApp as RemoteApp
    from asterism.servers.remote_app import RemoteRun as RemoteRun
    from asterism.servers.remote_conversation import RemoteConversation as RemoteConversation
    from asterism.servers.remote_schedule import RemoteSchedule as RemoteSchedule

_PUBLIC = {
    "asterism.bootstrap": ("open", "run"),
    "asterism.connection": ("connect",),
    "asterism.constellation.constellation": ("TaskConstellation",),
    "asterism.constellation.line": ("TaskStarLine",),
    "asterism.constellation.parameters": ("Param",),
    "asterism.constellation.profile": ("AgentProfile",),
    "asterism.constellation.task": ("RetryPolicy", "TaskStar"),
    "asterism.constellations.app": ("App",),
    "asterism.constellations.definition": ("Constellation",),
    "asterism.constellations.each": ("each",),
    "asterism.constellations.goal": ("Goal",),
    "asterism.constellations.handle": ("RunHandle", "RunResult"),
    "asterism.constellations.reference": ("Task",),
    "asterism.constellations.rounds": ("Round", "follow", "submit"),
    "asterism.devices.file_text": ("read_text",),
    "asterism.devices.python_fleet": ("Device", "Fleet"),
    "asterism.devices.skill": ("File", "SkillContext", "skill"),
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
    "asterism.flows.agent": ("StandardAgent", "flowagent"),
    "asterism.flows.agent_state": ("AgentResult",),
    "asterism.flows.conversation": ("Conversation",),
    "asterism.flows.fields": ("InputField", "OutputField"),
    "asterism.flows.orchestrator": ("Orchestrator",),
    "asterism.loops.definition": ("OrchestrationLoop",),
    "asterism.loops.outcome": ("LoopResult",),
    "asterism.machines.constellation_agent.events": ("ConstellationAgentStatus", "RunOptions", "WeavingMode"),
    "asterism.machines.constellation_agent.table": ("ConstellationAgent",),
    "asterism.machines.flow_agent.events": ("STATE_TRANSITIONS", "AgentStatus", "Message"),
    "asterism.machines.orchestration_loop.model": ("Finding", "Handoff", "LoopOptions", "State", "Step"),
    "asterism.machines.orchestration_loop.table": ("TRANSITIONS",),
    "asterism.planner.phases": (
        "ConstellationProcessorContext",
        "ConstellationStrategyFactory",
        "ContextNames",
        "ProcessingPhase",
        "ProcessingResult",
        "depends_on",
        "provides",
    ),
    "asterism.planner.processor": ("ConstellationAgentProcessor",),
    "asterism.planner.prompter": ("ConstellationPrompterFactory",),
    "asterism.planner.reply": ("ConstellationAgentResponse",),
    "asterism.runtime.client": ("Client",),
    "asterism.runtime.registration": ("Registration",),
    "asterism.runtime.runtime": ("Runtime",),
    "asterism.servers.remote_app": ("Followed", "RemoteApp", "RemoteRun"),
    "asterism.servers.remote_conversation": ("RemoteConversation",),
    "asterism.servers.remote_schedule": ("RemoteSchedule",),
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
