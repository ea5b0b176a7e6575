"""How a loop is started: what is known of it before its request, and the event that begins a run of it."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.kernel.start import StartRequest
from asterism.machines.orchestration_loop.events import LoopSubmitted
from asterism.machines.orchestration_loop.model import LoopOptions, Step, WorkerProfile


class LoopDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What can be said of a loop before it is known what it is started for.

    Attributes:
        definition, working_directory, workers, options, plan, has_critique: as in ``LoopSubmitted``.
    """

    definition: str = ""
    working_directory: str = ""
    workers: tuple[WorkerProfile, ...] = ()
    options: LoopOptions = LoopOptions()
    plan: tuple[Step, ...] = ()
    has_critique: bool = False

    def submitted(self, request: str, context: dict[str, Any], *, fleet_file: str = "") -> LoopSubmitted:
        """Return the event that begins a run of it."""
        return LoopSubmitted(
            request=request,
            context=context,
            definition=self.definition,
            working_directory=self.working_directory,
            fleet_file=fleet_file,
            workers=self.workers,
            options=self.options,
            plan=self.plan,
            has_critique=self.has_critique,
        )


def first_event(start: StartRequest) -> LoopSubmitted:
    """Return the event that begins the run.

    Raises:
        InvalidInput: its definition is no ``LoopDefinition``.
    """
    defined = start.defined_as(LoopDefinition)
    limit_s = start.limit_s(defined.options.wall_limit_s, default_s=LoopOptions().wall_limit_s)
    options = msgspec.structs.replace(defined.options, wall_limit_s=limit_s)
    return msgspec.structs.replace(defined, options=options).submitted(start.request, start.inputs, fleet_file=start.fleet_file)
