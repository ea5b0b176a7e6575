"""Place one clause: choose the skill, the device and the arguments, or refuse with a reason.

This is stricter than a ranking: the clause's verb must be a verb of the skill or a synonym, and the
skill, the device, an earlier step or the list of fillers must know every other word. An unknown
word could change the meaning, so it refuses the clause.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from asterism.constellation.language.stems import head, is_common_verb, is_generic, stem, unknown, words
from asterism.constellation.language.tokens import Token
from asterism.constellation.language.vocabulary import DETERMINERS, FILLERS, NAMING_PREPOSITIONS, NEGATIONS
from asterism.constellation.model.skill_ranker import VERB_KINDS, Ranked, clear_winner, rank, skill_words
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.words.planner.arguments import Arguments, class_of
from asterism.words.planner.clauses import Clause
from asterism.words.planner.mentions import FleetWords
from asterism.words.planner.refusal import ClauseRefused
from asterism.words.planner.spoken_condition import Earlier

MAX_CLAUSE_WORDS = 200

_IN_ORDER = "write the clauses in the order in which they run, joined by 'then'"
_NO_LOOPS = "schedules and loops are not supported offline"
_UNSUPPORTED = {"before": _IN_ORDER, "after": _IN_ORDER, "until": _NO_LOOPS, "whenever": _NO_LOOPS}
"""Words anywhere in a clause that change when something runs, in an unsupported way."""
_UNSUPPORTED_OPENINGS = {"every": _NO_LOOPS, "each": _NO_LOOPS, "repeat": _NO_LOOPS, "keep": _NO_LOOPS}
_NEAREST = 3
_FILLER_STEMS = frozenset(map(stem, FILLERS))
_LONGEST_AGENT_NAME = 40
_QUESTIONS = frozenset({"what", "which", "how", "much", "many"})
_ASKS = frozenset({"is", "are", "was", "were", "has", "did", "does"})
_STATES = frozenset({"was", "were", "been"})
_WHATEVER = frozenset({"anything", "it", "them", "yet", "that", "this"})


class Placed(msgspec.Struct):
    """A placed clause: a task of the plan.

    Attributes:
        name: name of its skill, or its first words for an agent.
        skill: None for an agent.
        lines: its dependencies, as source -> condition; empty for SUCCESS_ONLY.
    """

    name: str
    description: str
    device: str
    skill: Skill | None = None
    inputs: dict[str, Any] = {}
    tips: list[str] = []
    lines: dict[str, str] = {}


class _Choice(msgspec.Struct, frozen=True):
    device: str
    ranked: Ranked
    missing: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.device}.{self.ranked.skill.name}"


def place(clause: Clause, fleet_words: FleetWords, earlier: Sequence[Earlier], following: Sequence[Token] = ()) -> list[Placed]:
    """Place one clause after the tasks in ``earlier``, nearest first: as one task, or one for each value of a list.

    ``following`` has the tokens of a clause whose object this clause shares.

    Raises:
        ClauseRefused: the clause cannot be placed; has the code and reason.
    """
    instruction = _Instruction(clause.tokens, fleet_words, asked=clause.asked)
    instruction.refuse_unsupported()
    named = instruction.named_devices()
    choices = instruction.choices(earlier)
    agents = [device for device in named if fleet_words.fleet[device].natural_language]
    if len(agents) == 1 and not any(choice.device in named and not choice.missing for choice in choices):
        slug = "_".join(part.lower() for part in instruction.text.split())[:_LONGEST_AGENT_NAME]
        return [Placed(slug or agents[0], clause.text, agents[0])]
    choice, tips = instruction.choose(choices, named)
    skill = choice.ranked.skill
    arguments = Arguments(skill, instruction.tokens)
    if arguments.unplaced and (lists := _value_lists(skill, instruction.tokens)):
        return [
            Placed(skill.name, clause.text, choice.device, skill, inputs, tips + _complete(skill, choice.label, inputs, earlier))
            for inputs in lists
        ]
    if arguments.unplaced:
        takes = ", ".join(skill.parameter_names()) or "nothing"
        values = ", ".join(repr(value) for value in arguments.unplaced)
        why = f"it is unclear which parameter of {choice.label} takes {values} (it takes: {takes})"
        raise ClauseRefused("unplaced_value", why, [choice.label])
    inputs = arguments.inputs
    if following:
        shared = Arguments(skill, _Instruction(following, fleet_words).tokens).inputs
        inputs = {**{name: shared[name] for name in skill.required_names() if name in shared}, **inputs}
    tips += _complete(skill, choice.label, inputs, earlier)
    return [Placed(skill.name, clause.text, choice.device, skill, inputs, tips)]


def meant_skills(clause: Clause, fleet_words: FleetWords) -> list[str]:
    """Return the names of the skills that a negated clause excludes.

    Raises:
        ClauseRefused: it is unclear what it excludes.
    """
    tokens = [token for token in clause.tokens if token.low not in _WHATEVER]
    instruction = _Instruction(tokens, fleet_words)
    choices = [] if instruction.named_devices() else instruction.choices(())
    excluded = list(dict.fromkeys(choice.ranked.skill.name for choice in choices if choice.ranked.by_verb and not choice.missing))
    if not excluded or clause.condition is not None or clause.otherwise:
        raise ClauseRefused("not_supported", "it is unclear which step the negation excludes; remove it, or write an 'if'")
    return excluded


def _value_lists(skill: Skill, tokens: Sequence[Token]) -> list[dict[str, Any]]:
    """Return the arguments for each value of the one list in a clause, as in "count '/a', '/b' and '/c'".

    Empty without a list, or if its values do not all fit one parameter.
    """
    runs: list[list[int]] = []
    for index, token in enumerate(tokens):
        if not token.is_value:
            continue
        between = [one.text.lower() for one in tokens[runs[-1][-1] + 1 : index]] if runs else []
        if between and set(between) <= {",", "and"}:
            runs[-1].append(index)
        else:
            runs.append([index])
    lists = [run for run in runs if len(run) > 1]
    if len(lists) != 1 or len({tokens[index].kind == "number" for index in lists[0]}) > 1:
        return []
    found: list[dict[str, Any]] = []
    for one in lists[0]:
        cut = [token for index, token in enumerate(tokens) if index == one or not lists[0][0] <= index <= lists[0][-1]]
        arguments = Arguments(skill, cut, is_of_list=True)
        if arguments.unplaced:
            return []
        found.append(arguments.inputs)
    named = {tuple(inputs) for inputs in found}
    shares_target = any(class_of(name) == "target" and found[0][name] == found[-1][name] for name in found[0])
    return found if len(named) == 1 and not shares_target else []


class _Instruction:
    """The ``tokens`` of a clause that name no device, and their words as ``text``."""

    def __init__(self, tokens: Sequence[Token], fleet_words: FleetWords, *, asked: bool = False) -> None:
        start = 0
        while asked and start < len(tokens) and tokens[start].low in DETERMINERS | _QUESTIONS:
            start += 1
        self._named_thing = any(token.low in DETERMINERS for token in tokens[:start])
        tokens = tokens[start:]
        self._fleet_words = fleet_words
        self._fleet = fleet_words.fleet
        self._mentions = fleet_words.mentions(tokens)
        self.tokens = [token for index, token in enumerate(tokens) if not any(one.start <= index < one.end for one in self._mentions)]
        self.text = " ".join(token.text for token in self.tokens if token.kind == "word")

    def refuse_unsupported(self) -> None:
        """Refuse forms that this planner does not support, such as a negation."""
        if len(self.tokens) > MAX_CLAUSE_WORDS:
            raise ClauseRefused("not_supported", f"it has {len(self.tokens)} words; a clause may have at most {MAX_CLAUSE_WORDS}")
        if not any(token.kind == "word" for token in self.tokens) or self.tokens[0].low in DETERMINERS:
            raise ClauseRefused("no_match", "it does not say what to do")
        low = [token.low for token in self.tokens]
        if low[0] in _ASKS or (_STATES.intersection(low) and not {"that", "which"}.intersection(low)):
            raise ClauseRefused("not_supported", "it asks or says what has been done; write what to do")
        for token in self.tokens:
            advice = _UNSUPPORTED.get(token.low) or (_UNSUPPORTED_OPENINGS.get(token.low) if token is self.tokens[0] else None)
            if advice:
                raise ClauseRefused("not_supported", f"{token.text!r} is not supported: {advice}")
            if token.low in NEGATIONS:
                raise ClauseRefused("not_supported", f"{token.text!r} negates the clause; remove it, or write an 'if'")
            if token.kind == "operator" and token.text not in {"=", "=="}:
                raise ClauseRefused("unknown_words", f"{token.text!r} is a comparison outside an 'if'")

    def named_devices(self) -> list[str]:
        """Return the devices that the clause names, in fleet order; empty if it names none."""
        if not self._mentions:
            return []
        meant = [set(one.devices) for one in self._mentions]
        if common := set.intersection(*meant):
            return [device for device in self._fleet if device in common]
        everything = [device for device in self._fleet if device in set.union(*meant)]
        raise ClauseRefused("ambiguous", f"it names more than one device ({', '.join(everything)}); write a clause for each")

    def choices(self, earlier: Sequence[Earlier]) -> list[_Choice]:
        """Return every skill, nearest first, with the words of the clause that it does not know."""
        skills = self._fleet_words.skills
        stems = words(self.text)
        while len(stems) > 1 and is_generic(stems[0]):
            stems = stems[1:]
        context = {word for token in self.tokens if token.is_value for word in words(token.text)}
        upstream = {word for one in earlier if one.skill is not None for word in skill_words(one.skill).weights}
        found = []
        for ranked in rank(self.text, [skill for _, skill, _ in skills], [known for _, _, known in skills]):
            device, _, known = skills[ranked.index]
            own = {*known.weights, *_capabilities(self._fleet[device]), *context, *_FILLER_STEMS}
            if ranked.by_verb:
                own.add(head(stems))
            found.append((_Choice(device, ranked, tuple(unknown(stems, own))), unknown(stems, own | upstream)))
        if any(choice.ranked.by_verb and not choice.missing for choice, _ in found):
            return [choice for choice, _ in found]  # words of earlier steps count only if no skill knows all words
        return [_Choice(choice.device, choice.ranked, tuple(missing)) for choice, missing in found]

    def choose(self, choices: Sequence[_Choice], named: Sequence[str]) -> tuple[_Choice, list[str]]:
        """Return the one clear choice on the named devices, and tips about it."""
        fitting = [choice for choice in choices if choice.ranked.by_verb and not choice.missing]
        if self._named_thing:  # "give me the archive" asks for a thing; only "the size" may stand for a verb
            fitting = [] if is_common_verb(head(words(self.text))) else [one for one in fitting if one.ranked.skill.idempotent]
        here = [choice for choice in fitting if not named or choice.device in named]
        if not here or (_kind(here) == "same" and _kind(fitting) != "same"):
            raise self._refusal(choices, named)
        here = [choice for choice in here if choice.ranked.by_verb == _kind(here)]
        winner = clear_winner([choice.ranked for choice in here])
        if winner is None:
            labels = tuple(choice.label for choice in here[:_NEAREST])
            raise ClauseRefused("ambiguous", "more than one skill fits equally well; name the skill or the device", labels)
        same = [choice for choice in here if choice.ranked.skill.name == winner.skill.name]
        spoken, order = set(words(self.text)), list(self._fleet)
        same.sort(key=lambda choice: (-len(_capabilities(self._fleet[choice.device]) & spoken), order.index(choice.device)))
        devices = ", ".join(choice.device for choice in same)
        if len(named) > 1 and len(same) > 1:
            raise ClauseRefused(
                "ambiguous", f"the device name could mean {devices}; write one of these ids", [choice.label for choice in same[:_NEAREST]]
            )
        chosen = same[0]
        tips = [f"{chosen.device} was chosen among {devices}, which all have {winner.skill.name}"] if len(same) > 1 else []
        if chosen.ranked.by_verb == "same":
            tips.append(f"{self._verb()!r} was taken to mean {winner.skill.name}")
        return chosen, tips

    def _refusal(self, choices: Sequence[_Choice], named: Sequence[str]) -> ClauseRefused:
        nearest = self._nearest(choices)
        by_verb = [choice for choice in choices if choice.ranked.by_verb]
        fitting = [choice for choice in by_verb if not choice.missing]
        fitting = [choice for choice in fitting if choice.ranked.by_verb == _kind(fitting)]
        if fitting:
            homes = ", ".join(dict.fromkeys(choice.device for choice in fitting))
            why = f"{' or '.join(named)} has no {fitting[0].ranked.skill.name}; it is on {homes}"
            return ClauseRefused("wrong_device", why, [choice.label for choice in fitting[:_NEAREST]])
        by_verb = [choice for choice in by_verb if choice.device in named] or by_verb
        device_words = self._unknown_device_words()
        no_device = f"{device_words!r} is not a device of this fleet ({', '.join(self._fleet)})"
        if not by_verb:
            why = f"no skill of this fleet does {self._verb()!r}{', and ' + no_device if device_words else ''}"
            return ClauseRefused("no_match", why, nearest)
        if device_words:
            return ClauseRefused("unknown_device", no_device, nearest)
        missing = min((choice.missing for choice in by_verb), key=len)
        strange = [token.text for token in self.tokens if token.kind == "word" and not set(words(token.text)).isdisjoint(missing)]
        quoted = ", ".join(repr(word) for word in dict.fromkeys(strange))
        why = f"{by_verb[0].label} is the nearest skill, but does not know {quoted}; put a value in quotes, or remove the words"
        return ClauseRefused("unknown_words", why, nearest)

    def _verb(self) -> str:
        """Return the verb of the clause, as written."""
        verb = head(words(self.text))
        return next((token.text for token in self.tokens if token.kind == "word" and verb in words(token.text)), self.text)

    def _unknown_device_words(self) -> str:
        """Return the unknown words in the position of a device: the "toaster" of "on the toaster"."""
        for index, token in enumerate(self.tokens):
            if token.low not in NAMING_PREPOSITIONS:
                continue
            start = index + 1
            while start < len(self.tokens) and self.tokens[start].low in DETERMINERS:
                start += 1
            phrase: list[str] = []
            for word in self.tokens[start : start + _NEAREST]:
                if word.kind != "word" or word.low in NAMING_PREPOSITIONS or word.low in FILLERS:
                    break
                phrase.append(word.text)
            if phrase and self._fleet_words.vocabulary.isdisjoint(words(" ".join(phrase))):
                return " ".join(phrase)
        return ""

    def _nearest(self, choices: Sequence[_Choice]) -> tuple[str, ...]:
        text = self.text[:200].lower()
        likeness = {choice.label: SequenceMatcher(None, text, choice.ranked.skill.name.lower()).ratio() for choice in choices[:200]}
        near = sorted(choices, key=lambda choice: (-choice.ranked.score, -likeness.get(choice.label, 0.0)))
        return tuple(choice.label for choice in near[:_NEAREST])


def _capabilities(profile: AgentProfile) -> set[str]:
    return {word for capability in profile.capabilities for word in words(capability)}


def _kind(choices: Sequence[_Choice]) -> str:
    """Return the nearest way in which the verb names one of the choices."""
    return min((choice.ranked.by_verb for choice in choices), key=VERB_KINDS.index)


def _complete(skill: Skill, label: str, inputs: dict[str, Any], earlier: Sequence[Earlier]) -> list[str]:
    """Fill missing arguments from earlier clauses; return tips about the values carried over.

    A field that only the previous step returns needs no entry: the runtime passes it on by name.
    """
    tips: list[str] = []
    for name in skill.parameter_names():
        providers = [
            one for one in earlier if one.distance and one.gives_result and one.skill and name in (one.skill.output_fields() or ())
        ]
        if name in inputs or [one.distance for one in providers if one.has_line] == [1]:
            continue
        required = name in skill.required_names()
        values: list[Any] = []
        for one in earlier:
            if name in one.inputs and one.inputs[name] not in values:
                values.append(one.inputs[name])
        if sum(one.distance == 1 for one in providers) == 1:
            inputs |= {name: _from_result(name, label, (), providers)} if required else {}
        elif len(values) == 1 and (required or isinstance(values[0], str)):
            inputs[name] = values[0]
            tips.append(f"{name} {values[0]!r} is carried over from an earlier clause")
        elif required:
            inputs[name] = _from_result(name, label, values, providers)
    return tips


def _from_result(name: str, label: str, values: Sequence[Any], providers: Sequence[Earlier]) -> str:
    """Return a reference to the nearest result that has a required parameter."""
    if values:
        raise ClauseRefused("missing_parameter", f"{label} needs {name!r}, and earlier clauses name {values}; say which", needs=name)
    if not providers:
        raise ClauseRefused("missing_parameter", f"{label} needs {name!r}, which neither the clause nor an earlier step gives", needs=name)
    nearest = [one.task_id for one in providers if one.distance == providers[0].distance]
    if len(nearest) > 1:
        raise ClauseRefused(
            "missing_parameter", f"{label} needs {name!r}, and {' and '.join(nearest)} both return one; say which", needs=name
        )
    return f"${{{nearest[0]}.{name}}}"
