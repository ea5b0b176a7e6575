"""The usage of planning models: requests, tokens and cost, as plain numbers.

The planner counts them.
"""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The usage of one planner request or the sum of several; as a budget, the usage that is left.

    Attributes:
        model: ``provider:model`` that answered; of several, the last one.
        requests: number of requests sent, including failed ones.
        input_tokens, output_tokens: counted by the provider; estimated if it counts none.
        cost_usd: cost in US dollars; 0 if no price is known.
    """

    model: str = ""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """Return the sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: Usage) -> Usage:
        """Return the sum of both; the model is the other's, if it has one."""
        return Usage(
            model=other.model or self.model,
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )
