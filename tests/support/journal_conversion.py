"""Golden journals of before, in today's format. This goes when the format is released: no later version reads databases of before.

An event or effect whose form has changed has a function in ``EVENTS`` or ``EFFECTS`` that changes the old one, in JSON. What was a
sentence is a phrase now: of an effect it is taken from a replay, and must have the words of the sentence, or of ``MENDED``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from unittest import mock

import msgspec

from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.journal import SCHEMA_VERSION, JournalMismatch, Record
from asterism.engine.kernel.machine import Machine, StepContext
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.phrase import Phrase
from asterism.engine.kernel.run import Run

BEFORE = 8
"""The first version that golden journals may have without conversion."""
MENDED: Mapping[str, str] = {
    "How shall it go on": "How should this run continue",
    " because nothing new has come of the last steps": ": the last steps gave nothing new",
}
"""Parts of sentences that have other words since, with today's."""


def _feedback(asked: dict[str, Any]) -> None:
    asked.pop("refusal", None)  # the feedback has it


def _question(asked: dict[str, Any]) -> None:
    asked["question"] = asked.pop("prompt")
    if asked.get("subject", {}).get("worker") == "user":  # of a loop: the question is not the intent of a step any more
        del asked["subject"]["intent"]


def _guards(submitted: dict[str, Any]) -> None:
    guards = submitted.get("guards", {})
    if not guards.pop("exempts_submission", True):  # the plan's part was set by an earlier run, and concerns all of this one
        guards["concerning"] = [*guards.get("plan_skills", ()), *guards.get("plan_devices", ())]


EVENTS: Mapping[str, Callable[[dict[str, Any]], None]] = {"loop_submitted": _guards}
EFFECTS: Mapping[str, Callable[[dict[str, Any]], None]] = {"ask_person": _question, "ask_planner": _feedback}
ADDED: Mapping[str, frozenset[str]] = {"ask_person": frozenset({"kind", "about"}), "dispatch": frozenset({"sources"})}
"""Fields that effects had not, and take from the replay."""


def converted(machine: Machine[Any], records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of a journal in today's format.

    Raises:
        ValueError: a replay of a record gives something else than what it has.
    """
    run: Run[Any] | None = None
    for record in records:
        if record.version >= BEFORE:
            yield record
            continue
        run = Run(machine, record.run_id) if run is None else run
        body = json.loads(record.body)
        if change := EVENTS.get(record.kind):
            change(body["event"])
        for effect in body.get("effects", ()):
            if change := EFFECTS.get(effect["type"]):
                change(effect)
        effects = body.pop("effects", [])
        text = msgspec.json.encode(body).decode()
        entry = packer(machine).unpack(msgspec.structs.replace(record, body=text, version=SCHEMA_VERSION))
        added: dict[str, Any] = {}
        try:
            with mock.patch.object(StepContext, "side_effect", _recording(added)):
                run.replay([entry])
        except JournalMismatch as mismatch:
            if "schedules other effects" not in str(mismatch):  # it has none here, and the run has gone on with those of the replay
                raise
        now = round_trip(run._last[-1].effects) if not record.note else []
        if len(now) != len(effects):
            raise ValueError(f"{record.run_id}, entry {record.seq}: {len(now)} effects, not {len(effects)}")
        taken = [_taken(old, new, ADDED.get(old["type"], frozenset())) for old, new in zip(effects, now, strict=True)]
        if added:
            body["facts"] = {**body.get("facts", {}), **added}
        order = {"event": body["event"], **({"effects": taken} if taken else {}), **body}
        yield msgspec.structs.replace(record, body=msgspec.json.encode(order).decode(), version=SCHEMA_VERSION)


def _recording(added: dict[str, Any]) -> Callable[..., Any]:
    """Return a ``side_effect`` that also computes what an entry of before has not recorded."""

    def side_effect(context: StepContext, name: str, compute: Callable[[], Any]) -> Any:
        if name not in context.side_effects:
            context.side_effects[name] = added[name] = compute()
        return context.side_effects[name]

    return side_effect


def _taken(old: Any, new: Any, added: frozenset[str] = frozenset()) -> Any:
    """Return an old value with its sentences as the phrases that a replay has."""
    if isinstance(old, str) and isinstance(new, dict):
        words = str(msgspec.convert(new, Phrase))
        for was, mended in MENDED.items():
            old = old.replace(was, mended)
        if words != old:
            raise ValueError(f"{old!r} is worded {words!r} now")
        return new
    if isinstance(old, dict) and isinstance(new, dict):
        order = dict.fromkeys((*new, *old))
        return {name: _taken(old[name], new.get(name)) if name in old else new[name] for name in order if name in old or name in added}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_taken(was, now) for was, now in zip(old, new, strict=True)]
    return old
