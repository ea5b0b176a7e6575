"""A plain request as clauses: what is to be done, under which condition, and after or beside what.

Splitting knows which words of the fleet are verbs and devices, and nothing else of it. What a clause means is
decided in ``placement``; a clause that cannot even be read carries its ``problem``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from asterism.language.stems import words
from asterism.language.tokens import Token, tokens
from asterism.language.vocabulary import (
    DEVICE_PREPOSITIONS,
    IF,
    LEADING,
    OTHERWISE,
    PARALLEL,
    PARAMETER_LINKS,
    THEN,
    THEN_AT_START,
    UNLESS,
    WHILE,
)
from asterism.planner.offline.mentions import FleetWords
from asterism.planner.offline.refusal import ClauseRefused
from asterism.planner.offline.spoken_condition import Spoken, comparison_follows, read

_SENTENCE_MARKS = frozenset("\n;.!?")
_COMMA_MARKS = frozenset(",\N{EN DASH}\N{EM DASH}")
_MEANINGLESS = frozenset("()[]{}\"'`“”’*_~…")
_LONGEST_LEAD = 20
_JOINING = frozenset({"and", "but", "plus", "&", "+"})


class Clause(msgspec.Struct):
    """One thing to be done: at first a stretch between two connectives, to which the rest is read.

    Attributes:
        after: what comes before it: "sentence" (a full stop, a semicolon, a new line), "comma" or "and".
        tokens: what is to be done, without connectives and condition.
        then: the request says "then" before it, in some form.
        otherwise: runs when the condition before it does not hold.
        beside: runs beside the clause before it.
        opens: begins a group of clauses that run beside each other.
        ends_beside: it ends with "in parallel".
        condition: under which condition; for "otherwise" clauses None.
        problem: why it cannot be read; None when it can.
        start, end: where it stands in the request.
        text: its words, as written.
        shares_next: a bare verb joined by "and" to the next clause, whose object is also its own.
    """

    after: str
    tokens: list[Token] = []
    then: bool = False
    otherwise: bool = False
    beside: bool = False
    opens: bool = False
    ends_beside: bool = False
    condition: Spoken | None = None
    problem: ClauseRefused | None = None
    start: int = -1
    end: int = -1
    text: str = ""
    shares_next: bool = False

    def covers(self, start: int, end: int) -> None:
        """Extend the place where it stands."""
        self.start = start if self.start < 0 else min(self.start, start)
        self.end = max(self.end, end)


def split(request: str, speech: FleetWords) -> list[Clause]:
    """The clauses of a request, in order."""
    clauses = _stretches(tokens(request), speech)
    for clause in clauses:
        _read_condition(clause, request, speech)
    clauses = _attach(clauses, speech)
    _settle_beside(clauses)
    if clauses:
        clauses[0].beside = False
    for clause, following in zip_longest(clauses, clauses[1:]):
        bare = len(clause.tokens) == 1 and clause.tokens[0].kind == "word"
        clause.text = " ".join(request[clause.start : clause.end].split())
        clause.shares_next = bare and following is not None and following.after == "and" and not following.then
    return clauses


def _phrase_at(found: Sequence[Token], position: int, phrases: Sequence[tuple[str, ...]]) -> int:
    """Length of the longest of the phrases that stands here; 0 where none does."""
    for phrase in phrases:
        near = found[position : position + len(phrase)]
        if tuple(token.low for token in near) == phrase:
            return len(phrase)
    return 0


def _stretches(found: Sequence[Token], speech: FleetWords) -> list[Clause]:
    clauses = [Clause("sentence")]
    position = 0
    while position < len(found):
        position += _take(found, position, clauses, speech)
    return [clause for clause in clauses if clause.tokens or clause.problem]


def _take(found: Sequence[Token], position: int, clauses: list[Clause], speech: FleetWords) -> int:
    """Take the mark, connective or word that stands here; the number of tokens taken."""
    token = found[position]
    current = clauses[-1]
    if token.kind == "mark" and _take_mark(found, position, clauses, speech):
        return 1
    if length := _take_connective(found, position, clauses, speech):
        return length
    if token.low in _JOINING or token.text in _JOINING:
        if _splits(found, position + 1, current, speech):
            _cut(clauses, "and")
            return 1
        if not current.tokens:
            return 1
    elif not current.tokens and (length := _phrase_at(found, position, LEADING)):
        return length
    current.tokens.append(token)
    current.covers(token.start, token.end)
    return 1


def _take_mark(found: Sequence[Token], position: int, clauses: list[Clause], speech: FleetWords) -> bool:
    """Take punctuation: what ends a sentence, what ends a clause, and what means nothing (brackets, stray quotes)."""
    text = found[position].text
    if text in _SENTENCE_MARKS:
        _cut(clauses, "sentence").after = "sentence"
    elif text in _COMMA_MARKS:
        _cut(clauses, "comma")
    elif text == ":":
        valued = position + 1 < len(found) and found[position + 1].is_value
        if not valued and not _only_device(clauses[-1].tokens, speech):
            _cut(clauses, "sentence")
    else:
        return text in _MEANINGLESS
    return True


def _take_connective(found: Sequence[Token], position: int, clauses: list[Clause], speech: FleetWords) -> int:
    """Take "then", "meanwhile", "while", "otherwise" and their like; 0 where none stands here."""
    if length := _phrase_at(found, position, THEN) or (0 if clauses[-1].tokens else _phrase_at(found, position, THEN_AT_START)):
        _cut(clauses, "and").then = True
    elif length := _phrase_at(found, position, WHILE):
        fresh = _cut(clauses, "and")
        fresh.beside = True
        fresh.opens = fresh.after == "sentence" or fresh.then
    elif length := _phrase_at(found, position, PARALLEL):
        _take_parallel(found, position + length, clauses)
    elif length := _phrase_at(found, position, OTHERWISE):
        beyond = position + length
        ends = beyond >= len(found) or found[beyond].kind == "mark" or speech.is_verb(found[beyond])
        if found[position].low == "if" and not ends:
            return 0  # "if not valid": a condition
        _cut(clauses, "and").otherwise = True
    return length


def _cut(clauses: list[Clause], after: str) -> Clause:
    """End the clause that is being filled; an empty one is used again."""
    if clauses[-1].tokens:
        clauses.append(Clause(after))
    return clauses[-1]


def _take_parallel(found: Sequence[Token], beyond: int, clauses: list[Clause]) -> None:
    current = clauses[-1]
    ends = beyond >= len(found) or found[beyond].kind == "mark" or found[beyond].low == "and" or bool(_phrase_at(found, beyond, THEN))
    if current.tokens and ends:
        current.ends_beside = True
        return
    fresh = _cut(clauses, "and")
    fresh.beside = True
    fresh.opens = fresh.then or len(clauses) == 1


def _splits(found: Sequence[Token], position: int, current: Clause, speech: FleetWords) -> bool:
    """Does an "and" before this position begin a new clause?"""
    for _ in range(_LONGEST_LEAD):
        if not (length := _phrase_at(found, position, LEADING)):
            break
        position += length
    if any(_phrase_at(found, position, phrases) for phrases in (THEN, THEN_AT_START, PARALLEL, WHILE, OTHERWISE)):
        return True
    conditional = any(_phrase_at(current.tokens, index, phrases) for index in range(len(current.tokens)) for phrases in (IF, UNLESS))
    if conditional:
        return speech.opens_clause(found, position) and not comparison_follows(found, position)
    return bool(_phrase_at(found, position, IF) or _phrase_at(found, position, UNLESS)) or speech.opens_clause(found, position)


def _only_device(found: Sequence[Token], speech: FleetWords) -> bool:
    mentions = speech.mentions(found)
    return len(mentions) == 1 and mentions[0].start == 0 and mentions[0].end == len(found)


def _read_condition(clause: Clause, request: str, speech: FleetWords) -> None:
    """Take an "if …" out of a clause's tokens."""
    for index in range(len(clause.tokens)):
        negated = bool(_phrase_at(clause.tokens, index, UNLESS))
        length = _phrase_at(clause.tokens, index, UNLESS if negated else IF)
        if not length:
            continue
        told = clause.tokens[index + length :]
        text = request[clause.tokens[index].start : clause.tokens[-1].end]
        try:
            clause.condition, rest = read(told, negated=negated, is_verb=speech.is_verb, text=text)
        except ClauseRefused as refused:
            clause.problem = refused
            rest = []
        while length := _phrase_at(rest, 0, LEADING) if index == 0 else 0:
            rest = rest[length:]
        clause.tokens = [*clause.tokens[:index], *rest]
        return


def _attach(clauses: Sequence[Clause], speech: FleetWords) -> list[Clause]:
    """Join what is no clause of its own ("on the laptop", "200 samples", "if it is valid") to the clause it belongs to."""
    joined: list[Clause] = []
    pending: Clause | None = None
    for index, clause in enumerate(clauses):
        following = clauses[index + 1] if index + 1 < len(clauses) else None
        if pending is not None:
            _prefix(pending, clause)
            pending = None
        opens_sentence = clause.after == "sentence" or clause.then or clause.otherwise or clause.beside
        continues = following is not None and following.after != "sentence" and not following.otherwise
        if not clause.tokens and clause.condition is not None:
            if continues:
                pending = clause
                continue
            previous = joined[-1] if joined else None
            if previous is not None and previous.condition is None and clause.after != "sentence":
                previous.condition = clause.condition
                previous.covers(clause.start, clause.end)
                continue
            clause.problem = ClauseRefused("bad_structure", "a condition with nothing to do")
        elif opens_sentence and continues and clause.problem is None and _only_device(clause.tokens, speech):
            pending = clause
            continue
        elif joined and not opens_sentence and clause.after == "comma" and clause.problem is None and _belongs_before(clause, speech):
            previous = joined[-1]
            previous.tokens = [*previous.tokens, Token("mark", ",", clause.start, clause.start), *clause.tokens]
            previous.condition = previous.condition or clause.condition
            previous.covers(clause.start, clause.end)
            previous.ends_beside |= clause.ends_beside
            continue
        joined.append(clause)
    return joined


def _prefix(prefix: Clause, clause: Clause) -> None:
    """Put a condition or a device that was said first in front of its clause, with the connectives that were said before it."""
    clause.tokens = [*prefix.tokens, *clause.tokens]
    clause.covers(prefix.start, prefix.end)
    clause.after = prefix.after
    clause.then = prefix.then
    clause.beside |= prefix.beside
    clause.opens |= prefix.opens
    clause.otherwise |= prefix.otherwise
    if prefix.condition is not None and clause.condition is not None:
        clause.problem = ClauseRefused("bad_condition", "two conditions for one step; join them by 'and' or 'or'")
    clause.condition = clause.condition or prefix.condition


def _belongs_before(clause: Clause, speech: FleetWords) -> bool:
    """True for "200 samples", "noise 0.5", "into 'x.zip'", "on the laptop" after a comma."""
    first = clause.tokens[0]
    if first.is_value or first.kind == "operator":
        return True
    valued = next((index for index, token in enumerate(clause.tokens) if token.is_value), 0)
    named = tuple(words(" ".join(token.text for token in clause.tokens[:valued] if token.low not in PARAMETER_LINKS)))
    if named in speech.parameters and (len(named) > 1 or not speech.opens_clause(clause.tokens, 0)):
        return True
    return first.low in DEVICE_PREPOSITIONS and not speech.opens_clause(clause.tokens, 0)


def _settle_beside(clauses: Sequence[Clause]) -> None:
    """Decide which clauses run beside the one before them."""
    grouped = False
    stretch: list[Clause] = []
    for clause in clauses:
        if clause.after == "sentence" or clause.then or clause.otherwise:
            grouped = False
            stretch = []
        stretch.append(clause)
        if clause.opens:
            clause.beside = False
            grouped = True
        elif grouped:
            clause.beside = True
        if clause.ends_beside:
            if len(stretch) == 2:  # noqa: PLR2004 - "a and b in parallel": the two
                clause.beside = True
            else:
                alone = len(stretch) == 1
                which = "nothing is said that it could run beside" if alone else "it is open which of the steps run in parallel"
                why = f"{which}; say 'meanwhile' before each step that runs beside the one before it"
                clause.problem = ClauseRefused("bad_structure", why)
