"""The example with six kinds of device: its drivers are killed and stopped, its run is cancelled, and each device works once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from asterism.app.bootstrap import FORMS
from asterism.engine.control.run_control import Cancel
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.stores.sqlite import SqliteStore
from examples.remote.servers import Servers
from tests.end_to_end.remote_crashes import ROOT, WITHIN_S, Site, Trial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Servers(tmp_path_factory.mktemp("remote")) as servers:
        yield Site(servers)


@pytest.mark.parametrize("die_after", [3, 7, 11, 16, 20, 24, 28, 32])
def test_each_device_works_once_if_the_driver_is_killed_after_an_entry(site: Site, die_after: int) -> None:
    assert site.trial(die_after).faults == []


def wait_for_work(site: Site) -> None:
    """Wait until the agent and the host work."""
    give_up = time.monotonic() + WITHIN_S
    while not (site.starts("editor") and site.starts("host")):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_sigterm_ends_no_work_elsewhere(tmp_path: Path) -> None:
    with Servers(tmp_path, pace_s=6) as servers:
        site = Site(servers)
        assert site.drive(1, new=True, die_after=1) == "killed"
        command = [sys.executable, "-m", "asterism.cli", "resume", "r1"]
        with subprocess.Popen(command, cwd=ROOT, env=site.environment(1), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as owner:
            wait_for_work(site)
            owner.send_signal(signal.SIGTERM)
            owner.wait(timeout=WITHIN_S)
        assert [noted for noted in site.work() if noted["event"] == "cancel"] == []
        assert site.finish(Trial(1)).faults == []


@pytest.mark.parametrize("die_after", [1, 3])
def test_a_cancel_reaches_the_other_side_though_its_driver_is_killed_before(tmp_path: Path, die_after: int) -> None:
    with Servers(tmp_path, pace_s=300) as servers:
        site = Site(servers)
        with site.owner(1, new=True) as owner:
            wait_for_work(site)
            owner.kill()
        asyncio.run(cancel(site.database(1)))
        site.drive(1, new=False, die_after=die_after)
        assert site.drive(1, new=False) == "ended cancelled"
        assert [noted["device"] for noted in site.work() if noted["event"] == "cancel"] == ["editor"]
        assert site.left() == []


async def cancel(database: Path) -> None:
    """Write a cancel into the inbox of the run."""
    store = SqliteStore.open(database, create=False)
    try:
        await Client(store, SystemClock(), FORMS).post("r1", Cancel(), actor="test", key="cancel")
    finally:
        await store.close()
