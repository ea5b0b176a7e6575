"""The known words, in one list for each kind, in lower case and with a plain apostrophe.

The offline planner refuses a clause with a word that is neither in these lists nor known from the
skill or an earlier step. The lists of fillers must not contain words that change the request
("not", "every", "twice", "more").
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> frozenset[str]:
    """Return the phrases between bars; a line break is a space."""
    return frozenset(" ".join(phrase.split()) for phrase in text.split("|"))


def _longest_first(text: str) -> tuple[tuple[str, ...], ...]:
    """Return phrases as tuples of words, "and then" (the longest) before "and"."""
    return tuple(sorted((tuple(phrase.split()) for phrase in _phrases(text)), key=lambda phrase: (-len(phrase), phrase)))


# -- words with little meaning of their own --------------------------------------------------------

DETERMINERS = _words("the my our a an this that your its their some these those")
PRONOUNS = _words("it them that this these those they")
COPULAS = _words("is are was be were it's stays comes turns")
NEGATED_COPULAS = _words("isn't aren't wasn't")
NAMING_PREPOSITIONS = _words("on onto at to from using via")
"""Prepositions after which the offline planner reads an unknown word as the name of a missing
device."""
DEVICE_PREPOSITIONS = NAMING_PREPOSITIONS | _words("with in into by through over use")
DEVICE_CAUSATIVES = _words("have let ask tell make get")
DEVICE_NOUNS = _words("device machine server host node computer box system environment")
PARAMETER_LINKS = _words("of is to at as = == be set a the")
"""Words that may stand between a parameter's name and its value."""
NEGATIONS = NEGATED_COPULAS | _words(
    """not no never none don't dont doesn't without except skip avoid cannot can't won't shouldn't mustn't neither nor nothing
    instead stop"""
)
STOP_WORDS = (
    DETERMINERS
    | PRONOUNS
    | NAMING_PREPOSITIONS
    | _words(
        """and are as be been by for has have i in into is itself let me of off out please so then there up upon us use was we were
        will with within you"""
    )
)
FILLERS = STOP_WORDS | _words(
    """all any both here now again also just simply kindly quickly carefully first finally lastly whole entire complete full
    new newly fresh freshly resulting given following same over through per really actually directly straight properly
    everything what where which whatever inside afterwards later else called named path value result results output outputs
    thing things data work job task step machine there takes"""
)
CONDITION_FILLERS = STOP_WORDS | _words("measured resulting reported value result")

# -- verbs -----------------------------------------------------------------------------------------

GENERIC_VERBS = _words("run do perform execute start launch make create build carry kick go try begin call invoke conduct trigger")
"""Verbs that do not say what to do; the next word does."""
PHRASAL_VERBS = frozenset({("back", "up"), ("roll", "out"), ("clean", "up"), ("check", "out")})
SYNONYMS = (
    _words("download fetch get grab pull retrieve obtain acquire"),
    _words("train fit teach retrain"),
    _words("evaluate assess measure score benchmark test"),
    _words("deploy ship release publish rollout"),
    _words("count tally enumerate"),
    _words("archive zip pack compress bundle backup"),
    _words("check inspect examine scan verify validate confirm"),
    _words("delete remove erase"),
    _words("copy duplicate"),
    _words("move transfer"),
    _words("list show display print"),
    _words("convert transform"),
    _words("summarize summarise condense"),
    _words("send email mail"),
    _words("clean cleanup tidy"),
)
"""Groups of synonymous verbs."""
OTHER_VERBS = _words(
    """add analyze announce append back brew build call close collect compile compute configure cook crop draw edit encrypt decrypt
    export extract filter find fix format import index insert install label load log make merge monitor notify open order parse
    pause plot post push query read rebuild record remind rename render repair report reset resize restart restore roll save
    search share sort split start stop store sync tag tell translate turn unpack unzip update upgrade upload wait warn watch
    write"""
)
"""Verbs that begin a clause after "and", even without a skill for them, so that a refusal names the
right clause."""

# -- what links the clauses of a request -----------------------------------------------------------

THEN = _longest_first(
    """then | -> | → | => | after that | after this | afterwards | afterward | after which | once done | when done
    | once that is done
    | as soon as that is done | as soon as this is done | as soon as it is done | as soon as it has finished | after it is done
    | once this is done | once it is done | when that is done | once that's done | once it's done
    | when it's done | once finished | when finished | once that is finished | once that has finished | once it has finished
    | when that has finished | followed by"""
)
THEN_AT_START = _longest_first("next | finally | lastly | last | subsequently | later | in the end | as a last step | as the last step")
PARALLEL = _longest_first(
    """in parallel | in parallel with | in parallel with that | in parallel to that | meanwhile | in the meantime
    | at the same time | at the same time as | simultaneously | concurrently"""
)
WHILE = _longest_first("while | whilst")
OTHERWISE = _longest_first("otherwise | or else | else | if not")
IF = _longest_first(
    """if | only if | but only if | provided | provided that | as long as | in case | when | only when | but only when | once
    | as soon as"""
)
ASKING = _longest_first("tell me | show me | give me | say")
ONCE = _longest_first("once | as soon as | after")
"""Openings of a step that comes first, as in "once the data is downloaded, train"."""
PASSIVES = _longest_first(
    "is to be | are to be | should be | must be | has to be | have to be | needs to be | need to be | shall be | ought to be"
)
"""Auxiliaries before the participle that says what is to be done. "is" and "was" state or ask."""
DONE = _longest_first("is | are | has been | have been")
"""The same after "once"."""
REPORTS = _words("tell notify inform warn alert let me us know about it that this then please by the a reason")
"""Words that only ask to hear of the end of a run, which every run reports."""
NAMED_RESULTS = _longest_first("what comes out of it | what comes out of that | what comes out | what came out | whatever comes out")
LIST_OPENINGS = _longest_first("for each of the | for each of | for each | for every | for all of | for all | for both")
UNLESS = _longest_first("unless | except if | except when")
LEADING = _longest_first(
    """first | firstly | first of all | second | secondly | third | thirdly | to begin with | to start with | now | also | and
    | but | so | please | kindly | just | simply | i want you to | i want to | i would like you to | i would like to
    | i'd like you to | i'd like to | i need you to | i need to | we need to | we want to | we should | we must | you should
    | you must | you need to | you have to | it should | can you | could you | would you | will you | let us | let's | let me
    | go ahead and | make sure to | be sure to | have it | use it to | do this | do the following | hello | hi | hey"""
)

# -- conditions ------------------------------------------------------------------------------------

_COMPARISONS = {
    ">": """> | exceeds | exceed | exceeding | above | over | greater than | more than | higher than | bigger than | larger than
        | better than""",
    ">=": """>= | ≥ | at least | reaches | greater than or equal to | more than or equal to | no less than | no lower than
        | not less than""",
    "<": "< | below | under | less than | fewer than | lower than | smaller than",
    "<=": "<= | ≤ | at most | less than or equal to | no more than | no greater than | no higher than | not more than",
    "==": "== | = | equals | equal to | exactly",
    "!=": "!= | ≠ | different from | not equal to",
}
COMPARISONS: tuple[tuple[tuple[str, ...], str], ...] = tuple(
    sorted(
        ((phrase, operator) for operator, text in _COMPARISONS.items() for phrase in _longest_first(text)),
        key=lambda pair: (-len(pair[0]), pair[0]),
    )
)
"""Phrases for each CEL comparison, the longest first."""
FAILING = _words("fails fail failed breaks crashes crashed")
SUCCEEDING = _words("succeeds succeed succeeded successful works worked completes completed")
TRUE_WORDS = _words("true yes")
FALSE_WORDS = _words("false no")
