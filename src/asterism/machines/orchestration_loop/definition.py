"""The definition of a loop, and the event that begins a run of it."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.kernel.start import StartRequest
from asterism.machines.orchestration_loop.events import LoopSubmitted
from asterism.machines.orchestration_loop.model import LoopOptions, Step, WorkerProfile


class LoopDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything of a loop that is known before its request and inputs.

    Attributes:
        definition, working_directory, workers, options, plan, has_critique: as in
            ``LoopSubmitted``.
    """

    definition: str = ""
    working_directory: str = ""
    workers: tuple[WorkerProfile, ...] = ()
    options: LoopOptions = LoopOptions()
    plan: tuple[Step, ...] = ()
    has_critique: bool = False

    def submitted(self, request: str, context: dict[str, Any], *, fleet_file: str = "") -> LoopSubmitted:
        """Return the event that begins a run of this loop."""
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
        InvalidInput: the definition of the request is not a ``LoopDefinition``.
    """
    defined = start.defined_as(LoopDefinition)
    limit_s = start.limit_s(defined.options.wall_limit_s, default_s=LoopOptions().wall_limit_s)
    options = msgspec.structs.replace(defined.options, wall_limit_s=limit_s)
    return msgspec.structs.replace(defined, options=options).submitted(start.request, start.inputs, fleet_file=start.fleet_file)
