"""An agent with a plan: its fields are the plan's parameters, checked where the class is written, and on the devices."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import asterism
from asterism import Constellation, InvalidInput, Param
from asterism.conversation.python import AgentResult, AgentStatus, ChildFailed, InputField, Message, StandardAgent, constellation, flowagent
from asterism.conversation.python.plans import check_on_fleet
from asterism.engine.kernel.profile import AgentProfile, Skill

HERE = Path(__file__).parent
PLAN: dict[str, Any] = {
    "params": {"site": "str", "pages": {"type": "int", "default": 3}},
    "tasks": [{"task_id": "a", "device": "d", "skill": "s"}],
}


class Colour(enum.Enum):
    RED = "red"


def agent_with(plan: Any, **fields: Any) -> Any:
    types = {name: kind for name, (kind, _) in fields.items()}
    body = {name: field for name, (_, field) in fields.items()}
    return flowagent(plan=plan)(type("Report", (StandardAgent,), {**body, "__annotations__": types, "__module__": __name__}))


SITE = (str, InputField("Which?"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Report: its plan needs site (str); add an InputField of that name, or a default to the plan"),
        ({"site": SITE, "page": SITE}, "Report.page: the plan of the agent has no parameter 'page'; did you mean pages?"),
        ({"site": (int, InputField("?"))}, "Report.site: the parameter of the plan is str, and the field gives a JSON integer"),
        (
            {"site": SITE, "pages": (Colour, InputField("?"))},
            "Report.pages: the parameter of the plan is int, and the field gives a JSON string",
        ),
        (
            {"site": SITE, "pages": (float, InputField("?"))},
            "Report.pages: the parameter of the plan is int, and the field gives a JSON number",
        ),
        (
            {"site": (str | None, InputField("?"))},
            "Report.site: the field may be skipped, and the parameter of the plan has no default; give it one",
        ),
        (
            {"site": (str, InputField("?", secret=True))},
            "Report.site: a secret cannot fill a parameter, which the journal shows; use ${secret.NAME} in the plan",
        ),
    ],
)
def test_fields_that_do_not_fill_the_parameters_are_refused_where_the_class_is_written(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        agent_with(PLAN, **fields)
    assert str(refused.value) == said


def test_a_file_cannot_be_a_field() -> None:
    with pytest.raises(InvalidInput, match=r"^Report.site: a field cannot fill a parameter of type file; make it a str, and let a task"):
        agent_with({**PLAN, "params": {"site": "file"}}, site=SITE)


@pytest.mark.parametrize("kind", [str, Colour, Decimal, dt.date])
def test_a_value_whose_json_is_text_fills_a_text(kind: Any) -> None:
    assert agent_with(PLAN, site=(kind, InputField("?"))).plan.params["site"] == Param()


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("none.yaml", f"Report.plan: {HERE}/none.yaml: the plan cannot be read: No such file or directory"),
        ("plan.txt", "Report.plan: plan.txt: not a plan file; its name ends in .json, .yaml, .yml"),
        ({"tasks": []}, "Report.plan: plan.tasks: there is nothing to do; a plan needs a task"),
        (7, "Report.plan: a plan is a Constellation, the path of a plan file, or a plan, not 7"),
        (Constellation, "Report.plan: a plan is a Constellation, the path of a plan file, or a plan, not <class"),
    ],
)
def test_a_plan_that_cannot_be_used_is_refused_where_the_class_is_written(plan: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        agent_with(plan, site=SITE)
    assert str(refused.value).startswith(said)


def test_a_class_attribute_is_checked_as_an_option_is() -> None:
    with pytest.raises(InvalidInput, match=r"^Report: its plan needs site"):
        type("Report", (StandardAgent,), {"plan": PLAN, "__module__": __name__})


def test_a_plan_is_checked_on_the_devices_before_a_conversation_begins() -> None:
    agent = agent_with(PLAN, site=SITE)
    device = AgentProfile(device_id="d", skills=(Skill(name="t"),))
    for fleet, said in (
        ({}, "the plan of Report cannot be run: a: unknown device 'd'; the fleet has no device; name the devices with --fleet, or"),
        ({"d": device}, "the plan of Report cannot be run: a: d has no skill 's'; nearest: t"),
    ):
        with pytest.raises(InvalidInput) as refused:
            asyncio.run(check_on_fleet(agent, fleet, None))
        assert str(refused.value).startswith(said)
    asyncio.run(check_on_fleet(agent, {"d": AgentProfile(device_id="d", skills=(Skill(name="s"),))}, None))


def test_the_secrets_of_a_plan_are_checked_before_a_conversation_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    task = {**PLAN["tasks"][0], "inputs": {"token": "${secret.BANK_TOKEN}"}}
    agent = agent_with({**PLAN, "tasks": [task]}, site=SITE)
    fleet = {"d": AgentProfile(device_id="d", skills=(Skill(name="s", parameters={"properties": {"token": {"type": "string"}}}),))}
    monkeypatch.delenv("ASTERISM_SECRET_BANK_TOKEN", raising=False)
    asyncio.run(check_on_fleet(agent, fleet, None))
    with pytest.raises(InvalidInput, match=r"^the plan of Report cannot be run: secret BANK_TOKEN is not set; set [^;]*$"):
        asyncio.run(check_on_fleet(agent, fleet, None, {}))
    monkeypatch.setenv("ASTERISM_SECRET_BANK_TOKEN", "hunter2-and-more")
    asyncio.run(check_on_fleet(agent, fleet, None, {}))


def fetch(site: str, pages: int) -> list[str]:
    return [f"{site}/{number}" for number in range(pages)]


nightly = Constellation("nightly", params={"site": str, "pages": Param(type="int", default=2)})
nightly.task(fetch, site=nightly.params.site, pages=nightly.params.pages)


@flowagent(plan=nightly, requires_approval=True)
class Nightly(StandardAgent):
    site: str = InputField("Which?")
    pages: int | None = InputField("How many?")


class Explicit(StandardAgent):
    resumable = True
    site: str = InputField("Which?")

    async def on_running(self, msg: Message) -> AgentResult:
        with pytest.raises(InvalidInput, match=r"^the plan has no parameter 'sit'; did you mean site\?$"):
            constellation(nightly, params={"sit": self.site})
        done = await self.child("nightly", constellation(nightly, params={"site": self.site}))
        return self.make_result(AgentStatus.COMPLETED, str(done["results"]["fetch"]))


class Broken(Nightly):
    async def on_running(self, msg: Message) -> AgentResult:
        try:
            return await super().on_running(msg)
        except ChildFailed as failed:
            return self.make_result(AgentStatus.COMPLETED, str(failed))


async def said_by(agent: type[StandardAgent], database: Path, *messages: str) -> list[AgentResult]:
    async with asterism.open(database):
        conversation = agent()
        return [await conversation.reply(text) for text in messages]


def test_a_plan_in_python_runs_with_the_fields_as_its_parameters(tmp_path: Path) -> None:
    _, asked, approval, ended = asyncio.run(said_by(Nightly, tmp_path / "runs.db", "go", "x", "skip", "yes"))
    assert asked.raw_message == "How many?"
    assert approval.raw_message == "Nightly (site: x). Go ahead? (yes/no)"
    assert (ended.raw_message, ended.data) == ("1 task: 1 completed", {"results": {"fetch": ["x/0", "x/1"]}})


def test_a_child_is_started_with_parameters_on_the_devices_of_the_runtime(tmp_path: Path) -> None:
    ended = asyncio.run(said_by(Explicit, tmp_path / "runs.db", "go", "x"))[-1]
    assert (ended.status, ended.raw_message) == ("COMPLETED", "['x/0', 'x/1']")


def test_an_agent_that_only_runs_a_plan_may_be_called_again_after_a_crash_and_one_that_does_more_may_not() -> None:
    assert Nightly._is_repeatable()
    assert not Broken._is_repeatable()


def test_a_plan_that_was_started_continues_although_the_class_has_another_by_now() -> None:
    agent, started = Nightly(), constellation(nightly, params={"site": "old"})
    asked = []

    class Host:
        def started(self, key: str) -> Any:
            return started if key == "plan" else None

        async def child(self, _: Any, key: str, start: Any) -> Any:
            asked.append((key, start))
            raise ConnectionAbortedError

    agent._state.host = Host()  # type: ignore[assignment]
    with pytest.raises(ConnectionAbortedError):
        asyncio.run(StandardAgent.on_running.__wrapped__(agent, Message()))  # type: ignore[attr-defined]
    assert asked == [("plan", started)]
