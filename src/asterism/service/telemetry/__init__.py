"""Telemetry of runs: spans, metrics and log lines, all derived from appended entries.

``observer`` follows runs, ``spans`` writes entries and effects to a trace, ``metrics`` counts and
times, ``logs`` writes log lines. This module imports none of them: without telemetry, its libraries
are not loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

LOG_VARIABLE = "ASTERISM_LOG"
"""The level of the log lines on standard error: ``debug``, ``info``, ``warning`` or ``error``; by
default none."""


def telemetry_wanted(environment: Mapping[str, str]) -> bool:
    """Return True if log lines are requested, or OpenTelemetry by an ``OTEL_…`` variable.

    ``OTEL_SDK_DISABLED`` overrides the other variables.
    """
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return bool(environment.get(LOG_VARIABLE)) or (
        not disabled and any(name.startswith("OTEL_") and value for name, value in environment.items())
    )
