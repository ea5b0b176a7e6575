"""Devices of kind ``a2a``, with a scripted agent on the official SDK in another process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from a2a.types import ListTasksRequest, ListTasksResponse, Message, Task

from asterism.devices.dispatch import remote
from asterism.devices.kinds.a2a import device as a2a_device
from asterism.devices.kinds.a2a.client import Agent, AgentError
from asterism.devices.kinds.a2a.device import A2aDevice
from asterism.devices.port import Attempt, AttemptResult, DeviceReply, RemoteDevice
from asterism.engine.kernel.guards import DeviceGuards, SkillGuard
from asterism.errors import InvalidInput
from tests.support.a2a_agent import LINK
from tests.support.a2a_process import AgentProcess
from tests.support.certificates import Authority
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agents")


def started(folder: Path, *flags: str) -> Iterator[AgentProcess]:
    process = AgentProcess(folder, *flags)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def agent(folders: Path) -> Iterator[AgentProcess]:
    yield from started(folders / "streams")


@pytest.fixture(scope="module")
def polled(folders: Path) -> Iterator[AgentProcess]:
    yield from started(folders / "polled", "--silent")


@pytest.fixture(scope="module")
def legacy(folders: Path) -> Iterator[AgentProcess]:
    yield from started(folders / "legacy", "--legacy")


@pytest.fixture(scope="module")
def rest(folders: Path) -> Iterator[AgentProcess]:
    yield from started(folders / "rest", "--rest")


@pytest.fixture(params=["agent", "polled", "legacy", "rest"])
def any_agent(request: pytest.FixtureRequest) -> AgentProcess:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, AgentProcess)
    return found


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_device, "SETTLE_S", 0.3)
    monkeypatch.setattr(a2a_device, "MAX_FAULTS", 2)


@contextlib.asynccontextmanager
async def opened(folder: Path, url: str, more: str = "") -> AsyncIterator[A2aDevice]:
    fleet = folder / "fleet.toml"
    fleet.write_text(f'[[devices]]\nid = "d"\nkind = "a2a"\nurl = "{url}"\n{more}')
    async with asyncio.timeout(60), open_fleet(fleet) as devices:
        device = devices["d"]
        assert isinstance(device, A2aDevice)
        assert isinstance(device, RemoteDevice)
        yield device


def attempt(words: str, key: str = "r:1.0", **fields: Any) -> Attempt:
    return Attempt(key=key, run_id="r", task_id="t", device_id="d", skill="", description=words, since=time.time(), **fields)


def code_of(end: AttemptResult) -> str:
    assert end.error is not None
    assert end.error.message
    assert "\n" not in end.error.message
    return end.error.code


def test_an_agent_with_mutual_tls_is_reached_only_with_the_right_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    ours, other = Authority("ours"), Authority("other")
    ours.write(folder / "ca.pem")
    ours.issue(folder / "server.pem", "agent")
    for file, authority in (("client.pem", ours), ("foreign.pem", other)):
        authority.issue(tmp_path / file, "client")
    ours.write(tmp_path / "ca.pem")
    process = AgentProcess(folder, "--mtls", "--rest")

    async def scenario(more: str) -> AttemptResult:
        async with opened(tmp_path, process.url, more) as device:
            return await device.perform(attempt("answer"), Heard())

    try:
        assert asyncio.run(scenario('authority = "ca.pem"\ncertificate = "client.pem"\n')).result == {"answer": 42}
        for keys in ('authority = "ca.pem"\n', 'authority = "ca.pem"\ncertificate = "foreign.pem"\n', 'certificate = "client.pem"\n'):
            assert code_of(asyncio.run(scenario(keys))) == "device_lost"
    finally:
        process.kill()


def test_an_agent_keeps_what_the_fleet_guards_on_it(tmp_path: Path, agent: AgentProcess) -> None:
    """A1: the card described the device anew, and its guards were gone."""

    async def scenario() -> DeviceGuards:
        async with opened(tmp_path, agent.url, 'approval = "always"\nno_options = ["*"]') as device:
            return device.profile.guards

    assert asyncio.run(scenario()).every == SkillGuard(approval=True, no_options=("*",))


def test_the_card_describes_the_device_in_bounded_lines(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            profile = device.profile
            assert profile.natural_language
            assert profile.reattach
            assert profile.capabilities == ("answer", "deep thought")
            assert profile.skills == ()
            assert profile.description.startswith("Does what the first word says. Ignore")
            assert profile.description.isprintable()
            assert len(profile.description) <= 500
            assert msgspec.json.decode(msgspec.json.encode(profile), type=type(profile)) == profile

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("words", "result"),
    [
        ("answer", {"answer": 42}),
        ("echo a word", "a word"),
        ("pieces", "one text"),
        ("talk", None),
    ],
)
def test_the_artifacts_of_a_task_are_the_result(tmp_path: Path, any_agent: AgentProcess, words: str, result: object) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, any_agent.url) as device:
            heard = Heard()
            assert await device.perform(attempt(words), heard) == AttemptResult(result=result)
            assert heard.signs[0] == "begun"
            assert heard.handles
            if words == "talk":
                assert "a quarter" in heard.messages()

    asyncio.run(scenario())


def test_json_in_a_text_keeps_every_digit(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            assert (await device.perform(attempt("exact"), Heard())).result == {"number": 9007199254740993}

    asyncio.run(scenario())


def test_a_message_without_a_task_is_a_result(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            assert await device.perform(attempt("message"), Heard()) == AttemptResult(result="only a message")

    asyncio.run(scenario())


def test_arguments_and_results_arrive_as_json(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            end = await device.perform(attempt("echo", arguments={"n": 9007199254740993}, results={"a": [1]}), Heard())
            assert end.result == '{"arguments": {"n": 9007199254740993}, "results": {"a": [1]}}'

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("words", "code"), [("fail", "raised"), ("reject", "raised"), ("raise", "raised"), ("large", "bad_result"), ("flood", "bad_result")]
)
def test_a_task_that_does_not_complete_is_an_error(tmp_path: Path, agent: AgentProcess, words: str, code: str) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            assert code_of(await device.perform(attempt(words), Heard())) == code

    asyncio.run(scenario())


def test_an_attempt_that_was_let_go_is_taken_up_again_by_its_handle(tmp_path: Path, any_agent: AgentProcess) -> None:
    key = f"up:{any_agent.folder.name}"

    async def scenario() -> None:
        async with opened(tmp_path, any_agent.url) as device:
            first = Heard()
            performing = asyncio.create_task(device.perform(attempt("held", key), first))
            await first.arrived.wait()
            performing.cancel()
            await asyncio.wait([performing])
            assert performing.cancelled()
        async with opened(tmp_path, any_agent.url) as device:
            again = Heard()
            performing = asyncio.create_task(device.perform(attempt("held", key, again=True, handle=first.handles[-1]), again))
            await again.arrived.wait()
            any_agent.say("release")
            assert await performing == AttemptResult(result={"answer": 42})
            assert any_agent.starts(key) == 1
        (any_agent.folder / "release").unlink()

    asyncio.run(scenario())


def test_a_cancelled_attempt_reports_the_handle_that_arrives_in_time(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            heard = Heard()
            performing = asyncio.create_task(device.perform(attempt("wait", "early:1.0"), heard))
            while "begun" not in heard.signs:  # noqa: ASYNC110 - the message is sent in the same step
                await asyncio.sleep(0)
            performing.cancel()
            await asyncio.wait([performing])
            assert performing.cancelled()
            assert heard.handles
            assert await device.stop(attempt("wait", "early:1.0", handle=heard.handles[-1])) == ""

    asyncio.run(scenario())


def test_an_attempt_without_a_handle_is_found_by_its_message(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            assert (await device.perform(attempt("answer", "found:1.0"), Heard())).result == {"answer": 42}
            assert (await device.perform(attempt("answer", "found:1.0", again=True), Heard())).result == {"answer": 42}
            assert agent.starts("found:1.0") == 1

    asyncio.run(scenario())


def test_an_attempt_that_is_in_no_listing_is_sent(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            assert (await device.perform(attempt("answer", "never:1.0", again=True), Heard())).result == {"answer": 42}
            assert agent.starts("never:1.0") == 1

    asyncio.run(scenario())


def test_without_a_listing_an_attempt_without_a_handle_is_interrupted(tmp_path: Path, legacy: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, legacy.url) as device:
            assert code_of(await device.perform(attempt("answer", "old:1.0", again=True), Heard())) == "interrupted"
            assert legacy.starts("old:1.0") == 0
            assert "may still run" in await device.stop(attempt("answer", "old:1.0"))

    asyncio.run(scenario())


def test_a_listing_without_messages_rules_nothing_out(tmp_path: Path) -> None:
    process = AgentProcess(tmp_path / "agent", "--no-history")

    async def scenario() -> None:
        async with opened(tmp_path, process.url) as device:
            await device.perform(attempt("answer", "other:1.0"), Heard())
            assert code_of(await device.perform(attempt("answer", "bare:1.0", again=True), Heard())) == "interrupted"
            assert process.starts("bare:1.0") == 0

    try:
        asyncio.run(scenario())
    finally:
        process.kill()


class ListedAgent:
    """An agent whose listings have given pages."""

    def __init__(self, *pages: list[str]) -> None:
        self.pages = pages
        self.listed = 0

    async def list_tasks(self, request: ListTasksRequest) -> ListTasksResponse:
        number = int(request.page_token or 0)
        if request.status:
            return ListTasksResponse()
        self.listed += 1
        tasks = [Task(id=name, history=[Message(message_id=name)], status={"timestamp": {"seconds": 7}}) for name in self.pages[number]]
        return ListTasksResponse(tasks=tasks, next_page_token=str(number + 1) if number + 1 < len(self.pages) else "")

    async def find(self, message_id: str) -> str:
        agent = object.__new__(Agent)
        agent._url, agent._client = "http://agent", cast("Any", self)
        found = await agent.find(message_id, 0.0)
        return found.id if found else ""


@pytest.mark.parametrize(("pages", "found"), [(([],), ""), (([], []), ""), (([], ["a"]), "a"), ((["b"], ["a"], ["c"]), "a")])
def test_a_listing_is_read_page_by_page_until_the_task_is_found(pages: tuple[list[str], ...], found: str) -> None:
    agent = ListedAgent(*pages)
    assert asyncio.run(agent.find("a")) == found
    assert agent.listed <= 2


def test_a_listing_of_pages_without_the_task_is_read_again_and_given_up() -> None:
    with pytest.raises(AgentError, match="change faster than they can be listed"):
        asyncio.run(ListedAgent(["b"], [], ["c"]).find("a"))


def test_an_agent_that_forgets_a_task_interrupts_its_attempt(tmp_path: Path) -> None:
    process = AgentProcess(tmp_path / "agent")

    async def scenario() -> None:
        async with opened(tmp_path, process.url) as device:
            heard = Heard()
            await device.perform(attempt("answer", "gone:1.0"), heard)
            process.say("forget")
            assert (
                code_of(await device.perform(attempt("answer", "gone:1.0", again=True, handle=heard.handles[-1]), Heard())) == "interrupted"
            )
            assert await device.stop(attempt("answer", "gone:1.0", handle=heard.handles[-1])) == ""

    try:
        asyncio.run(scenario())
    finally:
        process.kill()


@pytest.mark.parametrize("has_handle", [True, False])
def test_a_stop_ends_the_task_and_may_be_repeated(tmp_path: Path, agent: AgentProcess, *, has_handle: bool) -> None:
    key = f"stop:{has_handle}"

    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            heard = Heard()
            performing = asyncio.create_task(device.perform(attempt("wait", key), heard))
            await heard.arrived.wait()
            handle = heard.handles[-1] if has_handle else ""
            assert await device.stop(attempt("", key, handle=handle)) == ""
            assert code_of(await performing) == "cancelled"
            assert await device.stop(attempt("", key, handle=handle)) == ""
            assert await device.stop(attempt("", f"{key}:unknown")) == ""

    asyncio.run(scenario())


def test_a_question_ends_a_leg_and_its_answer_begins_the_next(tmp_path: Path, any_agent: AgentProcess) -> None:
    key = f"leg:{any_agent.folder.name}"

    async def scenario() -> None:
        async with opened(tmp_path, any_agent.url) as device:
            asked = (await device.perform(attempt("ask", key), Heard())).question
            assert asked is not None
            assert asked.prompt == "Which GPU?\nSay its [31mname."
            assert asked.verbs == ("respond", "reject")
        second = attempt("ask", key, leg=2, state=asked.state, reply=DeviceReply(verb="respond", value="the second"))
        async with opened(tmp_path, any_agent.url) as device:
            assert (await device.perform(second, Heard())).result == {"chosen": "the second"}
            again = msgspec.structs.replace(second, again=True)
            assert (await device.perform(again, Heard())).result == {"chosen": "the second"}
            assert any_agent.starts(key) == 1
            assert any_agent.starts(f"{key}#2") == 1

    asyncio.run(scenario())


def test_a_leg_whose_reply_was_not_sent_sends_it_after_a_restart(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            asked = (await device.perform(attempt("ask", "cut:1.0"), Heard())).question
            assert asked is not None
            reply = DeviceReply(verb="respond", value={"gpu": 2})
            second = attempt("ask", "cut:1.0", leg=2, state=asked.state, reply=reply, again=True)
            assert (await device.perform(second, Heard())).result == {"chosen": '{"gpu": 2}'}
            assert agent.starts("cut:1.0#2") == 1

    asyncio.run(scenario())


def test_a_declined_question_cancels_the_task(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            asked = (await device.perform(attempt("ask", "no:1.0"), Heard())).question
            assert asked is not None
            second = attempt("ask", "no:1.0", leg=2, state=asked.state, reply=DeviceReply(verb="reject", reason="too dear"))
            end = await device.perform(second, Heard())
            assert code_of(end) == "rejected"
            assert end.error is not None
            assert "too dear" in end.error.message
            third = msgspec.structs.replace(second, again=True, reply=DeviceReply(verb="respond", value="late"))
            assert code_of(await device.perform(third, Heard())) == "cancelled"
            assert agent.starts("no:1.0#2") == 0

    asyncio.run(scenario())


def test_an_authorization_shows_the_link_and_takes_approval_for_done(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            asked = (await device.perform(attempt("auth", "auth:1.0"), Heard())).question
            assert asked is not None
            assert LINK in asked.prompt
            assert asked.verbs == ("approve", "reject")
            second = attempt("auth", "auth:1.0", leg=2, state=asked.state, reply=DeviceReply(verb="approve"))
            assert (await device.perform(second, Heard())).result == {"chosen": "The authorization is complete."}

    asyncio.run(scenario())


@pytest.mark.parametrize("what", ["auth", "input"])
def test_the_result_of_a_task_that_went_on_by_itself_is_taken_when_the_answer_comes(
    tmp_path: Path, agent: AgentProcess, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G2: the attempt failed, since the task "is in terminal state", and the result was lost."""

    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            (agent.folder / "continue").unlink(missing_ok=True)
            asked = (await device.perform(attempt(f"continue {what}", f"on-{what}:1.0"), Heard())).question
            assert asked is not None
            reply = DeviceReply(verb="approve") if what == "auth" else DeviceReply(verb="respond", value="yes")
            second = attempt(f"continue {what}", f"on-{what}:1.0", leg=2, state=asked.state, reply=reply)
            (agent.folder / "continue").touch()
            while agent.is_working(f"on-{what}:1.0"):  # noqa: ASYNC110 - another process ends it
                await asyncio.sleep(0.01)
            assert (await device.perform(second, Heard())).result == {"answer": 42}
            assert agent.starts(f"on-{what}:1.0#2") == 0
            before = iter([Task(status={"state": "TASK_STATE_AUTH_REQUIRED"})])  # it ends between the look and the reply
            look = Agent.task

            async def looked(self: Agent, task_id: str) -> Task:
                return next(before, None) or await look(self, task_id)

            monkeypatch.setattr(Agent, "task", looked)
            assert (await device.perform(second, Heard())).result == {"answer": 42}

    asyncio.run(scenario())


@pytest.mark.parametrize("what", ["auth", "input"])
def test_a_device_sees_that_a_task_has_gone_on_while_its_question_is_open(tmp_path: Path, any_agent: AgentProcess, what: str) -> None:
    """G2."""

    async def scenario() -> None:
        async with opened(tmp_path, any_agent.url) as device:
            (any_agent.folder / "continue").unlink(missing_ok=True)
            key = f"by-itself-{what}:1.0"
            asked = (await device.perform(attempt(f"continue {what}", key), Heard())).question
            assert asked is not None
            assert asked.may_go_on
            waits = attempt(f"continue {what}", key, state=asked.state)
            assert not await device.has_gone_on(waits)
            (any_agent.folder / "continue").touch()
            while any_agent.is_working(key):  # noqa: ASYNC110 - another process ends it
                await asyncio.sleep(0.01)
            assert await device.has_gone_on(waits)
            following = attempt(f"continue {what}", key, leg=2, state=asked.state)
            assert (await device.perform(following, Heard())).result == {"answer": 42}
            assert any_agent.starts(f"{key}#2") == 0
            assert not await device.has_gone_on(attempt("", key, state={**asked.state, "task": "unknown"}))

    asyncio.run(scenario())


def test_an_agent_that_dies_is_lost_and_found_in_one_line(tmp_path: Path) -> None:
    process = AgentProcess(tmp_path / "agent")

    class Notes:
        def __init__(self) -> None:
            self.said: asyncio.Queue[str] = asyncio.Queue()

        def lost(self, why: str) -> None:
            self.said.put_nowait(f"lost {why}")

        def found(self, profile: object = None) -> None:
            self.said.put_nowait("found")

    async def scenario() -> None:
        async with opened(tmp_path, process.url) as device:
            heard, notes = Heard(), Notes()
            performing = asyncio.create_task(device.perform(attempt("held"), heard))
            await heard.arrived.wait()
            process.kill()
            assert code_of(await performing) == "device_lost"
            watching = asyncio.create_task(remote.watch(device, notes))
            lost = await notes.said.get()
            assert lost.startswith("lost http://127.0.0.1")
            assert "\n" not in lost
            watching.cancel()
            await asyncio.wait([watching])
            assert code_of(await device.perform(attempt("answer"), Heard())) == "device_lost"
            assert "may still run" in await device.stop(attempt("held", handle=heard.handles[-1]))
        async with opened(tmp_path, process.url) as device:  # a dead agent prevents no start
            assert device.profile.natural_language

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ('url = "ftp://agent"', "url: 'ftp://agent' is not an address"),
        ('url = "https://user:secret@agent"', "url: contains a user or password"),
        ('url = "https://agent"\nbearer = "secret"', "bearer"),
        ('url = "https://agent"\nheaders = {A = "$"}', "headers.A: write $NAME"),
        ('url = "https://agent"\ncertificate = "none.pem"', "certificate: there is no file"),
        ('url = "https://agent"\ncard_key = "fleet.toml"', "card_key"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, table: str, error: str) -> None:
    async def scenario() -> None:
        (tmp_path / "fleet.toml").write_text(f'[[devices]]\nid = "d"\nkind = "a2a"\n{table}\n')
        with pytest.raises(InvalidInput, match="devices\\[0\\]") as refused:
            async with open_fleet(tmp_path / "fleet.toml"):
                pass
        assert error in str(refused.value)
        assert "\n" not in str(refused.value)
        assert "secret@" not in str(refused.value)

    asyncio.run(scenario())
