"""Golden journals: runs as they were written once, which today's code must still be able to go on with.

``python -m tests.journals.write --anew NAME`` writes one of them anew (``--anew all``: every one). That is a
decision, not a repair: whoever has runs in a database has journals like these. Without ``--anew`` nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from asterism.kernel.journal import Record
from tests.journals import agents, flows, loops

FOLDER = Path(__file__).parent
GOLDEN: dict[str, Callable[[], Sequence[Record]]] = {scene.__name__: scene for scene in (*agents.SCENES, *loops.SCENES, *flows.SCENES)}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.journals.write", description="Write golden journals anew.")
    parser.add_argument("--anew", choices=[*GOLDEN, "all"], help="which one; without it nothing is written")
    given = parser.parse_args(arguments)
    names = list(GOLDEN) if given.anew == "all" else [given.anew] if given.anew else []
    for name in names:
        path_of(name).write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in GOLDEN[name]()))
        print(f"wrote {path_of(name).name}")
    if not names:
        print(f"nothing was written; --anew NAME, of {', '.join(GOLDEN)}, or --anew all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
