"""What asking a model has cost, and what it may cost. Numbers only; who counts them is the planner."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one question used, or several together; as a budget: what may still be used.

    Attributes:
        model: ``provider:model`` that answered; the last one where there were several.
        requests: requests that were sent, those that failed included.
        input_tokens, output_tokens: as the provider counted them; estimated where it counts none.
        cost_usd: in US dollars; 0 where no price is known.
    """

    model: str = ""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(
            model=other.model or self.model,
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )
