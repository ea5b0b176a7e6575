"""Questions to people, under every machine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.engine.control.inquiries import ask_again, check_answer, close_inquiry, is_expired, open_inquiry
from asterism.engine.control.run_control import Answered, AskPerson, CancelEffect, RunMemory
from asterism.engine.kernel.guards import Guards, digest_of
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.permissions import ALL
from asterism.errors import Refused


class Patient(RunMemory, kw_only=True):
    woken: list[float] = msgspec.field(default_factory=list)

    def inquiry_limit_s(self, kind: str) -> float | None:
        return 60.0 if kind == "approval" else None

    def wake_up_at(self, at: float) -> None:
        self.woken.append(at)


def context(at: float = 100.0, seq: int = 2, **more: Any) -> StepContext:
    return StepContext(run_id="r", seq=seq, at=at, state="S", **{"actor": "ann"} | more)  # type: ignore[arg-type]


def asked(memory: Patient, kind: str = "approval", seq: int = 2) -> str:
    return open_inquiry(memory, kind, "Do it?", {"what": "it"}, context(seq=seq), about="a")


def test_a_question_is_open_with_its_subject_and_wakes_the_run_at_its_expiry() -> None:
    memory, step = Patient(), context()
    inquiry = open_inquiry(memory, "approval", "Do it?", {"what": "it"}, step, about="a")
    assert (memory.inquiries[inquiry].kind, memory.inquiries[inquiry].about) == ("approval", "a")
    assert step.effects == [memory.inquiries[inquiry]]
    assert memory.inquiries[inquiry].expires_at == 160.0
    assert memory.woken == [160.0]
    assert memory.due_at() == 160.0
    assert not is_expired(memory, inquiry, context(159.9))
    assert is_expired(memory, inquiry, context(160.0))


def test_a_question_without_a_limit_never_expires() -> None:
    memory = Patient()
    assert not is_expired(memory, asked(memory, "question"), context(1e12))
    assert memory.woken == []


@pytest.mark.parametrize(
    ("kind", "verbs"),
    [("approval", ("approve", "edit", "reject")), ("interruption", ("approve", "respond", "reject")), ("question", ("respond", "reject"))],
)
def test_a_question_accepts_only_the_answers_of_its_kind_and_cancel(kind: str, verbs: tuple[str, ...]) -> None:
    memory = Patient()
    inquiry = asked(memory, kind)
    for verb in ("approve", "edit", "reject", "respond", "cancel"):
        event = Answered(effect_id=inquiry, verb=verb, value={})
        if verb in (*verbs, "cancel"):
            assert check_answer(memory, event, context()) is memory.inquiries[inquiry]
        else:
            with pytest.raises(Refused, match=f"accepts {', '.join(verbs)}, not {verb}"):
                check_answer(memory, event, context())


def test_an_answer_to_a_question_that_is_not_open_is_refused() -> None:
    memory = Patient()
    inquiry = asked(memory)
    close_inquiry(memory, inquiry, step := context())
    assert step.effects == [CancelEffect(effect_id=inquiry)]
    assert step.abandoned == {inquiry}
    with pytest.raises(Refused, match="not open any more"):
        check_answer(memory, Answered(effect_id=inquiry, verb="approve"), context())


def test_an_edit_that_is_no_object_is_refused() -> None:
    memory = Patient()
    with pytest.raises(Refused, match="as a JSON object"):
        check_answer(memory, Answered(effect_id=asked(memory), verb="edit", value=[1]), context())


def test_a_fork_closes_the_copied_question_and_asks_exactly_the_same_with_its_own_time() -> None:
    memory = Patient()
    inquiry = asked(memory)
    again = ask_again(memory, inquiry, step := context(500.0, 7))
    assert list(memory.inquiries) == [again]
    cancelled, repeated = step.effects
    assert cancelled == CancelEffect(effect_id=inquiry)
    assert repeated == AskPerson(
        question="Do it?",
        kind="approval",
        about="a",
        subject={"what": "it"},
        verbs=("approve", "edit", "reject"),
        risk="high",
        expires_at=560.0,
    )


def test_who_counts_as_a_submitter_may_be_barred_from_approving() -> None:
    """A6, "an approval or an edit is refused if its sender has submitted the run": also by a schedule, in child runs as well."""
    memory = Patient(guards=Guards(submitter="schedule nightly", submitters=("ada@operator", "bob@operator"), submitter_may_approve=False))
    inquiry = asked(memory)
    answer = Answered(effect_id=inquiry, verb="approve", digest=digest_of({"what": "it"}))
    for actor in ("ada@approver", "bob@operator"):
        with pytest.raises(Refused, match=f"{actor} has submitted this run"):
            check_answer(memory, answer, context(actor=actor, permissions=ALL))
    check_answer(memory, answer, context(permissions=ALL))  # of ann
