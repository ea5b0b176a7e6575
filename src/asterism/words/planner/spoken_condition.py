"""Read conditions such as "accuracy is above 95% and loss < 0.1", and bind them to result fields.

Reading needs no schemas. Binding turns a condition into CEL over a field that an upstream task
returns. An unreadable or unbound condition is refused, with the fields that exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from asterism.constellation.language.stems import unknown, words
from asterism.constellation.language.tokens import Token
from asterism.constellation.language.vocabulary import (
    COMPARISONS,
    CONDITION_FILLERS,
    COPULAS,
    DETERMINERS,
    FAILING,
    FALSE_WORDS,
    NEGATED_COPULAS,
    PRONOUNS,
    SUCCEEDING,
    TRUE_WORDS,
)
from asterism.constellation.model.skill_ranker import skill_words
from asterism.engine.kernel.profile import Skill
from asterism.words.planner.refusal import ClauseRefused

_JOINERS = {"and": "&&", "or": "||"}
_STATUSES = dict.fromkeys(FAILING, "fails") | dict.fromkeys(SUCCEEDING, "succeeds")
_COPULAS = COPULAS | NEGATED_COPULAS
_NEGATORS = NEGATED_COPULAS | {"not", "doesn't", "didn't"}
_AUXILIARIES = frozenset({"does", "did", "has"})
_OPPOSITE = {">": "<=", "<=": ">", "<": ">=", ">=": "<", "==": "!=", "!=": "=="}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_RESERVED = frozenset({"result", "status", "tasks", "true", "false", "null", "in"})
_FARTHEST_COMPARISON = 4
_LARGEST_INTEGER = 2**63  # CEL's integers have 64 bits


class Atom(msgspec.Struct, frozen=True):
    """One comparison.

    Attributes:
        phrase: the words that name the field, or the task for a status.
        operator: a CEL comparison; "is" (a word follows), "bare" (nothing follows), "fails",
            "succeeds".
        value: the value to compare with; None for bare and status.
        negated: the text says "not".
    """

    phrase: tuple[str, ...]
    operator: str
    value: Token | None = None
    negated: bool = False


class Spoken(msgspec.Struct, frozen=True):
    """A condition: its comparisons, all joined by ``&&`` or all by ``||``."""

    atoms: tuple[Atom, ...]
    joiner: str
    negated: bool

    def opposite(self) -> Spoken:
        """Return the negated condition, for "otherwise"."""
        return Spoken(self.atoms, self.joiner, not self.negated)


class Earlier(msgspec.Struct, frozen=True):
    """A task placed before the current clause.

    Attributes:
        skill: None for an agent.
        distance: 1 for the previous step; 0 for a task that is not upstream.
        has_line: the clause depends on it directly (the previous step, and the condition's
            sources).
        gives_result: False if the dependency on it requires that it failed.
    """

    task_id: str
    skill: Skill | None
    inputs: dict[str, Any]
    distance: int
    has_line: bool = False
    gives_result: bool = True


def on_failure(condition: str) -> bool:
    """Return True for a condition that holds only if its source failed. Such a source has no result."""
    return condition.startswith("status == ")


def read(tokens: Sequence[Token], *, negated: bool, is_verb: Callable[[Token], bool]) -> tuple[Spoken, list[Token]]:
    """Read the condition after an "if"; return it and the remaining tokens.

    Raises:
        ClauseRefused: bad_condition.
    """
    atom, position = _read_atom(tokens, 0, is_verb)
    atoms, joiners = [atom], set[str]()
    while position < len(tokens) and (joiner := _JOINERS.get(tokens[position].low)):
        atom, position = _read_atom(tokens, position + 1, is_verb)
        atoms.append(atom)
        joiners.add(joiner)
    if len(joiners) > 1:
        raise ClauseRefused("bad_condition", "the condition mixes 'and' with 'or', which can be read in two ways")
    return Spoken(tuple(atoms), next(iter(joiners), ""), negated), list(tokens[position:])


def comparison_at(tokens: Sequence[Token], position: int) -> tuple[str, int]:
    """Return the comparison that starts here and its length in tokens, or ("", 0)."""
    for phrase, operator in COMPARISONS:
        if tuple(token.low for token in tokens[position : position + len(phrase)]) == phrase:
            return operator, len(phrase)
    return "", 0


def comparison_follows(tokens: Sequence[Token], position: int) -> bool:
    """Return True if a comparison follows within a few words without a mark between them."""
    for index in range(position, min(len(tokens), position + _FARTHEST_COMPARISON)):
        if tokens[index].kind == "mark" or tokens[index].low in {"if", "and", "or"}:
            return False
        if comparison_at(tokens, index)[1] or tokens[index].low in COPULAS:
            return True
    return False


def _read_atom(tokens: Sequence[Token], position: int, is_verb: Callable[[Token], bool]) -> tuple[Atom, int]:
    """Read one comparison; return it and the position after it."""
    phrase: list[str] = []
    operator, negated = "bare", False
    while position < len(tokens):
        token, low = tokens[position], tokens[position].low
        comparison, length = comparison_at(tokens, position)
        if length:
            value, position = _read_value(tokens, position + length)
            return Atom(tuple(phrase), comparison, value, negated), position
        if low in _STATUSES:
            return Atom(tuple(phrase), _STATUSES[low], None, negated), position + 1
        if operator == "is" and not (low == "not" and tokens[position - 1].low in _COPULAS):
            break
        if low in _COPULAS:
            operator = "is"
        if low in _COPULAS | _NEGATORS | _AUXILIARIES:
            negated ^= low in _NEGATORS
        elif token.kind != "word" or low in _JOINERS:
            break
        elif phrase and is_verb(token) and tokens[position - 1].low not in DETERMINERS:
            break  # "if valid archive it": the instruction begins
        else:
            phrase.append(token.text)
        position += 1
    if operator == "is":
        value, position = _read_value(tokens, position)
        return Atom(tuple(phrase), operator, value, negated), position
    if not phrase:
        raise ClauseRefused("bad_condition", "the condition is unreadable; write for instance 'if accuracy > 95%'")
    return Atom(tuple(phrase), operator, None, negated), position


def _read_value(tokens: Sequence[Token], position: int) -> tuple[Token, int]:
    if position >= len(tokens) or not (tokens[position].is_value or tokens[position].kind == "word"):
        raise ClauseRefused("bad_condition", "the condition has no value to compare with")
    value = tokens[position]
    position += 1
    if value.kind == "number" and position < len(tokens) and tokens[position].low in {"percent", "pct"}:
        value = Token("number", value.text + "%", value.start, tokens[position].end)
        position += 1
    return value, position


def bind(spoken: Spoken, upstream: Sequence[Earlier]) -> dict[str, str]:
    """Return the dependencies of a condition: source -> CEL, empty for SUCCESS_ONLY.

    ``upstream`` is nearest first.

    Raises:
        ClauseRefused: bad_condition.
    """
    if not upstream:
        raise ClauseRefused("bad_condition", "no earlier step returns a result for the condition")
    if any(atom.operator in {"fails", "succeeds"} for atom in spoken.atoms):
        return _bind_status(spoken, upstream)
    per_source: dict[str, list[str]] = {}
    phrase: tuple[str, ...] = ()
    for atom in spoken.atoms:
        phrase = atom.phrase or phrase
        source, cel = _bind_atom(atom, phrase, upstream, flip=spoken.negated and len(spoken.atoms) == 1)
        per_source.setdefault(source, []).append(cel)
    if len(per_source) > 1 and (spoken.joiner == "||" or spoken.negated):
        raise ClauseRefused("bad_condition", "the condition needs one of two tasks' results; a dependency can check only one task")
    joined = {source: f" {spoken.joiner} ".join(parts) for source, parts in per_source.items()}
    if spoken.negated and len(spoken.atoms) > 1:
        joined = {source: f"!({cel})" for source, cel in joined.items()}
    return joined


def _bind_status(spoken: Spoken, upstream: Sequence[Earlier]) -> dict[str, str]:
    if len(spoken.atoms) > 1:
        raise ClauseRefused("bad_condition", "the failure of a task cannot be combined with another condition")
    atom = spoken.atoms[0]
    subject = words(" ".join(word for word in atom.phrase if word.lower() not in CONDITION_FILLERS | PRONOUNS))
    sources = [one for one in upstream if (_is_done_by(one.skill, subject) if subject else one.distance == 1)]
    if len(sources) != 1:
        what = " ".join(atom.phrase) or "it"
        raise ClauseRefused("bad_condition", f"{what!r} does not name exactly one of the earlier tasks")
    fails = (atom.operator == "fails") ^ atom.negated ^ spoken.negated
    return {sources[0].task_id: 'status == "FAILED"' if fails else ""}


def _is_done_by(skill: Skill | None, subject: Sequence[str]) -> bool:
    """Return True if a skill knows all words of a subject, and one of them can stand for its verb."""
    known = skill_words(skill) if skill else None
    return known is not None and not unknown(subject, known.weights) and not known.actions.isdisjoint(subject)


def _bind_atom(atom: Atom, phrase: tuple[str, ...], upstream: Sequence[Earlier], *, flip: bool) -> tuple[str, str]:
    negated = atom.negated ^ flip
    subject = [word for word in phrase if word.lower() not in CONDITION_FILLERS | PRONOUNS]
    if atom.operator == "bare" or (atom.operator == "is" and atom.value is not None and atom.value.kind == "word"):
        flag = [*subject, atom.value.text] if atom.value is not None else subject
        found = _find(flag, upstream, {"boolean"}, must=atom.value.text if atom.value is not None else "")
        if found is not None:
            return found[0], f"{_reference(found[1])} == {'false' if negated else 'true'}"
    if atom.operator == "bare" or atom.value is None:
        raise _no_field(" ".join(phrase), upstream, "a yes or no")
    literal, types = _literal(atom.value)
    operator = "==" if atom.operator == "is" else atom.operator
    if operator in {"<", "<=", ">", ">="} and types != {"number", "integer"}:
        raise ClauseRefused("bad_condition", f"{atom.value.text!r} is not a number")
    found = _find(subject, upstream, types)
    if found is None:
        raise _no_field(" ".join(phrase) or "it", upstream, " or ".join(sorted(types)))
    return found[0], f"{_reference(found[1])} {_OPPOSITE[operator] if negated else operator} {literal}"


def _find(phrase: Sequence[str], upstream: Sequence[Earlier], types: set[str], must: str = "") -> tuple[str, str] | None:
    """Return the (task, field) that the phrase names: with the most of its words, then the nearest.

    The field has one of the types, and the word ``must``.
    """
    stems = words(" ".join(phrase))
    found: list[tuple[int, int, str, str]] = []
    for one in upstream:
        for field in sorted((one.skill and one.skill.output_fields()) or ()):
            parts = words(field)
            if stems and set(words(must)) <= set(parts) <= set(stems) and _fits(one.skill, field, types, stems):
                found.append((-len(parts), one.distance, one.task_id, field))
    if not found:
        return _find_unknown(phrase, upstream)
    best = [one for one in found if one[:2] == min(found)[:2]]
    if len(best) > 1:
        named = ", ".join(f"{field} of {task}" for _, _, task, field in best)
        raise ClauseRefused("bad_condition", f"{' '.join(phrase)!r} could mean {named}")
    return best[0][2], best[0][3]


def _fits(skill: Skill | None, field: str, types: set[str], stems: Sequence[str]) -> bool:
    """Return True if the field has one of the types, and the skill knows the other words."""
    if skill is None or unknown(stems, {*skill_words(skill).weights, *words(field)}):
        return False
    schema: Any = (skill.output or {}).get("properties", {}).get(field, {})
    declared = schema.get("type") if isinstance(schema, dict) else None
    return declared is None or not types.isdisjoint(declared if isinstance(declared, list) else [declared])


def _find_unknown(phrase: Sequence[str], upstream: Sequence[Earlier]) -> tuple[str, str] | None:
    """Return a plain identifier as a field of the only direct predecessor.

    None if the schema of its result is known.
    """
    direct = [one for one in upstream if one.distance == 1]
    if len(direct) == 1 and len(phrase) == 1 and _IDENTIFIER.fullmatch(phrase[0]):
        skill = direct[0].skill
        if skill is None or skill.output_fields() is None:
            return direct[0].task_id, phrase[0]
    return None


def _literal(value: Token) -> tuple[str, set[str]]:
    """Return the CEL of a value, and the JSON Schema types it compares with."""
    if value.kind == "number":
        return _digits(value.number()), {"number", "integer"}
    if value.low in TRUE_WORDS:
        return "true", {"boolean"}
    if value.low in FALSE_WORDS:
        return "false", {"boolean"}
    return json.dumps(value.text, ensure_ascii=False), {"string"}


def _digits(number: Decimal) -> str:
    plain = format(number.normalize(), "f")
    return plain if "." in plain or abs(number) < _LARGEST_INTEGER else f"{plain}.0"


def _reference(field: str) -> str:
    if not _IDENTIFIER.fullmatch(field):
        return f"result[{json.dumps(field, ensure_ascii=False)}]"
    return f"result.{field}" if field in _RESERVED else field


def _no_field(phrase: str, upstream: Sequence[Earlier], kind: str) -> ClauseRefused:
    fields = sorted({f"{field} ({one.task_id})" for one in upstream if one.skill for field in one.skill.output_fields() or ()})
    known = f"available: {', '.join(fields)}" if fields else "their results have no schema"
    return ClauseRefused("bad_condition", f"no earlier task returns {phrase!r} as {kind}; {known}")
