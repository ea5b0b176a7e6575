"""What a skill is handed besides its arguments, without a device around it."""

from __future__ import annotations

import pytest

from asterism import SkillContext


@pytest.fixture
def reported() -> list[float | None]:
    """Fractions that the skill reported, as they came."""
    return []


@pytest.fixture
def context(reported: list[float | None]) -> SkillContext:
    return SkillContext(key="run-1/7", task_id="task", sink=lambda fraction, message: reported.append(fraction))
