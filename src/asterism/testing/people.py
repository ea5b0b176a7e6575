"""People of a simulated world, and scheduled events, crashes and store faults: plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import msgspec

from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.machine import Event
from asterism.engine.ports.store import InquiryRow
from asterism.errors import InvalidInput
from asterism.testing import validation


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a person to an inquiry.

    Attributes:
        after_s: seconds from the inquiry to the answer.
        by: name of the person.
        bypasses_client: write the answer directly into the inbox under a new key, as no well-behaved program does.
    """

    verb: Verb
    after_s: float = 1.0
    value: Any = None
    reason: str = ""
    by: str = "ada"
    bypasses_client: bool = False

    def __post_init__(self) -> None:
        validation.check_one_of("answer: verb", self.verb, get_args(Verb))
        validation.check_seconds("answer: after_s", self.after_s)


ScheduledKind = Literal[
    "cancel", "pause", "unpause", "edit", "raise_limits", "lose", "find", "mute", "unmute", "forget", "crash", "rival", "fence", "inbox_row"
]

Answerer = Callable[[InquiryRow], Iterable[Answer]]
"""Function from an inquiry to its answers: none, one, several, or some too late."""


def check_answerer(people: object) -> Answerer:
    """Return ``people`` if it is a function; else raise InvalidInput."""
    if not callable(people):
        raise InvalidInput(f"people: {people!r} is not a function; use everyone_says('approve') or lambda inquiry: [Answer(…)]")
    return people


def nobody(_: InquiryRow) -> Iterable[Answer]:
    """Return no answers."""
    return ()


def everyone_says(verb: Verb, *, after_s: float = 1.0, value: Any = None) -> Answerer:
    """Return a function that gives every inquiry the same answer."""
    return lambda _: (Answer(verb=verb, after_s=after_s, value=value),)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a user to a conversation.

    Attributes:
        text: text of the message.
        values: fields by name, in place of text.
        command: ``Pause()``, ``Unpause()`` or ``Cancel()``, in place of text.
        after_s: seconds to wait after the conversation has asked something, has paused or has ended.
        waits: False sends the line ``after_s`` seconds after the previous one, whatever the conversation does.
    """

    text: str = ""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    command: Event | None = None
    after_s: float = 1.0
    waits: bool = True

    def __post_init__(self) -> None:
        validation.check_seconds("line: after_s", self.after_s)
        if self.command is not None:
            validation.check_type("line: command", self.command, Event, "use Pause(), Unpause() or Cancel()")


def check_lines(lines: object) -> list[Line]:
    """Return lines from texts, from lines, or from a single one. Raises InvalidInput if there is none or one is invalid."""
    listed = validation.check_each("lines", lines, object)
    found = validation.check_each("lines", [Line(text=line) if isinstance(line, str) else line for line in listed], Line)
    if not found:
        raise InvalidInput("lines: empty; the first line starts the conversation")
    return found


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """One crash of the process that drives the run, as by kill -9.

    Attributes:
        entry: seq of the entry after whose append the process is killed.
        during: in place of an entry, the name of the work during which the process is killed: a task, device, step,
            worker, tool or handler, ``on_running`` for any handler that has entered it, or another call of a loop
            (``make_plan``, ``reflect``, …). A name that never occurs is ignored.
        after_s: seconds from the entry, or the start of the work, to the crash. With 0 and an entry, the effects
            of the entry are not performed.
        run_id: run of the entry; empty for the root, ``*`` for any run.
    """

    entry: int = 0
    during: str = ""
    after_s: float = 0.0
    run_id: str = ""

    def __post_init__(self) -> None:
        validation.check_seconds("crash: after_s", self.after_s)
        if bool(self.during) == bool(validation.check_int("crash: entry", self.entry, least=0)):
            raise InvalidInput("crash: give either entry (from 1) or during")


class ScheduledEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event from outside at a given time.

    A person sends ``cancel``, ``pause``, ``unpause``, ``edit`` and ``raise_limits`` (no limit on tokens). ``lose`` and
    ``find`` concern a device; of a remote one they concern its network. ``mute`` and ``unmute`` concern the replies of a
    remote device; with ``forget`` its other side forgets every attempt. ``crash`` kills the driving process. ``rival``
    starts another process that tries to drive the run. ``fence`` does so after the living owner was declared dead, which
    no lock of ours allows. ``inbox_row`` writes a row directly into the inbox, valid or not.

    Attributes:
        at_s: virtual seconds from the start of the world.
        what: kind of event.
        device: device that is lost or found, or whose other side is concerned.
        actions: actions of an edit, as one batch, ``{"tool": …, "parameters": {…}}`` each.
        run_id: run concerned; empty for the root, ``*`` for the newest run that has not ended.
        kind, body: kind and body of the inbox row.
        key: key of the inbox row, to send the same row twice; a new key if empty.
    """

    at_s: float
    what: ScheduledKind
    device: str = ""
    run_id: str = ""
    actions: tuple[dict[str, Any], ...] = ()
    key: str = ""
    kind: str = ""
    body: str = "{}"

    def __post_init__(self) -> None:
        validation.check_one_of("scheduled event: what", self.what, get_args(ScheduledKind))
        validation.check_seconds("scheduled event: at_s", self.at_s)
        validation.check_each("scheduled event: actions", self.actions, dict)
        if bool(self.actions) != (self.what == "edit"):
            raise InvalidInput('scheduled event: give actions, [{"tool": …, "parameters": {…}}], for an edit and only for an edit')


class StoreFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Random faults below the SQL of a store, drawn for each commit of entries; ``slow`` for each operation.

    Attributes:
        fails: chance that commits start to fail, ``times`` in a row.
        times: number of failures in a row.
        lost_reply: chance that entries are committed but reported as failed.
        slow: chance that the reply takes up to a second.
    """

    fails: float = 0.0
    times: int = 2
    lost_reply: float = 0.0
    slow: float = 0.0

    def __post_init__(self) -> None:
        validation.check_int("store faults: times", self.times, least=1)
        for chance in (self.fails, self.lost_reply, self.slow):
            validation.check_chances("store faults", [chance])
