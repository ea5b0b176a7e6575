"""What runs do, for other people's tools: spans, metrics and log lines, all derived from what is appended.

``observer`` follows the runs · ``spans`` what an entry and an effect look like in a trace · ``metrics`` what is counted ·
``logs`` the lines. This module imports none of them: whoever does not ask for telemetry does not pay for its libraries.
"""

from __future__ import annotations

from collections.abc import Mapping

LOG_VARIABLE = "ASTERISM_LOG"
"""The level of the lines that the commands write to standard error: ``debug``, ``info``, ``warning`` or ``error``; by default none."""


def telemetry_wanted(environment: Mapping[str, str]) -> bool:
    """True when lines were asked for, or OpenTelemetry: any ``OTEL_…`` variable is set, and the SDK is not disabled by one."""
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return bool(environment.get(LOG_VARIABLE)) or (
        not disabled and any(name.startswith("OTEL_") and value for name, value in environment.items())
    )
