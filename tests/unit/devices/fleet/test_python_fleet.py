"""Fleets in Python: the devices of a fleet file, opened again from a journal."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import asterism
from asterism import Constellation, Device, Fleet, InvalidInput
from tests.support import errands
from tests.support.errands import download, fail

ROOT = Path(__file__).parents[4]


def office() -> Fleet:
    echo = {"name": "echo", "argv": ["echo", "{text}"]}
    return Fleet(
        Device("laptop", skills=[download], concurrency=2, description="fetches", aliases=["notebook"]),
        Device("shell", commands=[echo], metadata={"room": 3}),
    )


def test_a_fleet_in_code_runs_the_skills_of_its_devices(tmp_path: Path) -> None:
    plan = Constellation("office")
    plan.task("echo", device="shell", text=plan.task(download, device="laptop", url="x")[0])
    ended = asterism.run(plan, database=tmp_path / "runs.db", fleet=office())
    assert ended.results == {"download": ["x/0", "x/1", "x/2"], "echo": {"output": "x/0", "exit_code": 0}}


def test_a_run_is_resumed_on_the_devices_of_its_journal(tmp_path: Path) -> None:
    plan = Constellation("office")
    plan.task(download, device="laptop", url="x", requires_approval=True)
    plan.task(errands.count, files=plan["download"])
    waiting = asterism.run(plan, database=tmp_path / "runs.db", fleet=office())
    answer = [sys.executable, "-m", "asterism.cli", "answer", waiting.inquiries[0].inquiry_id, "approve"]
    done = subprocess.run(
        answer, cwd=tmp_path, env={**os.environ, "ASTERISM_DATABASE": "runs.db"}, capture_output=True, text=True, check=False
    )
    assert "2 tasks: 2 completed" in done.stdout, done.stderr


def test_a_client_plans_for_the_devices_of_a_fleet_in_code(tmp_path: Path) -> None:
    async def scene() -> None:
        async with asterism.connect(tmp_path / "runs.db", fleet=office()) as client:
            laptop = client.fleet["laptop"]
            assert (laptop.concurrency, laptop.aliases, [skill.name for skill in laptop.skills]) == (2, ("notebook",), ["download"])
            assert laptop.table == {
                "id": "laptop",
                "concurrency": 2,
                "kind": "local",
                "skills": [f"{ROOT}/tests.support.errands:download"],
                "description": "fetches",
                "aliases": ["notebook"],
            }

    asyncio.run(scene())


def test_a_device_that_cannot_work_is_refused_by_name(tmp_path: Path) -> None:
    def inner() -> None:
        """Do nothing."""

    with pytest.raises(InvalidInput, match=r"device laptop: <.*inner cannot be imported by other processes; define it at the top level"):
        Device("laptop", skills=[inner])
    plan = Constellation("x")
    plan.task("look", device="a")
    for devices, why in (
        ([Device("here")], "the fleet: devices\\[0\\] \\(here\\).id: 'here' is the device of a program's own functions; choose another id"),
        ([Device("a"), Device("a")], "there is another device 'a'; ids are unique"),
        ([Device("a", skills=[fail])], r"devices\[0\] \(a\).skills\[0\]: .* is not a skill; add @skill"),
        ([Device("a", concurrency=0)], r"devices\[0\] \(a\).concurrency: Expected `?int`? >= 1"),
    ):
        with pytest.raises(InvalidInput, match=why):
            asterism.run(plan, database=tmp_path / "runs.db", fleet=Fleet(*devices))


def test_the_name_of_a_fleet_in_code_is_that_of_its_places_also_when_its_run_is_resumed(tmp_path: Path) -> None:
    plan = Constellation("office")
    plan.task(download, device="laptop", url="x", requires_approval=True)
    waiting = asterism.run(plan, database=tmp_path / "runs.db", fleet=Fleet(Device("laptop", skills=[download]), name="lab"))
    places = tmp_path / "runs.db.places"
    assert not places.exists()
    answer = [sys.executable, "-m", "asterism.cli", "answer", waiting.inquiries[0].inquiry_id, "approve"]
    environment = {**os.environ, "ASTERISM_DATABASE": "runs.db"}
    subprocess.run(answer, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert [it.name for it in places.iterdir()] == ["lab laptop.0"]


def test_a_fleet_in_code_without_a_name_shares_no_places(tmp_path: Path) -> None:
    plan = Constellation("office")
    plan.task(download, device="laptop", url="x")
    assert asterism.run(plan, database=tmp_path / "runs.db", fleet=office()).outcome == "finished"
    assert not (tmp_path / "runs.db.places").exists()


def test_a_device_in_code_has_variables_and_a_folder_that_counts_from_its_file(tmp_path: Path) -> None:
    where = {"name": "where", "argv": ["sh", "-c", "echo $(basename $PWD) $MODE $SHADE"]}
    fleet = Fleet(Device("shell", commands=[where], env={"MODE": "device", "SHADE": "device"}, folder=".."))
    assert fleet.tables[0]["folder"] == f"{ROOT}/tests/unit/devices/fleet/.."
    plan = Constellation("office")
    plan.task("where", device="shell", env={"SHADE": "task"}, requires_approval=True)
    waiting = asterism.run(plan, database=tmp_path / "runs.db", fleet=fleet)
    answer = [sys.executable, "-m", "asterism.cli", "answer", waiting.inquiries[0].inquiry_id, "approve"]
    environment = {**os.environ, "ASTERISM_DATABASE": "runs.db"}
    done = subprocess.run(answer, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "devices device task" in done.stdout, done.stderr
