"""The release in the picture: build an archive of the pages, check it, and publish it after an approval."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
import time
from pathlib import Path

from asterism import Constellation, skill

PAGES = Path(__file__).resolve().parents[1]
STORE = Path(tempfile.gettempdir()) / "asterism-picture"


@skill(idempotent=True)
def build(version: str) -> dict[str, str]:
    """Pack the pages of this repository."""
    STORE.mkdir(exist_ok=True)
    name = f"pages-{version}.tar.gz"
    with tarfile.open(STORE / name, "w:gz") as archive:
        for page in sorted(PAGES.glob("*.md")):
            archive.add(page, page.name)
    return {"package": name}


@skill(idempotent=True)
def check(package: str) -> dict[str, int | str]:
    """Read each page of the package; slow enough to be killed in the middle."""
    with tarfile.open(STORE / package) as archive:
        names = archive.getnames()
    time.sleep(2)
    return {"package": package, "pages": len(names)}


@skill
def publish(package: str) -> dict[str, str]:
    """Publish a package: here, name its hash."""
    return {"sha256": hashlib.sha256((STORE / package).read_bytes()).hexdigest()[:12]}


release = Constellation("release", params={"version": str})
built = release.task(build, version=release.params.version)
checked = release.task(check, package=built["package"])
release.task(publish, package=checked["package"], requires_approval=True)
