"""The golden folds: deltas, and the rows that they fold to, for a fold in another language to be tested against.

``python -m tests.unit.views.write`` writes ``folds.json`` anew; then read what has changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from asterism.engine.kernel.packing import packer
from asterism.views import Delta, fold
from asterism.views.view import unread_view
from tests.journals.test_golden import FORM_OF, MACHINE_OF, golden

FILE = Path(__file__).with_name("folds.json")
JOURNALS = ("restart", "child", "devices", "queue", "remote", "loop_ladder", "flow", "flow_secret")

PUTS: tuple[dict[str, dict[str, Any]], ...] = (
    {"run": {"state": "A", "code": None}, "task:a": {"n": 1}},
    {},
    {"run": {"state": "B"}, "task:a": {"n": None}, "task:b:c": {"n": [1, {"x": True}]}},
    {"task:a": {"n": 2}},
    {"task:b:c": {"n": "ü"}},
)
DROPS: tuple[tuple[str, ...], ...] = ((), (), (), ("task:b:c", "task:never"), ("task:a",))
BY_HAND = [
    Delta(seq=seq, at=float(seq), kind="go", actor="ann", state="A", text="goes", put=put, drop=drop)
    for seq, (put, drop) in enumerate(zip(PUTS, DROPS, strict=True), start=1)
]
"""Nothing put, a field that no longer applies, an id with a colon, a row that goes and comes again, one that was never there."""


def folds() -> list[dict[str, Any]]:
    """Return the cases: a name, the deltas in order, and the rows that they fold to."""
    cases = [("by hand", BY_HAND)]
    for name in JOURNALS:
        records = golden(name)
        view = unread_view(FORM_OF[name], records[0].run_id)
        cases.append((name, view.read(map(packer(MACHINE_OF[name]).unpack, records))))
    return [{"name": name, "deltas": msgspec.to_builtins(deltas), "rows": fold(deltas)} for name, deltas in cases]


def written() -> str:
    """Return the file's text: an object a line, so that a change is seen in a diff."""
    lines = []
    for case in folds():
        deltas = ",\n".join(msgspec.json.encode(delta, order="sorted").decode() for delta in case["deltas"])
        rows = ",\n".join(f"{_text(row_id)}:{_text(row)}" for row_id, row in sorted(case["rows"].items()))
        lines.append(f'{{"name":{_text(case["name"])},"deltas":[\n{deltas}\n],"rows":{{\n{rows}\n}}}}')
    return "[" + ",\n".join(lines) + "]\n"


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
