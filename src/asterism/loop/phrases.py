"""The words of a loop's phrases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asterism.engine.kernel.phrase import Text, Wording, declare

_GATES = {
    "destructive": "it may destroy something",
    "external": "it reaches outside",
    "first_time": "it is its first call in this run",
    "guarded": "it is guarded",
    "forked": "it is a fork's own call",
}
"""Why a person must approve a call of a tool."""


def _when_approved(origin: str) -> str:
    return f"when {origin} was forked" if origin else "before this run was imported"


def _after(failures: Sequence[Text]) -> str:
    return f" after {'; '.join(map(str, failures))}" if failures else ": the last steps gave nothing new"


PHRASES: Mapping[str, Wording] = {
    # questions to people
    "loop.do_step": "Let {worker} do {step} ({intent})?",
    "loop.repeat_step": "{worker} was interrupted in {step} ({intent}) and may have finished. Run it again?",
    "loop.forked_in_step": "{step} was under way when {origin} was forked, and may have finished. Run it here?",
    "loop.approve_step_again": lambda step, origin: f"{step} was approved {_when_approved(origin)}. Run it here?",
    "loop.await_result": "the result of {key}",
    "loop.make_call": lambda worker, tool, why: f"Let {worker} call {tool}? ({_GATES[why]})",
    "loop.repeat_call": "{worker} was interrupted while it called {tool}, which may have been carried out. Call it again?",
    "loop.forked_in_call": "{tool} was under way when {origin} was forked, and may have been carried out. Call it here?",
    "loop.approve_call_again": lambda tool, origin: f"{tool} was approved {_when_approved(origin)}. Call it here?",
    "loop.how_to_continue": lambda failures: f"How should this run continue{_after(failures)}?",
    # why an answer is refused
    "loop.argument_type": "argument {name} of {tool} must be {type}",
    "loop.edit_fields": "an edit of {step} can change its intent and context, not {names}",
    "loop.edit_types": "an edit of {step} must give the intent as text and the context as a JSON object",
    "loop.never_always": "{tool} is guarded: each call needs an approval of its own",
    "loop.no_argument": "{tool} has no argument {names}; it has {known}",
    # feedback to the planner
    "loop.smaller_steps": lambda failures: f"make smaller steps{_after(failures)}",
    "loop.two_steps": "two steps are named {step!r}",
    "loop.no_worker": "step {step!r}: there is no worker {worker!r}; there are {workers}",
    "loop.no_step_before": "step {step!r} uses {used!r}, which is no step before it",
    # why a step, or the run, has failed
    "loop.step_failed": "{step}: {why}",
    "loop.said_no": "{by} said no",
    "loop.unanswered": "nobody answered in time",
    "loop.not_repeated": "it was interrupted, may have been carried out, and is not repeated: {why}",
    "loop.call_too_long": "{who} took longer than {limit_s:g} s",
    "loop.max_rounds": "no answer after {replies} replies (max_rounds)",
    "loop.wall_limit": "the run took longer than {limit_s:g} s (wall_limit_s)",
    "loop.max_tokens": "its models took {tokens} tokens, the limit is {most} (max_tokens)",
    "loop.max_steps": "more than {most} steps were to be begun (max_steps)",
    "loop.max_replans": "the plan was replaced {times} times, and must be replaced again (max_replans)",
    "loop.max_reflections": "it has reflected {times} times (max_reflections)",
    "loop.max_attempts": "{step} was tried {attempts} times (max_attempts): {why}",
    "loop.planning": "no plan can be had after {tries} tries (max_calls): {why}",
    "loop.reflection": "reflection failed {times} times (max_calls): {why}",
    "loop.synthesis": "synthesis failed {times} times (max_calls): {why}",
    "loop.critique": "critique failed {times} times (max_calls): {why}",
    "loop.reflection_fails": lambda failures: "the reflection says fail" + (_after(failures) if failures else ""),
    "loop.given_up": lambda failures: f"it gives up{_after(failures)}",
    "loop.no_other_worker": "nobody else can do {step}: {why}",
}
declare(PHRASES)
