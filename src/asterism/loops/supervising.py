"""What a supervising function is, and what it may return besides its value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from asterism.machines.orchestration_loop.view import LoopView

Supervising = Callable[[LoopView], Awaitable[Any]]
"""A function of the supervisor: plan, reflect, synthesize or critique."""


class Metered(msgspec.Struct, frozen=True):
    """What a function returns that used a model: the value, and the tokens it took."""

    value: Any
    tokens: int = 0
