"""The production planner over a scripted model in virtual time: its client waits, tries again and gives up, and no socket is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.testing.loop import run
from asterism.testing.model_wire import Say
from asterism.testing.pipeline import PipelinePlanner
from asterism.testing.scripted_model import DROP, HANG, KEY, Fault

GIVES_UP = '{"thought": "there is nothing to do", "status": "FAIL"}'
GPU = AgentProfile(device_id="gpu", skills=(Skill(name="train"),))


def planned(answers: Iterable[Say | Fault], model: str = "openai:any", **choice: float) -> tuple[Proposal | PlanningUnavailable, float]:
    """What a question comes to, and how long it took."""

    async def story() -> tuple[Proposal | PlanningUnavailable, float]:
        left = iter(answers)
        planner = PipelinePlanner(lambda _: next(left), ModelChoice(model=model, **choice))  # type: ignore[arg-type]
        question = PlannerRequest(key="r:1.0", mode="CREATION", request="train it", fleet={"gpu": GPU})
        try:
            return await planner.propose(question), asyncio.get_running_loop().time()
        except PlanningUnavailable as unavailable:
            return unavailable, asyncio.get_running_loop().time()

    return run(story())


@pytest.mark.parametrize("model", ["openai:any", "anthropic:any"])
def test_it_waits_as_long_as_it_is_told_to_and_asks_again(model: str) -> None:
    proposal, took_s = planned([Fault(status=429, headers={"retry-after": "20"}), DROP, Say(text=GIVES_UP)], model)
    assert isinstance(proposal, Proposal)
    assert (proposal.status, took_s) == ("FAIL", 22.0)
    assert proposal.usage.requests == 3


def test_what_hangs_is_given_up_in_time() -> None:
    unavailable, took_s = planned([HANG, Say(text="{", after_s=31.0)], attempts=2, timeout_s=30.0)
    assert isinstance(unavailable, PlanningUnavailable)
    assert (unavailable.code, took_s) == ("timeout", 61.0)


def test_a_connection_that_breaks_within_an_answer_is_tried_again() -> None:
    proposal, _ = planned([Say(text=GIVES_UP, drop_at=0.5), Say(text=GIVES_UP)])
    assert isinstance(proposal, Proposal)
    assert "connection broke" in proposal.notes[0]


def test_a_key_that_is_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.constellation.planner.model.Secrets.hide", lambda _, text: text)
    planner = PipelinePlanner(lambda _: Say(text=GIVES_UP.replace("nothing", KEY)), ModelChoice(model="openai:any"))
    question = PlannerRequest(key="r:1.0", mode="CREATION", request="train it", fleet={"gpu": GPU})
    run(planner.propose(question))
    assert planner.failures
