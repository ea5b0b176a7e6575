"""The words of a loop's phrases."""

from __future__ import annotations

from collections.abc import Mapping

from asterism.engine.kernel.phrase import Wording, declare

_GATES = {
    "destructive": "it may destroy something",
    "external": "it reaches outside",
    "first_time": "it is its first call in this run",
    "guarded": "it is guarded",
    "forked": "it is a fork's own call",
}
"""Why a person must approve a call of a tool."""


def _make_call(worker: str, tool: str, why: str) -> str:
    return f"Let {worker} call {tool}? ({_GATES[why]})"


def _when_approved(origin: str) -> str:
    return f"when {origin} was forked" if origin else "before this run was imported"


def _approve_step_again(step: str, origin: str) -> str:
    return f"{step} was approved {_when_approved(origin)}. Run it here?"


def _approve_call_again(tool: str, origin: str) -> str:
    return f"{tool} was approved {_when_approved(origin)}. Call it here?"


PHRASES: Mapping[str, Wording] = {
    # questions to people
    "loop.do_step": "Let {worker} do {step} ({intent})?",
    "loop.repeat_step": "{worker} was interrupted in {step} ({intent}) and may have finished. Run it again?",
    "loop.forked_in_step": "{step} was under way when {origin} was forked, and may have finished. Run it here?",
    "loop.approve_step_again": _approve_step_again,
    "loop.await_result": "the result of {key}",
    "loop.make_call": _make_call,
    "loop.repeat_call": "{worker} was interrupted while it called {tool}, which may have been carried out. Call it again?",
    "loop.forked_in_call": "{tool} was under way when {origin} was forked, and may have been carried out. Call it here?",
    "loop.approve_call_again": _approve_call_again,
}
declare(PHRASES)
