"""Requests for telemetry, and its cost without a request."""

from __future__ import annotations

import subprocess
import sys

import pytest

from asterism.service.telemetry import telemetry_wanted


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"HOME": "/", "HOTEL_BILL": "1"}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_SERVICE_NAME": ""}, False),
        ({"OTEL_SERVICE_NAME": "night shift"}, True),
        ({"OTEL_SERVICE_NAME": "night shift", "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_SDK_DISABLED": "false"}, True),
        ({"ASTERISM_LOG": "info", "OTEL_SDK_DISABLED": "true"}, True),
    ],
)
def test_telemetry_is_wanted_when_a_variable_of_opentelemetry_or_a_level_is_set(environment: dict[str, str], *, wanted: bool) -> None:
    assert telemetry_wanted(environment) is wanted


def test_without_telemetry_its_libraries_are_not_loaded() -> None:
    script = "import sys, asterism.app.bootstrap, asterism.service.telemetry; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()}.isdisjoint({"opentelemetry", "structlog"})
