"""Ask the open questions of a run at the terminal, while the run is driven.

A question that is left for later (``later``, Ctrl-C, Ctrl-D) stays open, and is not asked again by the same command.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from asterism.cli.file_previews import file_lines
from asterism.cli.keyboard import discard_typed_ahead, terminal_line
from asterism.cli.output import complain, message, put
from asterism.cli.run_access import actor
from asterism.constellation.view.proposals import ALWAYS, editable_of, subject_lines, subject_of
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.conversation import Conversation
from asterism.conversation.python.registry import agent_class
from asterism.engine.control.run_control import Answered, Verb
from asterism.engine.kernel.refusal import verdict_words
from asterism.engine.ports.store import ACCEPTED, InquiryRow
from asterism.engine.runtime.client import VERDICT_POLL_S, polls
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import AsterismError, InvalidInput, Refused, first_of
from asterism.views.text.show import pending_answers
from asterism.views.words import plain
from asterism.words.reading import replies

MAX_PROMPT = 2000
"""Characters of a question that are printed at most."""
MAX_TRIES = 100
"""Lines that are neither an answer nor a command, after which a question is left for later."""
CLOSED_POLL_S = 0.5
"""Seconds between two looks whether somebody else has answered the question."""
VERDICT_S = 5.0
"""Seconds to wait for the verdict on an answer while a process drives the run."""
_LATER = "later"


class Questions:
    """The open questions of a run and of the runs below it.

    Args:
        runtime: runtime that drives the run.
        root: id of the run.
        asked: set when a run asks something.
        screen: held while a person is asked.
        prepare: called before a question is printed: it ends the live display.
    """

    def __init__(
        self, runtime: Runtime, root: str, asked: asyncio.Event, screen: asyncio.Lock, prepare: Callable[[], Awaitable[None]]
    ) -> None:
        self._runtime = runtime
        self._root = root
        self._asked = asked
        self._screen = screen
        self._prepare = prepare
        self._left: set[str] = set()
        self._drafts: dict[str, str] = {}  # what was typed in the editor, by question
        self._sent: dict[str, tuple[str, str]] = {}  # run id and inbox key of the last answer, by question
        self._moved = False
        self._typing: asyncio.Task[str | None] | None = None
        self._is_editing = False

    async def keep_asking(self) -> None:
        """Ask each question as soon as it is open; runs until cancelled."""
        while True:
            await self.ask_open()
            await self._asked.wait()
            self._asked.clear()

    async def ask_open(self) -> None:
        """Ask all open questions, one after the other, except those that were left for later."""
        async with self._screen:
            try:
                while (asked := await self._next()) is not None:  # bounded by the questions of the run
                    await self._prepare()
                    if not await self._ask(asked):
                        self._left.add(asked.inquiry_id)
            except AsterismError as error:  # the question stays open, and the run goes on
                complain(str(error))

    async def must_drive(self) -> bool:
        """Return True if the run has an answer that it has not read, or a question has closed since the last call."""
        moved, self._moved = self._moved, False
        return moved or any([await self._is_unread(*sent) for sent in self._sent.values()])

    def leave(self) -> bool:
        """Leave the question that is being asked for later; return False if there is none."""
        typing, self._typing = self._typing, None
        if typing is not None:
            typing.cancel()
        return typing is not None or self._is_editing

    async def _next(self) -> InquiryRow | None:
        rows = [row for row in await self._runtime.inquiries(root=self._root) if row.inquiry_id not in self._left]
        for row in rows:
            sent = self._sent.get(row.inquiry_id)
            if not (sent and await self._is_unread(*sent)) and not await self._is_answered(row):
                return row
        return None

    async def _is_answered(self, row: InquiryRow) -> bool:
        """Return True for an answer that its run has not read, such as that of ``asterism answer``."""
        return row.inquiry_id in pending_answers(await self._runtime.store.inbox([row.run_id]))

    async def _is_unread(self, run_id: str, key: str) -> bool:
        return not await self._runtime.store.verdict(run_id, key)

    async def _ask(self, asked: InquiryRow) -> bool:
        """Ask one question; return False if it is left for later."""
        if (sent := self._sent.pop(asked.inquiry_id, None)) and (verdict := await self._runtime.store.verdict(*sent)) != ACCEPTED:
            put(f"not accepted: {message(verdict_words(verdict))}")
        if (await self._runtime.store.run(asked.run_id)).machine == FLOW_AGENT.name:
            return await self._converse(asked)
        put(plain(asked.prompt, MAX_PROMPT))
        put("\n".join(f"  {it}" for it in (*subject_lines(asked), *await file_lines(asked, self._runtime.store, self._runtime.files))))
        choices = [*asked.verbs, *(["always"] if "tool" in subject_of(asked) and "approve" in asked.verbs else []), _LATER]
        discard_typed_ahead()
        for _ in range(MAX_TRIES):
            line = await self._typed(f"{_choice_words(choices)} > ", asked)
            if line is None or self._moved:
                return self._moved
            word, _, rest = line.strip().partition(" ")
            choice = _chosen(word, choices)
            if choice == _LATER:
                return False
            if choice and await self._answer(asked, choice, rest.strip()):
                return True
            if not choice:
                put(f"type {', '.join(choices[:-1])} or {_LATER}; the initial is enough")
        return False

    async def _answer(self, asked: InquiryRow, choice: str, rest: str) -> bool:
        """Send an answer; return False if the person has to choose again."""
        value: Any = None
        if choice == "always":
            return await self._send(asked, "approve", ALWAYS, rest)
        if choice == "edit":
            value, rest = await self._edited(asked), ""
            if value is None:
                return False
        elif choice == "respond":
            said = rest or await self._typed("answer, as JSON or text > ", asked)
            if not said:
                return False
            value, rest = _value(said, asked.schema), ""
        elif choice == "reject" and not rest:
            reason = await self._typed("reason, or Enter for none > ", asked)
            if reason is None:
                return False
            rest = reason.strip()
        return await self._send(asked, msgspec.convert(choice, Verb), value, rest)

    async def _send(self, asked: InquiryRow, verb: Verb, value: Any, reason: str) -> bool:
        try:
            sent = await self._runtime.post_answer(asked.inquiry_id, verb, actor=actor(), value=value, reason=reason, digest=asked.digest)
        except InvalidInput as error:
            put(message(error))
            return False
        except Refused as error:  # it has closed meanwhile
            put(message(error))
            self._moved = True
            return True
        await self._is_sent(asked, sent.run_id, sent.key)
        put("")
        return True

    async def _is_sent(self, asked: InquiryRow, run_id: str, key: str) -> None:
        """Note an answer, and wait for its verdict if a process drives the run."""
        self._sent[asked.inquiry_id] = (run_id, key)
        for _ in range(polls(VERDICT_S)):
            if not await self._is_unread(run_id, key) or not (await self._runtime.describe(self._root)).owner:
                break
            await asyncio.sleep(VERDICT_POLL_S)

    async def _converse(self, asked: InquiryRow) -> bool:
        """Ask a question of a conversation; a secret stays in the memory of this process."""
        put(plain(asked.prompt, MAX_PROMPT))
        if "approve" in asked.verbs:
            discard_typed_ahead()
        row = await self._runtime.store.run(asked.run_id)
        agent = agent_class(subject_of(asked)["agent"])
        conversation = Conversation(agent, runtime=self._runtime, run_id=row.run_id, user=actor(), tenant=row.tenant)
        for _ in range(MAX_TRIES):
            line = await self._typed("> ", asked, secret=not asked.verbs)
            if line is None or self._moved:
                return self._moved
            try:
                if said := await conversation.put(self._runtime, line, {}):
                    key, run_id = said
                    await self._is_sent(asked, run_id, key)
                    return True
                put(replies.unclear(line, conversation.language))
            except (InvalidInput, Refused) as error:
                put(message(error))
        return False

    # -- input -------------------------------------------------------------------------------------

    async def _typed(self, prompt: str, asked: InquiryRow, *, secret: bool = False) -> str | None:
        """Return a line; None if the person leaves, or if the question has closed meanwhile."""
        try:
            async with asyncio.TaskGroup() as group:
                self._typing = typing = group.create_task(terminal_line(prompt, secret=secret))
                closing = group.create_task(self._closed(asked))
                await asyncio.wait([typing, closing], return_when=asyncio.FIRST_COMPLETED)
                typing.cancel()
                closing.cancel()
        except* AsterismError as failed:
            raise first_of(failed) from None
        finally:
            self._typing = None
        if typing.cancelled() and not closing.cancelled():
            put("\nthis question is no longer open")
            self._left.add(asked.inquiry_id)
            self._moved = True
        elif typing.cancelled():
            put("")
        return None if typing.cancelled() else typing.result()

    async def _closed(self, asked: InquiryRow) -> None:
        """Return when the question has been answered elsewhere, or has expired."""
        while True:
            row = await self._runtime.inquiry(asked.inquiry_id)
            if row.answer or await self._is_answered(asked) or 0 < row.expires_at <= self._runtime.clock.now():
                return
            await asyncio.sleep(CLOSED_POLL_S)

    async def _edited(self, asked: InquiryRow) -> Any:
        """Return what a question asks about, as the person has changed it in an editor; None if they have not.

        A text that was not accepted is opened again.
        """
        original = json.dumps(editable_of(subject_of(asked)), indent=2, ensure_ascii=False) + "\n"
        text = self._drafts.get(asked.inquiry_id, original)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        with tempfile.TemporaryDirectory(prefix="asterism-") as folder:
            file = Path(folder, "answer.json")
            file.write_text(text, encoding="utf-8")  # noqa: ASYNC240 - a small file, and nothing else is shown meanwhile
            self._is_editing = True  # Ctrl-C is for the editor
            try:
                process = await asyncio.create_subprocess_exec(*shlex.split(editor), str(file))
                code = await process.wait()
                edited = file.read_text(encoding="utf-8")  # noqa: ASYNC240 - as above
            except (OSError, ValueError) as error:
                put(f"the editor {plain(editor)} cannot be used: {message(error)}; set $EDITOR")
                return None
            finally:
                self._is_editing = False
        if code or edited in (original, text):  # an editor that is closed without a change approves nothing
            put(f"the editor {plain(editor)} ended with exit code {code}; nothing was sent" if code else "unchanged; nothing was sent")
            return None
        self._drafts[asked.inquiry_id] = edited
        try:
            return json.loads(edited)
        except (ValueError, RecursionError) as error:
            put(f"not JSON: {message(error)}; nothing was sent")
            return None


def can_ask() -> bool:
    """Return True if a person can read and type at the terminal."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())


def _choice_words(choices: list[str]) -> str:
    return "  ".join(f"[{it[0].upper() if it == 'always' else it[0]}]{it[1:]}" for it in choices)


def _chosen(word: str, choices: list[str]) -> str:
    """Return the choice that a word or its initial names, also yes or no; empty if none or more than one."""
    if word == "A" and "always" in choices:
        return "always"
    word = next((verb for said, verb in DECISIONS.items() if word in (said, said[0]) and verb in choices), word)
    if len(word) == 1:
        return next((it for it in choices if it[0] == word), "")
    return word if word in choices else ""


def _value(given: str, schema: str) -> Any:
    """Return a typed value: text where the schema asks for text, else JSON if it is JSON."""
    wanted: Any = msgspec.json.decode(schema) if schema else {}
    if isinstance(wanted, Mapping) and wanted.get("type") == "string":
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given


AnswerVerb = Literal["approve", "reject", "edit", "respond", "yes", "no"]
"""The words that ``asterism answer`` takes."""
DECISIONS: Mapping[str, Verb] = {"yes": "approve", "no": "reject"}


class TypedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was typed, to one or more questions.

    Attributes:
        word: the word that was typed for the verb.
        value: the value of an edit or a response.
        reason: the reason, for the journal.
    """

    word: AnswerVerb
    value: Any = None
    reason: str = ""

    @property
    def verb(self) -> Verb:
        """Return the verb; approve or reject for a yes or no."""
        return DECISIONS[self.word] if self.word == "yes" or self.word == "no" else self.word  # noqa: PLR1714 - mypy narrows only these

    def to(self, asked: InquiryRow) -> Answered:
        """Return the answer to a question: a yes or no is a response in that word if the question lacks the verb."""
        if self.word not in DECISIONS or self.verb in asked.verbs or "respond" not in asked.verbs:
            return Answered(effect_id=asked.inquiry_id, verb=self.verb, value=self.value, reason=self.reason)
        return Answered(effect_id=asked.inquiry_id, verb="respond", value=self.word, reason=self.reason)
