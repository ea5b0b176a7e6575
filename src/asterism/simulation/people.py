"""The people of a simulated world, and what else happens to it from outside. Plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import msgspec

from asterism.errors import InvalidInput
from asterism.kernel.machine import Event
from asterism.machines.run_control import Verb
from asterism.runtime.ports.store import InquiryRow
from asterism.simulation import given


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says to a question.

    Attributes:
        after_s: seconds after it was asked.
        by: who says it.
        past_the_desk: written straight into the inbox under a key of its own, as no honest program does.
    """

    verb: Verb
    after_s: float = 1.0
    value: Any = None
    reason: str = ""
    by: str = "ada"
    past_the_desk: bool = False

    def __post_init__(self) -> None:
        given.one_of("an answer's verb", self.verb, get_args(Verb))
        given.seconds("an answer's after_s", self.after_s)


What = Literal["cancel", "pause", "unpause", "edit", "allow", "lose", "find", "crash", "rival", "rob", "letter"]

Answerer = Callable[[InquiryRow], Iterable[Answer]]
"""What is said to each question: nothing, once, twice, too late."""


def answerer(people: object) -> Answerer:
    """The same. Raises InvalidInput where it is no function."""
    if not callable(people):
        raise InvalidInput(f"people: {people!r} is no function of a question; say everyone_says('approve'), or lambda inquiry: [Answer(…)]")
    return people


def nobody(_: InquiryRow) -> Iterable[Answer]:
    """Nobody ever answers."""
    return ()


def everyone_says(verb: Verb, *, after_s: float = 1.0, value: Any = None) -> Answerer:
    """One person who says the same to every question."""
    return lambda _: (Answer(verb=verb, after_s=after_s, value=value),)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says to a conversation.

    Attributes:
        text: the words.
        values: fields by name, in place of words.
        command: in place of words: ``Pause()``, ``Unpause()``, ``Cancel()``.
        after_s: seconds after the conversation has come to rest, which is when it asks something, is paused, or has ended.
        waits: False for what is said whether or not it rests: so many seconds after the line before.
    """

    text: str = ""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    command: Event | None = None
    after_s: float = 1.0
    waits: bool = True

    def __post_init__(self) -> None:
        given.seconds("a line's after_s", self.after_s)
        if self.command is not None:
            given.of_kind("a line's command", self.command, Event, "say Pause(), Unpause() or Cancel()")


def said(lines: object) -> list[Line]:
    """Lines, or the texts of them, or the only one. Raises InvalidInput where there is none, or one is something else."""
    found = given.each("lines", [Line(text=line) if isinstance(line, str) else line for line in given.each("lines", lines, object)], Line)
    if not found:
        raise InvalidInput("lines: there is none, and the first begins the conversation")
    return found


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """The process that drives the run dies once, as by kill -9.

    Attributes:
        entry: seq of the entry after whose append it dies.
        during: in place of an entry: what it dies in, after that has begun: the name of a task or of a device, of a step or of a
            worker or a tool, of a handler, ``on_running`` whichever handler has entered it, or what else a loop asks for
            (``make_plan``, ``reflect``, …). A name that nothing has kills nobody.
        after_s: 0: at once, before what the entry asks for is performed; else so many seconds later.
        run_id: whose entry; empty for the root's, ``*`` for anybody's.
    """

    entry: int = 0
    during: str = ""
    after_s: float = 0.0
    run_id: str = ""

    def __post_init__(self) -> None:
        given.seconds("a crash's after_s", self.after_s)
        if bool(self.during) == bool(given.whole("a crash's entry", self.entry, least=0)):
            raise InvalidInput("a crash: say entry, from 1 on, or during; not both")


class ScheduledEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something from outside at a time.

    ``cancel``, ``pause``, ``unpause``, ``edit`` and ``allow`` (planning may use any number of tokens) come from a person; ``lose`` and
    ``find`` befall a device; ``crash`` kills who drives; ``rival`` is another process that wants to drive; ``rob`` is the same
    after the driver was declared dead while it lived, which no lock of ours allows; a ``letter`` is put into the inbox as it is,
    past the desk.

    Attributes:
        device: the one that is lost or found.
        actions: of an edit, as one batch, ``{"tool": …, "parameters": {…}}`` each.
        run_id: who is commanded, edited, or to be driven; empty for the root, ``*`` for the youngest run that has not ended.
        kind, body: of a letter.
        key: of its inbox row, so that the same can be sent twice; a fresh one if empty.
    """

    at_s: float
    what: What
    device: str = ""
    run_id: str = ""
    actions: tuple[dict[str, Any], ...] = ()
    key: str = ""
    kind: str = ""
    body: str = "{}"

    def __post_init__(self) -> None:
        given.one_of("a happening's what", self.what, get_args(What))
        given.seconds("a happening's at_s", self.at_s)
        given.each("a happening's actions", self.actions, dict)
        if bool(self.actions) != (self.what == "edit"):
            raise InvalidInput('a happening: an edit has actions, [{"tool": …, "parameters": {…}}], and nothing else has')


class StoreTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the store, by chance, for each append (and ``slow`` for each look into the inbox, too).

    Attributes:
        fails: chance that it begins to fail, for ``times`` tries in a row.
        lost_word: chance that it is written, and says that it failed.
        slow: chance that its answer takes up to a second.
    """

    fails: float = 0.0
    times: int = 2
    lost_word: float = 0.0
    slow: float = 0.0

    def __post_init__(self) -> None:
        given.whole("a store's times", self.times, least=1)
        for chance in (self.fails, self.lost_word, self.slow):
            given.chances("a store's trouble", [chance])
