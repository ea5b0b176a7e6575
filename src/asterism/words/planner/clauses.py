"""Split a plain request into clauses, with their conditions and their order.

Splitting knows the verbs and devices of the fleet, and nothing else about it. ``placement`` decides
the meaning of a clause; an unreadable clause carries its ``problem``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from asterism.constellation.language.stems import head, same_verbs, words
from asterism.constellation.language.tokens import Token, tokens
from asterism.constellation.language.vocabulary import (
    ASKING,
    DEVICE_PREPOSITIONS,
    DONE,
    IF,
    LEADING,
    ONCE,
    OTHERWISE,
    PARALLEL,
    PARAMETER_LINKS,
    THEN,
    THEN_AT_START,
    UNLESS,
    WHILE,
)
from asterism.words.planner.mentions import FleetWords
from asterism.words.planner.refusal import ClauseRefused
from asterism.words.planner.rephrasing import corrected, imperative, is_gerund, phrase_at, repeated, with_value, without_named_results
from asterism.words.planner.spoken_condition import Spoken, comparison_follows, read

_SENTENCE_MARKS = frozenset("\n;.!?")
_COMMA_MARKS = frozenset(",\N{EN DASH}\N{EM DASH}")
_MEANINGLESS = frozenset("()[]{}\"'`“”’*_~…")
_LONGEST_LEAD = 20
_JOINING = frozenset({"and", "but", "plus", "&", "+"})


class Clause(msgspec.Struct):
    """One instruction of a request.

    Attributes:
        after: the separator before it: "sentence" (a full stop, a semicolon, a new line), "comma"
            or "and".
        tokens: the instruction, without connectives and condition.
        then: "then" or a synonym comes before it.
        otherwise: it runs if the condition before it is false.
        parallel: it runs in parallel with the clause before it.
        opens_group: it begins a group of parallel clauses.
        ends_parallel: it ends with "in parallel".
        condition: its condition; None for "otherwise" clauses.
        problem: the reason it is unreadable; None if it is readable.
        start, end: its position in the request.
        text: its text, as written.
        shares_next: it is a bare verb, joined by "and" to the next clause, whose object it shares.
        asked: it asks to hear of something, as in "give me the size": a noun may stand for the verb.
        negated: it says what must not be done.
        value: number of the value, from 1, if the clause is repeated for each value of a list; else 0.
    """

    after: str
    tokens: list[Token] = []
    then: bool = False
    otherwise: bool = False
    parallel: bool = False
    opens_group: bool = False
    ends_parallel: bool = False
    condition: Spoken | None = None
    problem: ClauseRefused | None = None
    start: int = -1
    end: int = -1
    text: str = ""
    shares_next: bool = False
    asked: bool = False
    negated: bool = False
    value: int = 0

    def covers(self, start: int, end: int) -> None:
        """Extend its position."""
        self.start = start if self.start < 0 else min(self.start, start)
        self.end = max(self.end, end)


def split(request: str, fleet_words: FleetWords) -> list[Clause]:
    """Return the clauses of a request, in order."""
    found = without_named_results(corrected(tokens(request), fleet_words))
    clauses: list[Clause] = []
    for value, sentence in repeated(found, fleet_words):
        part = _in_order(_Splitter(sentence, fleet_words).clauses(), fleet_words)
        for index, clause in enumerate(part):
            clause.value = value
            if value and index and any(token.is_value for token in clause.tokens):
                why = "it is unclear if this step is repeated, too; write it as a sentence of its own"
                clause.problem = ClauseRefused("bad_structure", why)
        clauses += part
    for clause in clauses:
        _read_negation(clause)
        _read_condition(clause, fleet_words)
        if clause.problem is None:
            clause.tokens = imperative(clause.tokens, fleet_words)
    clauses = _attach(clauses, fleet_words)
    _settle_parallel(clauses)
    if clauses:
        clauses[0].parallel = False
    for clause, following in zip_longest(clauses, clauses[1:]):
        bare = len(clause.tokens) == 1 and clause.tokens[0].kind == "word"
        clause.text = " ".join(request[clause.start : clause.end].split())
        clause.shares_next = bare and following is not None and following.after == "and" and not following.then
    return clauses


class _Splitter:
    """Splits tokens at marks and connectives into clauses, which may be fragments."""

    def __init__(self, found: Sequence[Token], fleet_words: FleetWords) -> None:
        self._found = found
        self._fleet_words = fleet_words
        self._clauses = [Clause("sentence")]

    def clauses(self) -> list[Clause]:
        """Return the clauses with a token."""
        position = 0
        while position < len(self._found):
            position += self._consume(position)
        return [clause for clause in self._clauses if clause.tokens]

    def _consume(self, position: int) -> int:
        """Consume the mark, connective or word at a position; return the number of tokens."""
        token, current = self._found[position], self._clauses[-1]
        if token.kind == "mark" and self._consume_mark(position):
            return 1
        if length := self._consume_connective(position):
            return length
        if _JOINING & {token.low, token.text}:
            if self._splits(position + 1):
                self._start("and")
                return 1
            if not current.tokens:
                return 1
        elif not current.tokens and (length := phrase_at(self._found, position, ASKING, LEADING)):
            current.asked |= bool(phrase_at(self._found, position, ASKING))
            return length
        current.tokens.append(token)
        current.covers(token.start, token.end)
        return 1

    def _consume_mark(self, position: int) -> bool:
        """Consume a mark that ends a sentence or clause, or is ignored (brackets, stray quotes)."""
        text = self._found[position].text
        if text in _SENTENCE_MARKS:
            self._start("sentence").after = "sentence"
        elif text in _COMMA_MARKS:
            self._start("comma")
        elif text == ":":
            valued = position + 1 < len(self._found) and self._found[position + 1].is_value
            if not valued and not _only_device(self._clauses[-1].tokens, self._fleet_words):
                self._start("sentence")
        else:
            return text in _MEANINGLESS
        return True

    def _consume_connective(self, position: int) -> int:
        """Consume "then", "meanwhile", "while", "otherwise" and synonyms; return 0 for another word."""
        found, current = self._found, self._clauses[-1]
        if current.tokens and found[position].low == "before" and is_gerund(found[position + 1 : position + 2], self._fleet_words):
            self._start("and").then = True
            length = 1
        elif length := phrase_at(found, position, THEN, () if current.tokens else THEN_AT_START):
            self._start("and").then = True
        elif length := phrase_at(found, position, WHILE):
            new = self._start("and")
            new.parallel = True
            new.opens_group = new.after == "sentence" or new.then
        elif length := phrase_at(found, position, PARALLEL):
            if current.tokens and (self._ends(position + length, THEN, (("and",),)) or self._device_ends(position + length)):
                current.ends_parallel = True
            else:
                new = self._start("and")
                new.parallel = True
                new.opens_group = new.then or len(self._clauses) == 1
        elif length := phrase_at(found, position, OTHERWISE):
            beyond = position + length
            if found[position].low == "if" and not (self._ends(beyond) or self._fleet_words.is_verb(found[beyond])):
                return 0  # "if not valid": a condition
            self._start("and").otherwise = True
        return length

    def _ends(self, position: int, *tables: Sequence[tuple[str, ...]]) -> bool:
        """Return True at the end, a mark, or a phrase of the tables."""
        return position >= len(self._found) or self._found[position].kind == "mark" or bool(phrase_at(self._found, position, *tables))

    def _device_ends(self, position: int) -> bool:
        """Return True if a device is named here, and nothing follows."""
        end = next((index for index in range(position, len(self._found)) if self._ends(index, THEN)), len(self._found))
        return end > position and _only_device(self._found[position:end], self._fleet_words)

    def _start(self, after: str) -> Clause:
        """Start a new clause, unless the current one is still empty; return it."""
        if self._clauses[-1].tokens:
            self._clauses.append(Clause(after))
        return self._clauses[-1]

    def _splits(self, position: int) -> bool:
        """Return True if an "and" before this position begins a new clause."""
        found, current = self._found, self._clauses[-1].tokens
        for _ in range(_LONGEST_LEAD):
            if not (length := phrase_at(found, position, LEADING)):
                break
            position += length
        if phrase_at(found, position, THEN, THEN_AT_START, PARALLEL, WHILE, OTHERWISE):
            return True
        opens = self._fleet_words.opens_clause(found, position)
        if any(phrase_at(current, index, IF, UNLESS) for index in range(len(current))):
            return opens and not comparison_follows(found, position)
        return opens or bool(phrase_at(found, position, IF, UNLESS))


def _in_order(clauses: list[Clause], fleet_words: FleetWords) -> list[Clause]:
    """Put "once the data is downloaded, …", "after training, …" and "before deploying, …" in the order of the work."""
    ordered: list[Clause] = []
    position = 0
    while position < len(clauses):
        clause = clauses[position]
        position += 1
        following = clauses[position] if position < len(clauses) and clauses[position].after == "comma" else None
        if following is not None and (length := phrase_at(clause.tokens, 0, ONCE)):
            rest = clause.tokens[length:]
            first = list(rest) if is_gerund(rest[:1], fleet_words) else imperative(rest, fleet_words, DONE)
            if first is not rest:
                following.then = True
                if ordered and _same_verb(ordered[-1], first[0]):
                    continue  # it refers to the step before
                if not any(_same_verb(earlier, first[0]) for earlier in ordered) and not {"been", "having"} & {token.low for token in rest}:
                    clause.tokens = first
        elif following is not None and clause.tokens[0].low == "before" and is_gerund(clause.tokens[1:2], fleet_words):
            if values := [token for token in clause.tokens if token.is_value]:
                following.tokens = with_value(following.tokens, values[:1])
            following.after, following.then = clause.after, clause.then
            clause.tokens, clause.after, clause.then = clause.tokens[1:], "and", True
            ordered.append(following)
            position += 1
        ordered.append(clause)
    return ordered


def _same_verb(clause: Clause, verb: Token) -> bool:
    return bool(set(words(verb.text)) & same_verbs(head(words(" ".join(token.text for token in clause.tokens if token.kind == "word")))))


def _read_negation(clause: Clause) -> None:
    """Move a "do not" at the start of a clause to its ``negated``."""
    for opening in (("do", "not"), ("don't",), ("dont",), ("never",), ("not",)):
        if phrase_at(clause.tokens, 0, (opening,)) and len(clause.tokens) > len(opening):
            clause.negated = True
            clause.tokens = clause.tokens[len(opening) :]
            return


def _only_device(found: Sequence[Token], fleet_words: FleetWords) -> bool:
    mentions = fleet_words.mentions(found)
    return len(mentions) == 1 and mentions[0].start == 0 and mentions[0].end == len(found)


def _read_condition(clause: Clause, fleet_words: FleetWords) -> None:
    """Move an "if …" from a clause's tokens to its condition."""
    for index in range(len(clause.tokens)):
        negated = bool(length := phrase_at(clause.tokens, index, UNLESS))
        if not (length or (length := phrase_at(clause.tokens, index, IF))):
            continue
        try:
            clause.condition, rest = read(clause.tokens[index + length :], negated=negated, is_verb=fleet_words.is_verb)
        except ClauseRefused as refused:
            clause.problem = refused
            rest = []
        while length := phrase_at(rest, 0, LEADING) if index == 0 else 0:
            rest = rest[length:]
        clause.tokens = [*clause.tokens[:index], *rest]
        return


def _attach(clauses: Sequence[Clause], fleet_words: FleetWords) -> list[Clause]:
    """Join fragments ("on the laptop", "200 samples", "if it is valid") to their clause."""
    joined: list[Clause] = []
    pending: Clause | None = None
    for clause, following in zip_longest(clauses, clauses[1:]):
        if pending is not None:
            _prefix(pending, clause)
            pending = None
        opens_sentence = clause.after == "sentence" or clause.then or clause.otherwise or clause.parallel
        continues = following is not None and following.after != "sentence" and not following.otherwise
        previous = joined[-1] if joined else None
        if not clause.tokens and clause.condition is not None:
            if continues:
                pending = clause
                continue
            if previous is not None and previous.condition is None and clause.after != "sentence":
                previous.condition = clause.condition
                previous.covers(clause.start, clause.end)
                continue
            clause.problem = ClauseRefused("bad_structure", "a condition without an instruction")
        elif clause.problem is None and opens_sentence and continues and _only_device(clause.tokens, fleet_words):
            pending = clause
            continue
        elif (
            clause.problem is None and previous and not opens_sentence and clause.after == "comma" and _belongs_before(clause, fleet_words)
        ):
            previous.tokens = [*previous.tokens, Token("mark", ",", clause.start, clause.start), *clause.tokens]
            previous.condition = previous.condition or clause.condition
            previous.covers(clause.start, clause.end)
            previous.ends_parallel |= clause.ends_parallel
            continue
        joined.append(clause)
    return joined


def _prefix(prefix: Clause, clause: Clause) -> None:
    """Prepend a condition or a device, and its connectives, to the clause that follows."""
    clause.tokens = [*prefix.tokens, *clause.tokens]
    clause.covers(prefix.start, prefix.end)
    clause.after = prefix.after
    clause.then = prefix.then
    clause.parallel |= prefix.parallel
    clause.opens_group |= prefix.opens_group
    clause.otherwise |= prefix.otherwise
    if prefix.condition is not None and clause.condition is not None:
        clause.problem = ClauseRefused("bad_condition", "two conditions for one step; join them by 'and' or 'or'")
    clause.condition = clause.condition or prefix.condition


def _belongs_before(clause: Clause, fleet_words: FleetWords) -> bool:
    """Return True for "200 samples", "noise 0.5", "into 'x.zip'", "on the laptop" after a comma."""
    first = clause.tokens[0]
    if first.is_value or first.kind == "operator":
        return True
    valued = next((index for index, token in enumerate(clause.tokens) if token.is_value), 0)
    named = tuple(words(" ".join(token.text for token in clause.tokens[:valued] if token.low not in PARAMETER_LINKS)))
    if named in fleet_words.parameters and (len(named) > 1 or not fleet_words.opens_clause(clause.tokens, 0)):
        return True
    return first.low in DEVICE_PREPOSITIONS and not fleet_words.opens_clause(clause.tokens, 0)


def _settle_parallel(clauses: Sequence[Clause]) -> None:
    """Decide which clauses run in parallel with the one before."""
    grouped = False
    stretch: list[Clause] = []
    for clause in clauses:
        if clause.after == "sentence" or clause.then or clause.otherwise:
            grouped = False
            stretch = []
        stretch.append(clause)
        if clause.opens_group:
            clause.parallel = False
            grouped = True
        elif grouped:
            clause.parallel = True
        if clause.ends_parallel:
            if len(stretch) == 2:  # noqa: PLR2004 - "a and b in parallel": the two
                clause.parallel = True
            elif len(stretch) == 1 and sum(token.is_value for token in clause.tokens) > 1:
                continue  # "count '/a' and '/b' in parallel"
            else:
                alone = len(stretch) == 1
                which = "there is no other step to run in parallel with" if alone else "it is unclear which of the steps run in parallel"
                why = f"{which}; write 'meanwhile' before each step that runs in parallel with the one before it"
                clause.problem = ClauseRefused("bad_structure", why)
