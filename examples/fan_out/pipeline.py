"""Download files, transform each of them, and publish the result if at least 18 of 20 are sound.

python examples/fan_out/pipeline.py work
asterism run examples/fan_out/pipeline.py:pipeline --set folder=work
"""

import json
import sys
from pathlib import Path
from typing import Any

import asterism
from asterism import Constellation, RetryPolicy, each, skill


@skill(idempotent=True)
def download(folder: Path) -> list[str]:
    """Write twenty files; the eighth is broken."""
    folder.mkdir(exist_ok=True)
    for number in range(20):
        (folder / f"{number}.json").write_text(f"[{number}, {number}]")
    (folder / "7.json").write_text("[7, ")
    return [str(folder / f"{number}.json") for number in range(20)]


@skill(idempotent=True)
def transform(file: Path) -> int:
    """Sum the numbers of a file."""
    return sum(json.loads(file.read_text()))


@skill(idempotent=True)
def publish(folder: Path, sums: list[int], broken: list[dict[str, Any]]) -> dict[str, Any]:
    """Write the total to a file."""
    (folder / "total.txt").write_text(f"{sum(sums)}\n")
    return {"total": sum(sums), "files": len(sums), "broken": [failed["item"] for failed in broken]}


pipeline = Constellation("pipeline", params={"folder": str})
files = pipeline.task(download, folder=pipeline.params.folder)
sums = pipeline.task(transform, file=each(files, max_concurrent=8, failed="omit"), retry=RetryPolicy(max_attempts=2, backoff_s=0.1))
pipeline.task(publish, folder=pipeline.params.folder, sums=sums, broken=sums["failed"], when="size(sums) >= 18")

if __name__ == "__main__":
    print(asterism.run(pipeline, folder=sys.argv[1]).results.get("publish"))
