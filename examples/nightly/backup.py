"""Back up an SQLite database to another folder, check the copy, and say so if anything fails.

python examples/nightly/backup.py shop.db /mnt/offsite
asterism run examples/nightly/backup.py:nightly --set file=shop.db --set offsite=/mnt/offsite
"""

import gzip
import shutil
import sqlite3
import sys
from pathlib import Path

import asterism
from asterism import Constellation, skill


@skill(idempotent=True)
def dump(database: Path) -> str:
    """Write a database as compressed SQL."""
    target = Path(f"{database}.sql.gz")
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as source, gzip.open(target, "wt") as file:
        file.writelines(f"{line}\n" for line in source.iterdump())
    return str(target)


@skill(idempotent=True)
def copy(file: Path, folder: Path) -> str:
    """Copy a file into a folder."""
    return str(shutil.copy2(file, folder / file.name))


@skill(idempotent=True)
def verify(file: Path) -> int:
    """Restore a dump into memory; return its number of tables."""
    with gzip.open(file, "rt") as dumped:
        restored = sqlite3.connect(":memory:")
        restored.executescript(dumped.read())
    return int(restored.execute("select count(*) from sqlite_master where type = 'table'").fetchone()[0])


@skill(idempotent=True)
def alert(text: str) -> None:
    """Append a line to the alerts."""
    with Path("alerts.txt").open("a") as alerts:
        alerts.write(f"{text}\n")


nightly = Constellation("nightly backup", params={"file": str, "offsite": str})
dumped = nightly.task(dump, database=nightly.params.file)
copied = nightly.task(copy, file=dumped, folder=nightly.params.offsite)
nightly.task(verify, file=copied)
nightly.on_failure(alert, text="the backup failed: ${run.error}")

if __name__ == "__main__":
    ended = asterism.run(nightly, file=sys.argv[1], offsite=sys.argv[2])
    sys.exit(ended.exit_code)
