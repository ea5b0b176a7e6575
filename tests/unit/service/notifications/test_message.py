"""Where a notice goes, when it is tried again, and what its message says."""

from __future__ import annotations

import itertools

import msgspec

from asterism.engine.control.run_control import Verb
from asterism.engine.ports.notices import Channel, Delivery, Notice
from asterism.engine.ports.store import InquiryRow
from asterism.service.notifications.message import MAX_AGE_S, MAX_TEXT, MAX_TRIES, ended, message_of, routed, sending

OPS = Channel(name="ops", url="json://ops")
QUESTIONS = Channel(name="questions", url="json://questions", on=("question",))
QUESTION = Notice(number=7, kind="question", run_id="r1", subject="r1:2.0", at=100.0)
FAILED = Notice(number=8, kind="failed", run_id="r1", at=100.0)
WAITING = Delivery(notice=7, channel="ops")


def test_a_notice_goes_to_the_channels_of_its_kind_and_a_question_a_little_later() -> None:
    assert [(it.channel, it.next_at) for it in routed(QUESTION, [OPS, QUESTIONS], 101.0)] == [("ops", 105.0), ("questions", 105.0)]
    assert [(it.channel, it.next_at) for it in routed(FAILED, [OPS, QUESTIONS], 101.0)] == [("ops", 101.0)]
    assert routed(FAILED, [], 101.0) == []


def test_a_run_names_channels_also_one_that_no_other_run_uses() -> None:
    channels = [OPS, QUESTIONS, Channel(name="night", url="json://night", on=())]

    def to(notice: Notice, *named: str) -> list[str]:
        return [it.channel for it in routed(notice, channels, 101.0, named=named)]

    assert to(FAILED) == to(FAILED, "gone") == ["ops"]
    assert to(FAILED, "night") == to(QUESTION, "night") == ["night"]
    assert to(QUESTION, "ops", "questions") == ["ops", "questions"]
    assert to(FAILED, "questions") == []


def test_what_is_old_is_no_news() -> None:
    assert routed(FAILED, [OPS], 100.0 + MAX_AGE_S)
    assert not routed(FAILED, [OPS], 100.1 + MAX_AGE_S)


def test_a_try_that_failed_is_repeated_after_a_growing_delay_and_given_up_at_last() -> None:
    delivery, delays = WAITING, []
    for _ in range(MAX_TRIES):
        delivery = ended(sending(delivery, 1000.0), 1000.0, "refused")
        delays.append(delivery.next_at - 1000.0)
    assert delivery.status == "failed"
    assert delivery.error == "refused"
    waits = delays[:-1]
    assert waits[:3] == [5.0, 10.0, 20.0]
    assert all(after == min(2 * it, 3600.0) for it, after in itertools.pairwise(waits))
    assert ended(sending(WAITING, 0.0), 0.0, "").status == "sent"


def test_a_message_names_the_run_the_question_and_what_to_do() -> None:
    url = "https://asterism.example/"
    message = message_of(QUESTION, WAITING, title="nightly", asked=asked("Deploy to production?", "approve", "reject"), url=url)
    assert message.title == "A question waits: nightly"
    assert message.text == "Deploy to production?\nasterism answer r1:2.0 approve|reject"
    assert message.link == "https://asterism.example/inbox?question=r1:2.0"  # D9: a page, which a phone can show
    assert message.api == "https://asterism.example/api/inquiries/r1:2.0"
    assert message.id == "7-ops"
    secret = message_of(QUESTION, WAITING, asked=asked("Which password?"))
    assert (secret.text, secret.link) == ("Which password?\nasterism resume r1", "")
    failed = message_of(FAILED, msgspec.structs.replace(WAITING, notice=8), url=url)
    assert (failed.title, failed.text, failed.link) == ("A run has failed: r1", "asterism show r1", "https://asterism.example/runs/r1")
    assert failed.api == "https://asterism.example/api/runs/r1"
    lost = message_of(Notice(number=9, kind="device_lost", subject="robot", text="no answer", at=100.0), WAITING, url=url)
    assert (lost.title, lost.text, lost.link) == ("A device is lost: robot", "no answer", "https://asterism.example/devices?device=robot")


def asked(prompt: str, *verbs: Verb) -> InquiryRow:
    return InquiryRow(inquiry_id="r1:2.0", run_id="r1", question=prompt, verbs=verbs, risk="low", asked_at=100.0)


def test_a_message_that_may_have_arrived_says_so_under_the_same_id() -> None:
    first = message_of(QUESTION, WAITING)
    again = message_of(QUESTION, sending(WAITING, 0.0))
    assert (first.repeated, again.repeated) == (False, True)
    assert first.id == again.id
    assert again.text.startswith("(Repeated: an earlier copy of this message may have arrived.)")
    assert not message_of(QUESTION, ended(sending(WAITING, 0.0), 0.0, "refused")).repeated


def test_text_of_others_is_one_short_printable_line() -> None:
    hostile = "a\r\nBcc: x@example.org\x1b[31m\u202e" + "x" * 5000
    message = message_of(QUESTION, WAITING, title=hostile, asked=asked(hostile, "approve"))
    assert message.title.isprintable()
    assert len(message.title) <= MAX_TEXT
    lines = message.text.split("\n")
    assert len(lines) == 2
    assert all(line.isprintable() and len(line) <= MAX_TEXT for line in lines)


def test_a_message_about_a_schedule_names_it_the_reason_and_its_history() -> None:
    notice = Notice(number=9, kind="not_started", subject="nightly", text="ship.py: there is no such file", at=100.0)
    message = message_of(notice, WAITING, url="https://asterism.example/")
    assert message.title == "A schedule could not start a run: nightly"
    assert message.text == "ship.py: there is no such file\nasterism schedule history nightly"
    assert message.link == "https://asterism.example/schedules?schedule=nightly"
