"""A process that submits or resumes a run with telemetry, its spans going to a file through the user's SDK.

usage: telemetry_owner.py DATABASE SPANS RUN PLAN_JSON|- DIE_AFTER
It is killed right after entry DIE_AFTER became durable. It says yes to what the run asks, and prints how the run ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from asterism.app.bootstrap import open_runtime, open_store
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.service.telemetry.observer import Telemetry
from tests.end_to_end.crash_owner import KilledAfter

RESULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "laptop": ("download_mnist", {"dataset": "SECRET-dataset"}),
    "gpu_server": ("train_cnn", {"model": "SECRET-model"}),
    "test_server": ("evaluate", {"accuracy": 0.987654321}),
    "prod_server": ("deploy", {"deployed_to": "SECRET-place"}),
}
"""Device -> its skill, and what that returns. Only ``deploy`` may not be repeated."""


class ReadyDevice(Device):
    """Has its result ready."""

    def __init__(self, device_id: str) -> None:
        skill, self.result = RESULTS[device_id]
        takes = {"properties": {name: {"type": "string"} for name in ("mirror", "dataset", "model")}}
        self.profile = AgentProfile(device_id=device_id, skills=(Skill(name=skill, parameters=takes, idempotent=skill != "deploy"),))

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.begun()
        return AttemptResult(result=self.result)


async def main(database: Path, run_id: str, plan: str, die_after: int) -> None:
    devices: dict[str, Device] = {device_id: ReadyDevice(device_id) for device_id in RESULTS}
    async with open_store(database, create=True) as store, open_runtime(store, devices, database) as runtime:
        telemetry = Telemetry(runtime.driver.live, runtime.clock.now)
        runtime.driver.observe(telemetry)
        runtime.driver.observe(KilledAfter(die_after))
        if plan != "-":
            fleet = tuple(device.profile for device in devices.values())
            first = ConstellationSubmitted(request="SECRET-request", fleet=fleet, plan=parse_plan(json.loads(plan)))
            await runtime.submit(CONSTELLATION_AGENT, first, title="spans", actor="test", run_id=run_id)
        row = await runtime.drive(run_id)
        for asked in await store.inquiries(run_id=run_id):
            await runtime.post_answer(asked.inquiry_id, "approve", actor="ada")
            row = await runtime.drive(run_id)
        telemetry.close()
        print(row.status, row.outcome)


if __name__ == "__main__":
    with Path(sys.argv[2]).open("w", encoding="utf-8") as file:
        exporter = ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + "\n")
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        asyncio.run(main(Path(sys.argv[1]), sys.argv[3], sys.argv[4], int(sys.argv[5])))
