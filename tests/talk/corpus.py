"""The phrases of tests/talk/corpus, each said to an agent that books a meeting room: what it takes, and what it asks.

    python -m tests.talk.corpus [FILE …] [--all]

A line is ``phrase => expectation`` under the header of its section. A phrase has one of these outcomes:

- understood: the values (or the wish) that are expected, at once;
- confirmed: exactly the values that are expected, after the agent has read them back;
- asked: nothing is taken, or something else is read back;
- wrong: a value that is not expected, taken without a question. There must be none.

To add a phrase, write what a person would understand before you run it. docs/testing.md has the sections and expectations.
Phrases of a fresh round belong in files of their own, which nobody who changes the grammars has read.
"""

from __future__ import annotations

import asyncio
import collections
import datetime as dt
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from asterism.conversation.machine.events import AgentStatus
from asterism.conversation.python import InputField, Message, StandardAgent
from asterism.conversation.python.agent_state import AgentResult
from asterism.words.reading.setting import Setting

FOLDER = Path(__file__).with_name("corpus")
ZONE = "Europe/Berlin"
NOW = dt.datetime.fromisoformat("2026-11-22T10:00+01:00").timestamp()
ACTS = ("cancel", "skip", "back", "repeat", "help", "question", "thanks", "greet", "remark", "yes", "no", "ask", "nothing")


class Room(StandardAgent):
    requires_approval = True
    triggers: ClassVar[list[str]] = ["book", "room", "meeting"]
    day: dt.date = InputField("On which day?", required=True)
    start: dt.time = InputField("At what time?", hours=(8, 18))
    minutes: int = InputField("For how long?", ge=5, le=720)
    people: int = InputField("How many people?", ge=1, le=40)
    room: Literal["Birch", "Cedar", "Oak Hall"] = InputField("Which room?")
    budget: Decimal = InputField("Which budget, in euros?", unit="EUR", ge=0)
    catering: bool = InputField("With catering?")
    name: str = InputField("Who books it?")
    notes: str | None = InputField("Any notes?")

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, "Booked.")


class Leave(StandardAgent):
    requires_approval = True
    triggers: ClassVar[list[str]] = ["leave"]
    first: dt.date = InputField("From which day?")
    last: dt.date = InputField("Until which day?")
    reason: str | None = InputField("Why?")

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, "Requested.")


def order(head: str, options: list[str]) -> StandardAgent:
    """Return an agent that asks for an amount, an option or a yes: the sections ``money``, ``size``, ``way`` and ``confirm``."""
    other: Any = Literal[tuple(options)] if options else str

    async def on_running(self: Any, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, "Ordered.")  # type: ignore[no-any-return]

    fields: dict[str, Any] = {
        "money": (Decimal, InputField("How much, in euros?", unit="EUR", ge=0)),
        "confirm": (bool, InputField("Shall I go ahead?")),
        "day": (dt.date, InputField("On which day?")),
        **({head: (other, InputField("Which one?"))} if options else {}),
        "name": (str, InputField("Your name?")),
    }
    space = {"__annotations__": {name: kind for name, (kind, _) in fields.items()}, **{name: field for name, (_, field) in fields.items()}}
    made: Any = type("Order", (StandardAgent,), {"requires_approval": True, "on_running": on_running, **space})
    return made()  # type: ignore[no-any-return]


ORDER_HEADS = ("money", "size", "way", "confirm")


class Line(NamedTuple):
    section: str
    phrase: str
    expected: str
    number: int


class Outcome(NamedTuple):
    line: Line
    kind: Literal["understood", "confirmed", "asked", "wrong"]
    got: str
    extra: str = ""
    """Values for fields that were not asked for, where the line speaks of one field only."""


def read(path: Path) -> Iterator[Line]:
    """Return the lines of a corpus file."""
    section = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := re.fullmatch(r"\[(.+)\]", line):
            section = found[1]
        elif line.strip() and not line.startswith("#"):
            phrase, _, expected = line.partition(" => ")
            yield Line(section, phrase.strip(), expected.strip(), number)


def pairs(text: str) -> dict[str, str]:
    """Return the values of ``day=2026-11-27 room=Oak Hall`` by field."""
    names = "|".join({*Room.input_fields(), *Leave.input_fields()})
    return {part[1]: part[2] for part in re.finditer(rf"\b({names})=(.*?)(?= (?:{names})=|$)", text)}


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:%H:%M}" if isinstance(value, dt.time) else str(value)


def same(name: str, one: str, two: str) -> bool:
    if name in ("budget", "money"):
        return Decimal(one) == Decimal(two)
    return one == two


class Scene:
    """An agent before a phrase, with what is known already."""

    def __init__(self, line: Line, language: str) -> None:
        head, _, rest = line.section.partition(" ")
        known, _, asked = rest.partition("asking ")
        values = pairs(known) if head in ("after", "approval") else {}
        is_leave = head in ("range", "first", "last") or "first" in values
        self.head = head
        self.agent: Any = order(head, rest.split()) if head in ORDER_HEADS else Leave() if is_leave else Room()
        self.state = self.agent._state
        self.state.setting = Setting(language, ZONE, NOW)
        for name, value in values.items():
            self.agent.collected_fields[name] = self.agent.input_fields()[name].parse(self.agent, value, self.state.setting)
        self.asked = {"after": asked.strip(), "range": "first", "message": "", "approval": ""}.get(head, head)
        if head == "approval":
            for name, field in self.agent.input_fields().items():
                if name not in values:  # what the header does not name is no part of the scene
                    self.agent.collected_fields[name] = None if field.optional else self._filler(name)
        self.state.asked_field = self.asked
        self.before = dict(self.agent.collected_fields)

    def _filler(self, name: str) -> Any:
        return {"minutes": 60, "budget": Decimal(100), "catering": False, "name": "Ann"}[name]

    async def say(self, text: str) -> AgentResult | None:
        message = Message(text=text, at=NOW)
        if self.head == "message":
            return await self.agent.on_initializing(message)  # type: ignore[no-any-return]
        if self.head == "approval":
            self.state.status = AgentStatus.WAITING_FOR_APPROVAL
            return await self.agent.on_waiting_for_approval(message)  # type: ignore[no-any-return]
        self.state.status = AgentStatus.WAITING_FOR_INPUT
        return await self.agent.on_waiting_for_input(message)  # type: ignore[no-any-return]

    def changed(self) -> dict[str, str]:
        now = self.agent.collected_fields
        return {name: shown(value) for name, value in now.items() if value is not None and self.before.get(name) != value}

    def guessed(self) -> dict[str, str]:
        fields = self.agent.input_fields()
        return {name: shown(fields[name].check(self.agent, guess["value"])) for name, guess in self.state.pending.items()}


def outcome(line: Line, language: str) -> Outcome:
    """Say a phrase, and return what became of it."""
    scene = Scene(line, language)
    result = asyncio.run(scene.say(line.phrase))
    reply, status = (result.raw_message, result.status) if result else ("", scene.state.status)
    taken, guessed = scene.changed(), scene.guessed()
    act = _act(scene, reply, status, taken, guessed)
    got = " ".join(
        [*(f"{name}={value}" for name, value in taken.items()), *(f"{name}?{value}" for name, value in guessed.items()), f"[{act}]"]
    )
    is_one = scene.head in (*Room.input_fields(), "first", "last", *ORDER_HEADS)
    extra = {name: value for name, value in taken.items() if is_one and name != scene.head}
    if is_one:
        taken = {name: value for name, value in taken.items() if name == scene.head}
        guessed = {name: value for name, value in guessed.items() if name == scene.head}
    more = " ".join(f"{name}={value}" for name, value in extra.items())
    if line.expected in ACTS and not (is_one and line.expected in ("yes", "no")):
        return Outcome(line, _of_act(line.expected, act, taken), got, more)
    expected = {scene.head: line.expected} if is_one else pairs(line.expected)
    if any(name not in expected or not same(name, expected[name], value) for name, value in taken.items()) or act in (
        "cancelled",
        "yes",
        "no",
    ):
        return Outcome(line, "wrong", got, more)
    found = {**guessed, **taken}
    # What the corpus does not list is unclear: it must be asked about, as a guess that is read back is.
    complete = expected.keys() <= found.keys() and all(same(name, value, found[name]) for name, value in expected.items())
    is_guess = bool(expected.keys() & guessed.keys())
    return Outcome(line, ("confirmed" if is_guess else "understood") if complete else "asked", got, more)


def _act(scene: Scene, reply: str, status: AgentStatus, taken: dict[str, str], guessed: dict[str, str]) -> str:
    """Return what the agent has done; ``skipped`` is a field without a value, ``skip`` the refusal to leave one out."""
    if scene.state.cancel_requested:
        return "cancel"
    if status in (AgentStatus.CANCELLED, AgentStatus.RUNNING, AgentStatus.COMPLETED):
        return "no" if status is AgentStatus.CANCELLED else "yes"
    if any(value is None and name not in scene.before for name, value in scene.agent.collected_fields.items()):
        return "skipped"
    return "values" if taken or guessed else _said(scene, reply)


def _said(scene: Scene, reply: str) -> str:
    """Return what the agent has said, by its sentences."""
    words, fields = scene.state.setting.words, scene.agent.input_fields()
    if any(words.text("wrong_field", label=field.label) in reply for field in fields.values()):
        return "ask"
    if len(scene.agent.collected_fields) < len(scene.before):
        return "back"
    field = fields.get(scene.asked)
    found = [act for act in ("thanks", "greet", "unsure", "remark", "question") if words.say[act] in reply]
    if field is not None:
        found += ["skip"] * (words.text("cannot_skip", label=field.label) in reply) + ["repeat"] * (reply == field.prompt)
        found += ["help"] * (words.say["needed"].partition("{")[0] in reply)
    has_explained = ": " in reply and "?" not in reply.partition(": ")[0] and scene.state.retries == 0
    return next(iter(found), "question" if has_explained else "ask")


CHANGES = ("cancel", "yes", "no", "skipped", "back")
"""What changes a conversation without a value."""


def _of_act(expected: str, act: str, taken: dict[str, str]) -> Literal["understood", "asked", "wrong"]:
    is_same = act == expected or (act == "skipped" and expected == "skip")
    if taken or (act in CHANGES and not is_same):
        return "wrong"
    if is_same or expected in ("ask", "nothing") or (expected in ("remark", "question") and act in ("remark", "question")):
        return "understood"
    return "asked"


def run(paths: list[Path]) -> list[tuple[str, Outcome]]:
    """Return the outcomes of files by language."""
    found = []
    for path in paths:
        language = re.search(r"(en|de|es)$", path.stem)
        assert language, f"{path.name} names no language"
        found += [(language[1], outcome(line, language[1])) for line in read(path)]
    return found


def figures(outcomes: list[tuple[str, Outcome]]) -> str:
    """Return the figures of outcomes as lines."""
    lines = []
    for language in [*dict.fromkeys(language for language, _ in outcomes), "all"]:
        own = [it for code, it in outcomes if language in (code, "all")]
        clear = [it for it in own if it.line.expected not in ("ask", "nothing")]
        kinds = collections.Counter(it.kind for it in clear)
        understood = kinds["understood"] + kinds["confirmed"]
        wrong, share = sum(it.kind == "wrong" for it in own), understood / max(1, len(clear))
        lines.append(
            f"{language}: {len(own)} phrases; silently wrong {wrong}; of {len(clear)} that a person understands: {understood} understood "
            f"({share:.1%}; {kinds['confirmed']} of them after they were read back), {kinds['asked']} asked"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    paths = [Path(it) for it in arguments if not it.startswith("--")] or sorted(FOLDER.glob("*.txt"))
    outcomes = run(paths)
    for language, it in outcomes:
        if it.kind in ("wrong", "asked") or "--all" in arguments:
            where = f"{language}:{it.line.number} [{it.line.section[:30]}]"
            print(f"{it.kind:10} {where} {it.line.phrase!r} => {it.line.expected}; got {it.got}")
        if it.extra:
            print(f"{'also':10} {language}:{it.line.number} {it.line.phrase!r} also gave {it.extra}")
    print(figures(outcomes))


if __name__ == "__main__":
    main(sys.argv[1:])
