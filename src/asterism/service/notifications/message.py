"""Decide where a notice goes and what its message says. Pure: no clock, no store, no network."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.data import one_line
from asterism.engine.ports.notices import Channel, Delivery, Notice, NoticeKind
from asterism.engine.ports.store import InquiryRow

MAX_AGE_S = 86_400.0
"""Seconds after which a notice that was never sent is left out: the first server of an old database is no news."""
MAX_TRIES = 10
RETRIES = Backoff(5.0, 3_600.0)
QUESTION_DELAY_S = 5.0
"""Seconds for which a question is not sent: one that is answered at once, as at a terminal, needs no message."""
MAX_TEXT = 300
SENDING_S = 30.0
"""Seconds that one try may take. After twice that, another process takes the delivery over."""

_TITLES: dict[NoticeKind, str] = {
    "question": "A question waits",
    "failed": "A run has failed",
    "stuck": "A run is stuck",
    "device_lost": "A device is lost",
    "not_started": "A schedule could not start a run",
}


class NoticeMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message, as a webhook sends it in JSON.

    Attributes:
        id: the same for each repetition of a message, so that a receiver can drop it.
        kind: kind of the notice.
        run: id of the run; empty for a device and a schedule.
        title: what it is about, one line.
        text: the details, without arguments and results, which may be confidential; of a failed run, why.
        link: the page of the question, run, schedule or device in the console; empty without an API.
        api: the question, run or schedule in the API, for programs; empty where it has none.
        at: when it happened, in seconds since the epoch.
        repeated: True if an earlier copy may have arrived.
    """

    id: str
    kind: str
    run: str = ""
    title: str
    text: str
    link: str = ""
    api: str = ""
    at: float
    repeated: bool = False


def routed(notice: Notice, channels: Sequence[Channel], now: float, *, named: Sequence[str] = ()) -> list[Delivery]:
    """Return the deliveries of a notice; none if it is too old.

    Args:
        notice: the notice.
        channels: the channels that there are.
        now: seconds since the epoch.
        named: the channels that the run names. If there is none of them, all are used: a message too many is better
            than one that is missing.
    """
    if now - notice.at > MAX_AGE_S:
        return []
    chosen = [it for it in channels if it.name in named and (not it.on or notice.kind in it.on)]
    if not any(it.name in named for it in channels):
        chosen = [it for it in channels if notice.kind in it.on]
    at = notice.at + QUESTION_DELAY_S if notice.kind == "question" else now
    return [Delivery(notice=notice.number, channel=it.name, next_at=at) for it in chosen]


def sending(delivery: Delivery, now: float) -> Delivery:
    """Return a delivery as it is recorded before its message is sent."""
    return msgspec.structs.replace(delivery, status="sending", tries=delivery.tries + 1, next_at=now + 2 * SENDING_S)


def ended(delivery: Delivery, now: float, error: str) -> Delivery:
    """Return a delivery after a try; an error is tried again after a growing delay, up to ``MAX_TRIES``."""
    if not error:
        return msgspec.structs.replace(delivery, status="sent", error="")
    if delivery.tries >= MAX_TRIES:
        return msgspec.structs.replace(delivery, status="failed", error=error[:MAX_TEXT])
    return msgspec.structs.replace(delivery, status="waiting", next_at=now + RETRIES.wait_s(delivery.tries), error=error[:MAX_TEXT])


def skipped(delivery: Delivery) -> Delivery:
    """Return a delivery whose message is of no use any more."""
    return msgspec.structs.replace(delivery, status="skipped")


def message_of(
    notice: Notice, delivery: Delivery, *, title: str = "", asked: InquiryRow | None = None, reason: str = "", url: str = ""
) -> NoticeMessage:
    """Return the message of a delivery.

    Args:
        notice: the notice.
        delivery: the delivery; one that was ``sending`` is a repetition.
        title: title of the run.
        asked: the question, for a notice of one.
        reason: why the run has failed.
        url: address of the server; empty if it has none.
    """
    about = title or notice.run_id or notice.subject
    lines = [asked.prompt if asked else reason or notice.text]
    page = api = f"runs/{quote(notice.run_id)}" if notice.run_id else ""
    if asked:
        lines.append(_answer_command(asked))
        api, page = (f"{path}{quote(asked.inquiry_id, safe=':')}" for path in ("inquiries/", "inbox?question="))
    elif notice.run_id:
        lines.append(f"asterism show {notice.run_id}")
    elif notice.kind == "not_started":
        lines.append(f"asterism schedule history {notice.subject}")
        api, page = (f"{path}{quote(notice.subject)}" for path in ("schedules/", "schedules?schedule="))
    else:
        page = f"devices?device={quote(notice.subject)}"
    repeated = delivery.status == "sending"
    if repeated:
        lines.insert(0, "(Repeated: an earlier copy of this message may have arrived.)")
    return NoticeMessage(
        id=f"{notice.number}-{delivery.channel}",
        kind=notice.kind,
        run=notice.run_id,
        title=one_line(f"{_TITLES[notice.kind]}: {about}", MAX_TEXT),
        text="\n".join(one_line(it, MAX_TEXT) for it in lines if it),
        link=f"{url.rstrip('/')}/{page}" if url else "",
        api=f"{url.rstrip('/')}/api/{api}" if url and api else "",
        at=notice.at,
        repeated=repeated,
    )


def _answer_command(asked: InquiryRow) -> str:
    if not asked.verbs:  # a secret, which is typed where the run is driven
        return f"asterism resume {asked.run_id}"
    return f"asterism answer {asked.inquiry_id} {'|'.join(asked.verbs)}"
