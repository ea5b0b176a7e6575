"""Golden journals: runs as they were written once, which today's code must still be able to go on with.

``python -m tests.journals.write NAME …`` writes those that have no file yet. One that has is not written again: users have its like.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from asterism.engine.kernel.journal import Record
from tests.journals import agents, flows, loops

FOLDER = Path(__file__).parent
GOLDEN: dict[str, Callable[[], Sequence[Record]]] = {scene.__name__: scene for scene in (*agents.SCENES, *loops.SCENES, *flows.SCENES)}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.journals.write", description="Write golden journals that have no file yet.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(GOLDEN)}")
    for name in parser.parse_args(arguments).names:
        if path_of(name).exists():
            print(f"{path_of(name).name} is recorded and stays as it is; give a journal of another form a scene and a name of its own")
        else:
            path_of(name).write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in GOLDEN[name]()))
            print(f"wrote {path_of(name).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
