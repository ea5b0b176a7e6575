"""A plain request as clauses: what is to be done, under which condition, and after or beside what.

Splitting knows which words of the fleet are verbs and devices, and nothing else of it. What a clause means is
decided in ``placement``; a clause that cannot even be read carries its ``problem``.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """One thing to be done.

    Attributes:
        text: its words, as written.
        tokens: what is to be done, without connectives and condition.
        condition: under which condition; for "otherwise" clauses None.
        otherwise: runs when the condition before it does not hold.
        beside: runs beside the clause before it.
        then: the request says "then" before it, in some form.
        starts_sentence: nothing but a full stop, a semicolon or a new line comes before it.
        shares_next: a bare verb joined by "and" to the next clause, whose object is also its own.
        problem: why it cannot be read; None when it can.
    """

    text: str
    tokens: list[Token]
    condition: Spoken | None = None
    otherwise: bool = False
    beside: bool = False
    then: bool = False
    starts_sentence: bool = False
    shares_next: bool = False
    problem: ClauseRefused | None = None


class _Segment(msgspec.Struct):
    """A stretch between two connectives; ``after`` is "sentence", "comma" or "and"."""

    after: str
    tokens: list[Token] = []
    then: bool = False
    parallel: bool = False
    opens: bool = False
    otherwise: bool = False
    trailing_parallel: bool = False
    condition: Spoken | None = None
    problem: ClauseRefused | None = None
    start: int = -1
    end: int = -1

    def covers(self, start: int, end: int) -> None:
        self.start = start if self.start < 0 else min(self.start, start)
        self.end = max(self.end, end)


def split(request: str, speech: FleetWords) -> list[Clause]:
    """The clauses of a request, in order."""
    segments = _segments(tokens(request), speech)
    for segment in segments:
        _read_condition(segment, request, speech)
    segments = _attach(segments, speech)
    _settle_parallel(segments)
    clauses = []
    for index, segment in enumerate(segments):
        following = segments[index + 1] if index + 1 < len(segments) else None
        bare = len(segment.tokens) == 1 and segment.tokens[0].kind == "word"
        clauses.append(
            Clause(
                text=" ".join(request[segment.start : segment.end].split()),
                tokens=segment.tokens,
                condition=segment.condition,
                otherwise=segment.otherwise,
                beside=segment.parallel and index > 0,
                then=segment.then,
                starts_sentence=segment.after == "sentence",
                shares_next=bare and following is not None and following.after == "and" and not following.then,
                problem=segment.problem,
            )
        )
    return clauses


def _phrase_at(found: Sequence[Token], position: int, phrases: Sequence[tuple[str, ...]]) -> int:
    """Length of the longest of the phrases that stands here; 0 where none does."""
    for phrase in phrases:
        near = found[position : position + len(phrase)]
        if tuple(token.low for token in near) == phrase:
            return len(phrase)
    return 0


def _segments(found: Sequence[Token], speech: FleetWords) -> list[_Segment]:
    segments = [_Segment("sentence")]
    position = 0
    while position < len(found):
        position += _take(found, position, segments, speech)
    return [segment for segment in segments if segment.tokens or segment.problem]


def _take(found: Sequence[Token], position: int, segments: list[_Segment], speech: FleetWords) -> int:
    """Take the mark, connective or word that stands here; the number of tokens taken."""
    token = found[position]
    current = segments[-1]
    if token.kind == "mark" and _take_mark(found, position, segments, speech):
        return 1
    if length := _take_connective(found, position, segments, speech):
        return length
    if token.low in _JOINING or token.text in _JOINING:
        if _splits(found, position + 1, current, speech):
            _cut(segments, "and")
            return 1
        if not current.tokens:
            return 1
    elif not current.tokens and (length := _phrase_at(found, position, LEADING)):
        return length
    current.tokens.append(token)
    current.covers(token.start, token.end)
    return 1


def _take_mark(found: Sequence[Token], position: int, segments: list[_Segment], speech: FleetWords) -> bool:
    """Take punctuation: what ends a sentence, what ends a clause, and what means nothing (brackets, stray quotes)."""
    text = found[position].text
    if text in _SENTENCE_MARKS:
        _cut(segments, "sentence").after = "sentence"
    elif text in _COMMA_MARKS:
        _cut(segments, "comma")
    elif text == ":":
        valued = position + 1 < len(found) and found[position + 1].is_value
        if not valued and not _only_device(segments[-1].tokens, speech):
            _cut(segments, "sentence")
    else:
        return text in _MEANINGLESS
    return True


def _take_connective(found: Sequence[Token], position: int, segments: list[_Segment], speech: FleetWords) -> int:
    """Take "then", "meanwhile", "while", "otherwise" and their like; 0 where none stands here."""
    if length := _phrase_at(found, position, THEN) or (0 if segments[-1].tokens else _phrase_at(found, position, THEN_AT_START)):
        _cut(segments, "and").then = True
    elif length := _phrase_at(found, position, WHILE):
        fresh = _cut(segments, "and")
        fresh.parallel = True
        fresh.opens = fresh.after == "sentence" or fresh.then
    elif length := _phrase_at(found, position, PARALLEL):
        _take_parallel(found, position + length, segments)
    elif length := _phrase_at(found, position, OTHERWISE):
        beyond = position + length
        ends = beyond >= len(found) or found[beyond].kind == "mark" or speech.is_verb(found[beyond])
        if found[position].low == "if" and not ends:
            return 0  # "if not valid": a condition
        _cut(segments, "and").otherwise = True
    return length


def _cut(segments: list[_Segment], after: str) -> _Segment:
    """End the segment that is being filled; an empty one is used again."""
    if segments[-1].tokens:
        segments.append(_Segment(after))
    return segments[-1]


def _take_parallel(found: Sequence[Token], beyond: int, segments: list[_Segment]) -> None:
    current = segments[-1]
    ends = beyond >= len(found) or found[beyond].kind == "mark" or found[beyond].low == "and" or bool(_phrase_at(found, beyond, THEN))
    if current.tokens and ends:
        current.trailing_parallel = True
        return
    fresh = _cut(segments, "and")
    fresh.parallel = True
    fresh.opens = fresh.then or len(segments) == 1


def _splits(found: Sequence[Token], position: int, current: _Segment, speech: FleetWords) -> bool:
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


def _read_condition(segment: _Segment, request: str, speech: FleetWords) -> None:
    """Take an "if …" out of a segment's tokens."""
    for index in range(len(segment.tokens)):
        negated = bool(_phrase_at(segment.tokens, index, UNLESS))
        length = _phrase_at(segment.tokens, index, UNLESS if negated else IF)
        if not length:
            continue
        told = segment.tokens[index + length :]
        text = request[segment.tokens[index].start : segment.tokens[-1].end]
        try:
            segment.condition, rest = read(told, negated=negated, is_verb=speech.is_verb, text=text)
        except ClauseRefused as refused:
            segment.problem = refused
            rest = []
        while length := _phrase_at(rest, 0, LEADING) if index == 0 else 0:
            rest = rest[length:]
        segment.tokens = [*segment.tokens[:index], *rest]
        return


def _attach(segments: Sequence[_Segment], speech: FleetWords) -> list[_Segment]:
    """Join what is no clause of its own ("on the laptop", "200 samples", "if it is valid") to the clause it belongs to."""
    joined: list[_Segment] = []
    pending: _Segment | None = None
    for index, segment in enumerate(segments):
        following = segments[index + 1] if index + 1 < len(segments) else None
        if pending is not None:
            _prefix(pending, segment)
            pending = None
        opens_sentence = segment.after == "sentence" or segment.then or segment.otherwise or segment.parallel
        continues = following is not None and following.after != "sentence" and not following.otherwise
        if not segment.tokens and segment.condition is not None:
            if continues:
                pending = segment
                continue
            previous = joined[-1] if joined else None
            if previous is not None and previous.condition is None and segment.after != "sentence":
                previous.condition = segment.condition
                previous.covers(segment.start, segment.end)
                continue
            segment.problem = ClauseRefused("bad_structure", "a condition with nothing to do")
        elif opens_sentence and continues and segment.problem is None and _only_device(segment.tokens, speech):
            pending = segment
            continue
        elif joined and not opens_sentence and segment.after == "comma" and segment.problem is None and _belongs_before(segment, speech):
            previous = joined[-1]
            previous.tokens = [*previous.tokens, Token("mark", ",", segment.start, segment.start), *segment.tokens]
            previous.condition = previous.condition or segment.condition
            previous.covers(segment.start, segment.end)
            previous.trailing_parallel |= segment.trailing_parallel
            continue
        joined.append(segment)
    return joined


def _prefix(prefix: _Segment, segment: _Segment) -> None:
    """Put a condition or a device that was said first in front of its clause, with the connectives that were said before it."""
    segment.tokens = [*prefix.tokens, *segment.tokens]
    segment.covers(prefix.start, prefix.end)
    segment.after = prefix.after
    segment.then = prefix.then
    segment.parallel |= prefix.parallel
    segment.opens |= prefix.opens
    segment.otherwise |= prefix.otherwise
    if prefix.condition is not None and segment.condition is not None:
        segment.problem = ClauseRefused("bad_condition", "two conditions for one step; join them by 'and' or 'or'")
    segment.condition = segment.condition or prefix.condition


def _belongs_before(segment: _Segment, speech: FleetWords) -> bool:
    """True for "200 samples", "noise 0.5", "into 'x.zip'", "on the laptop" after a comma."""
    first = segment.tokens[0]
    if first.is_value or first.kind == "operator":
        return True
    valued = next((index for index, token in enumerate(segment.tokens) if token.is_value), 0)
    named = tuple(words(" ".join(token.text for token in segment.tokens[:valued] if token.low not in PARAMETER_LINKS)))
    if named in speech.parameters and (len(named) > 1 or not speech.opens_clause(segment.tokens, 0)):
        return True
    return first.low in DEVICE_PREPOSITIONS and not speech.opens_clause(segment.tokens, 0)


def _settle_parallel(segments: Sequence[_Segment]) -> None:
    """Decide which clauses run beside the one before them."""
    grouped = False
    stretch: list[_Segment] = []
    for segment in segments:
        if segment.after == "sentence" or segment.then or segment.otherwise:
            grouped = False
            stretch = []
        stretch.append(segment)
        if segment.opens:
            segment.parallel = False
            grouped = True
        elif grouped:
            segment.parallel = True
        if segment.trailing_parallel:
            if len(stretch) == 2:  # noqa: PLR2004 - "a and b in parallel": the two
                segment.parallel = True
            else:
                alone = len(stretch) == 1
                which = "nothing is said that it could run beside" if alone else "it is open which of the steps run in parallel"
                why = f"{which}; say 'meanwhile' before each step that runs beside the one before it"
                segment.problem = ClauseRefused("bad_structure", why)
