"""An agent on the SDK's last version that speaks A2A 0.3 only, in an environment of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from asterism.devices.kinds.a2a.content import message_id
from asterism.devices.port import Attempt, DeviceReply, RemoteDevice
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet

SDK = "a2a-sdk[http-server]==0.3.26"
AGENT = Path(__file__).parents[1] / "support" / "a2a_legacy_agent.py"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    installed = subprocess.run([python, "-m", "pip", "install", "-q", SDK, "uvicorn"], check=False, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"{SDK} cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
    process = subprocess.Popen([python, AGENT, tmp_path])
    until = time.monotonic() + 60
    while not (tmp_path / "url").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    yield (tmp_path / "url").read_text()
    process.kill()
    process.wait()


@pytest.mark.slow
def test_an_agent_on_the_old_sdk_asks_is_answered_and_stopped(tmp_path: Path, url: str) -> None:
    async def scenario() -> None:
        (tmp_path / "fleet.toml").write_text(f'[[devices]]\nid = "d"\nkind = "a2a"\nurl = "{url}"\n')
        async with asyncio.timeout(60), open_fleet(tmp_path / "fleet.toml") as devices:
            device = devices["d"]
            assert isinstance(device, RemoteDevice)
            first = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="d", skill="", description="ask")
            heard = Heard()
            asked = (await device.perform(first, heard)).question
            assert asked is not None
            assert asked.prompt == "Which GPU?"
            reply = DeviceReply(verb="respond", value="the second")
            second = Attempt(
                key="r:1.0", run_id="r", task_id="t", device_id="d", skill="", description="ask", leg=2, state=asked.state, reply=reply
            )
            assert (await device.perform(second, Heard())).result == {"chosen": "the second"}
            other = Attempt(key="r:2.0", run_id="r", task_id="t", device_id="d", skill="", description="ask")
            asking = Heard()
            await device.perform(other, asking)
            for _ in range(2):
                stopped = Attempt(key="r:2.0", run_id="r", task_id="t", device_id="d", skill="", handle=asking.handles[-1])
                assert await device.stop(stopped) == ""
        assert (tmp_path / "starts").read_text().split() == [message_id("r:1.0"), message_id("r:1.0#2"), message_id("r:2.0")]

    asyncio.run(scenario())
