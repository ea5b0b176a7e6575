"""The small words of a plain request: what links clauses, what compares, and what may be said without meaning anything.

A word that is in none of these lists, and that neither the skill nor what came before speaks of, is not understood,
and its clause is refused. So nothing belongs here that could change what is asked (not "not", "every", "twice", "more").
"""

from __future__ import annotations

from asterism.constellation.ranker import STOP_WORDS, word_set


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """One phrase a line, the longest first, so that "and then" is seen before "and"."""
    return tuple(sorted((tuple(line.split()) for line in text.strip().splitlines()), key=lambda phrase: (-len(phrase), phrase)))


THEN = _phrases("""
then
->
→
=>
after that
after this
afterwards
afterward
after which
once done
when done
once that is done
once this is done
once it is done
when that is done
once that's done
once it's done
when it's done
once finished
when finished
once that is finished
once that has finished
once it has finished
when that has finished
followed by
""")

THEN_AT_START = _phrases("""
next
finally
lastly
last
subsequently
later
in the end
as a last step
as the last step
""")

PARALLEL = _phrases("""
in parallel
in parallel with
in parallel with that
in parallel to that
meanwhile
in the meantime
at the same time
at the same time as
simultaneously
concurrently
""")

WHILE = _phrases("""
while
whilst
""")

OTHERWISE = _phrases("""
otherwise
or else
else
if not
""")

IF = _phrases("""
if
only if
but only if
provided
provided that
as long as
in case
when
only when
but only when
once
as soon as
""")

UNLESS = _phrases("""
unless
except if
except when
""")

LEADING = _phrases("""
first
firstly
first of all
second
secondly
third
thirdly
to begin with
to start with
now
also
and
but
so
please
kindly
just
simply
i want you to
i want to
i would like you to
i would like to
i'd like you to
i'd like to
i need you to
i need to
we need to
we want to
we should
we must
you should
you must
you need to
you have to
it should
can you
could you
would you
will you
let us
let's
let me
go ahead and
make sure to
be sure to
have it
use it to
do this
do the following
hello
hi
hey
""")

DEVICE_PREPOSITIONS = frozenset({"on", "onto", "at", "to", "from", "using", "via", "with", "in", "into", "by", "through", "over", "use"})
DEVICE_CAUSATIVES = frozenset({"have", "let", "ask", "tell", "make", "get"})
NAMING_PREPOSITIONS = frozenset({"on", "onto", "at", "to", "from", "using", "via"})
"""After these an unknown word is taken for a device that the fleet has not."""

DETERMINERS = frozenset({"the", "my", "our", "a", "an", "this", "that", "your", "its", "their", "some", "these", "those"})
PRONOUNS = frozenset({"it", "them", "that", "this", "these", "those", "they"})
DEVICE_NOUNS = frozenset({"device", "machine", "server", "host", "node", "computer", "box", "system", "environment"})

FILLERS = STOP_WORDS | word_set(
    """all any both here now again also just simply please kindly quickly carefully first finally lastly whole entire complete full
    new newly fresh freshly resulting given following same out over through per really actually directly straight properly
    everything what where which whatever onto inside afterwards later else called named path value result results output outputs
    thing things data work job task step machine"""
)

PARAMETER_LINKS = frozenset({"of", "is", "to", "at", "as", "=", "==", "be", "set", "a", "the"})
"""What may stand between a parameter's name and its value."""

NEGATIONS = word_set(
    """not no never none don't dont doesn't isn't without except skip avoid cannot can't won't shouldn't mustn't neither nor nothing instead
    stop"""
)

_IN_ORDER = "put the clauses in the order in which they are to run, joined by 'then'"
_NO_LOOPS = "schedules and loops are not planned offline"
UNSUPPORTED = {"before": _IN_ORDER, "after": _IN_ORDER, "until": _NO_LOOPS, "whenever": _NO_LOOPS}
"""Words that change when something runs, in a way that is not planned: wherever they stand in a clause."""
UNSUPPORTED_OPENINGS = {"every": _NO_LOOPS, "each": _NO_LOOPS, "repeat": _NO_LOOPS, "keep": _NO_LOOPS}

COMMON_VERBS = word_set(
    """add analyze announce append back brew build call close collect compile compute configure cook crop draw edit encrypt decrypt export
    extract filter find fix format import index insert install label load log make merge monitor notify open order parse pause plot post
    push query read rebuild record remind rename render repair report reset resize restart restore roll save search share sort
    split start stop store sync tag tell translate turn unpack unzip update upgrade upload wait warn watch write"""
)
"""Verbs that begin a clause after an "and", whether or not any skill does them: so that the refusal names the right clause."""

_COMPARISON_WORDS = {
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
        ((tuple(said.split()), operator) for operator, texts in _COMPARISON_WORDS.items() for said in texts.split("|")),
        key=lambda pair: (-len(pair[0]), pair[0]),
    )
)
"""What may be said for each CEL comparison, the longest first."""
COPULAS = frozenset({"is", "are", "was", "be", "were", "it's", "stays", "comes", "turns"})
NEGATED_COPULAS = frozenset({"isn't", "aren't", "wasn't"})
FAILING = word_set("fails fail failed breaks crashes crashed")
SUCCEEDING = word_set("succeeds succeed succeeded successful works worked completes completed")
TRUE_WORDS = frozenset({"true", "yes"})
FALSE_WORDS = frozenset({"false", "no"})
CONDITION_FILLERS = STOP_WORDS | word_set("measured resulting reported value result of its there")
