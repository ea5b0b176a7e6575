"""The words of the engine's phrases, which runs of every form have."""

from __future__ import annotations

from collections.abc import Mapping

from asterism.engine.kernel.phrase import Wording, declare

PHRASES: Mapping[str, Wording] = {
    # why a run has ended, or an effect has no result of its own
    "interrupted_failed": "its method interrupted failed: {error}",
    "no_result_of_interrupted": "its method interrupted returned {returned}, which is not its result",
    "owner_ended": "its owner's process ended while it was under way",
    "run_cancelled": "cancelled by {by}{why:+: }",
    "run_defect": "{event} could not be taken: {why}",
    "stopped": "it was stopped{why:+: }",
    "without_result": "{why}; {problem}",
}
declare(PHRASES)
