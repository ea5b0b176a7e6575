"""A client: it writes and reads rows, and another process drives the runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import asterism
from asterism.constellation.model.edits import EditRefused
from asterism.engine.control.run_control import Cancel, Pause, Unpause
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL, LOWEST, Permission
from asterism.engine.kernel.refusal import CodedRefusal, verdict_of
from asterism.engine.ports.store import InquiryRow
from asterism.engine.runtime.client import Client, accepted, check_no_secret
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.form import Form, by_name
from asterism.errors import InvalidInput, Refused, RunNotFound, StoreUnavailable, UnknownMachine
from asterism.stores.memory import MemoryDatabase, MemoryStore
from tests.support.ferry_machine import FERRY, Depart, registration


def client_of(*machines: Machine[Any]) -> Client:
    return Client(MemoryStore(MemoryDatabase()), SystemClock(), by_name(map(Form, machines)))


async def begun(client: Client) -> str:
    return await client.submit(FERRY, Depart(parcels=("a",), asks=True), title="over", actor="ann")


def test_a_client_submits_and_describes_a_run_that_nobody_has_driven() -> None:
    async def scene() -> None:
        client = client_of(FERRY)
        run = await begun(client)
        row = await client.describe(run)
        assert (row.machine, row.status, row.epoch, row.owner) == (FERRY.name, "waiting", 0, "")
        assert [it.run_id for it in await client.runs()] == [run]
        assert (await client.load(run)).state == row.state
        assert [record.seq for record in await client.records(run)] == [1]

    asyncio.run(scene())


def test_a_command_waits_in_the_inbox_where_nobody_drives_the_run() -> None:
    async def scene() -> None:
        client = client_of(FERRY)
        run = await begun(client)
        with pytest.raises(Refused, match=r"has not processed it within 0\.1 s"):
            await client.send(run, Pause(), actor="ann", timeout_s=0.1)
        assert [(row.kind, row.verdict) for row in await client.store.inbox([run])] == [("pause", "")]
        assert (await client.describe(run)).epoch == 0

    asyncio.run(scene())


def test_what_a_client_sends_has_its_permissions_all_of_the_local_user() -> None:
    """A6: the door writes them; a client that acts for somebody else writes those of the sender."""

    async def scene() -> None:
        client = client_of(FERRY)
        bob = client.acting_with((Permission.VIEW, Permission.COMMAND))
        run = await begun(client)
        for sender, key in ((client, "a"), (bob, "b"), (client.acting_with(LOWEST), "c")):
            await sender.post(run, Pause(), actor="ann", key=key)
        assert [row.permissions for row in await client.store.inbox([run])] == [ALL, bob.permissions, LOWEST]
        [first] = await client.records(run)
        assert packer(FERRY).unpack(first).permissions == ALL
        fork = packer(FERRY).unpack((await client.records(await bob.fork(run, 1, actor="bob")))[1])
        assert (fork.actor, fork.permissions) == ("bob", bob.permissions)

    asyncio.run(scene())


def test_a_run_is_waited_for_no_longer_than_it_is_active_or_the_time_that_is_given() -> None:
    async def scene() -> None:
        client = client_of(FERRY)
        active = await client.submit(FERRY, Depart(), title="over", actor="ann")
        assert (await client.wait(active, timeout_s=0.1)).status == "active"
        assert (await client.wait(await begun(client))).status == "waiting"

    asyncio.run(scene())


def test_a_worker_processes_the_commands_of_a_client(tmp_path: Path) -> None:
    database = tmp_path / "runs.db"

    async def scene() -> None:
        async with asterism.connect(database, machines=[registration()]) as client:
            run = await begun(client)
            async with asterism.open(database, machines=[registration()]) as worker:
                assert (await worker.drive(run)).status == "waiting"
                (question,) = await client.inquiries(root=run)
                driven = asyncio.gather(worker.drive(run, park=False))
                assert await client.send(run, Pause(), actor="ann", timeout_s=10.0) == "accepted"
                assert await client.send(run, Unpause(), actor="ann", timeout_s=10.0) == "accepted"
                posted = await client.post_answer(question.inquiry_id, "approve", actor="ann")
                assert await client.verdict(run, posted.key, timeout_s=10.0) == "accepted"
                assert [row.outcome for row in await driven] == ["finished"]
            assert (await client.wait(run)).outcome == "finished"
            assert (await client.load(run)).memory.result()["seen"] == ["a"]
            with pytest.raises(Refused, match="has ended already"):
                await client.send(run, Cancel(), actor="ann")

    asyncio.run(scene())


def test_an_answer_about_another_request_leaves_the_place_of_the_first_answer_free() -> None:
    """A6, A8: nobody keeps right answers out by wrong ones that wait for a verdict."""

    async def scene() -> None:
        client = client_of(FERRY)
        run = await begun(client)
        (asked,) = await client.inquiries(root=run)
        with pytest.raises(Refused, match="about another request than this answer names"):
            await client.post_answer(asked.inquiry_id, "approve", actor="eve", digest="0" * 64)
        assert await client.store.inbox([run]) == []
        assert (await client.post_answer(asked.inquiry_id, "approve", actor="ann", digest=asked.digest)).key == asked.inquiry_id

    asyncio.run(scene())


def test_a_client_forks_exports_and_imports() -> None:
    async def scene() -> None:
        client, other = client_of(FERRY), client_of(FERRY)
        run = await begun(client)
        fork = await client.fork(run, 1, actor="ann")
        assert [record.kind for record in await client.records(fork)] == ["depart", "forked"]
        journals = await client.export(run)
        await other.import_journals(journals)
        *copied, last = await other.records(run)
        assert copied == await client.records(run)
        assert (last.kind, (await other.describe(run)).seq) == ("imported", last.seq)
        with pytest.raises(RunNotFound):
            await client.export("nobody")

    asyncio.run(scene())


def test_a_client_rejects_a_run_of_an_unknown_machine() -> None:
    async def scene() -> None:
        client, stranger = client_of(FERRY), client_of()
        run = await begun(client)
        stranger.store = client.store
        for call in (stranger.load(run), stranger.fork(run, 1, actor="ann")):
            with pytest.raises(UnknownMachine):
                await call
        with pytest.raises(UnknownMachine):
            await client_of().import_journals(await client.export(run))
        assert (await stranger.describe(run)).machine == FERRY.name

    asyncio.run(scene())


def test_connecting_makes_a_database_unless_it_is_not_to(tmp_path: Path) -> None:
    async def scene(database: Path, *, create: bool) -> None:
        async with asterism.connect(database, create=create) as client:
            assert await client.runs() == []

    with pytest.raises(StoreUnavailable):
        asyncio.run(scene(tmp_path / "a.db", create=False))
    asyncio.run(scene(tmp_path / "a.db", create=True))
    asyncio.run(scene(tmp_path / "a.db", create=False))


def test_a_part_of_a_run_is_not_exported_alone() -> None:
    async def scene() -> None:
        client = client_of(FERRY)
        await begun(client)
        [(row, records)] = await client.export((await client.runs())[0].run_id)
        child = [msgspec.structs.replace(record, run_id="r.1.0") for record in records]
        await client.store.submit(msgspec.structs.replace(row, run_id="r.1.0", parent=row.run_id, root=row.run_id), *child)
        with pytest.raises(InvalidInput, match=f"is a child of run {row.run_id}; export that one"):
            await client.export("r.1.0")

    asyncio.run(scene())


def test_a_refused_edit_is_a_sentence_with_its_code_as_an_attribute() -> None:
    verdict = verdict_of(EditRefused("read_only", "train", "it is RUNNING"))
    with pytest.raises(CodedRefusal) as refused:
        accepted(verdict)
    assert (str(refused.value), refused.value.refusal.code) == ("train: it is RUNNING", "read_only")
    assert verdict_of(refused.value) == verdict


def test_another_refusal_is_its_words() -> None:
    assert accepted("accepted") == "accepted"
    with pytest.raises(Refused, match=r"^it has ended$") as refused:
        accepted("it has ended")
    assert type(refused.value) is Refused


def test_an_answer_has_no_value_for_a_secret_field() -> None:
    asked = InquiryRow(inquiry_id="run:1.0", run_id="run", question="PIN?", verbs=("edit",), schema='{"properties": {"pin": false}}')
    with pytest.raises(InvalidInput, match=r"asks for a secret \(pin\)"):
        check_no_secret(asked, {"pin": "1234"})
    check_no_secret(asked, {"amount": 40})
