"""How a run is to behave, as options of a command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from asterism.errors import InvalidInput
from asterism.machines.constellation_agent.events import Hold, RaiseLimits, Replan, RunOptions

MaxTokens = Annotated[int | None, Parameter(name="--max-tokens", help="Tokens that planning may use in all [default: any number].")]
MaxCost = Annotated[float | None, Parameter(name="--max-cost", help="US dollars that planning may cost in all [default: any number].")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """The options of a new run."""

    replan: Annotated[
        Replan | None,
        Parameter(help="When the planner is asked again while the run goes on [default: when_needed with a model, else never]."),
    ] = None
    hold: Annotated[Hold, Parameter(help="What waits while a change of the plan is being decided.")] = RunOptions().hold
    approve_plan: Annotated[bool, Parameter(negative=(), help="Have a person approve the plan before anything of it runs.")] = False
    approve_edits: Annotated[bool, Parameter(negative=(), help="Have a person approve each change of the plan.")] = False
    max_tokens: MaxTokens = None
    max_cost: MaxCost = None
    wall_limit_s: Annotated[float, Parameter(help="Fail the run when it takes longer.")] = RunOptions().wall_limit_s
    inquiry_timeout_s: Annotated[float | None, Parameter(help="How long a question to a person stays open [default: for ever].")] = None

    def options(self, replan: Replan = "never") -> RunOptions:
        """As the machine has them.

        Args:
            replan: where none was chosen.

        Raises:
            InvalidInput: a number that is none of its kind.
        """
        for name, seconds in (("--wall-limit-s", self.wall_limit_s), ("--inquiry-timeout-s", self.inquiry_timeout_s)):
            if seconds is not None and not 0 < seconds < float("inf"):
                raise InvalidInput(f"{name} is a number of seconds above 0, not {seconds:g}")
        limits = raised(self.max_tokens, self.max_cost)
        return RunOptions(
            replan=self.replan or replan,
            hold=self.hold,
            approve_plan=self.approve_plan,
            approve_edits=self.approve_edits,
            max_tokens=limits.max_tokens,
            max_cost_usd=limits.max_cost_usd,
            wall_limit_s=self.wall_limit_s,
            inquiry_timeout_s=self.inquiry_timeout_s,
        )


def raised(max_tokens: int | None, max_cost: float | None) -> RaiseLimits:
    """The limits as an event.

    Raises:
        InvalidInput: a limit that is none.
    """
    if max_tokens is not None and max_tokens < 1:
        raise InvalidInput(f"--max-tokens is a number above 0, not {max_tokens}")
    if max_cost is not None and not 0 < max_cost < float("inf"):
        raise InvalidInput(f"--max-cost is an amount of dollars above 0, not {max_cost:g}")
    return RaiseLimits(max_tokens=max_tokens, max_cost_usd=max_cost)
