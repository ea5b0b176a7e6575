"""What the devices of the shop do: small, and real as far as a folder reaches."""

from __future__ import annotations

import hashlib
import json
import tarfile
import time
from pathlib import Path
from typing import Any, TypedDict

from asterism import File, SkillContext, skill

RATES = Path("rates.json")
PATIENCE_S = 12 * 3600
SLOW_TEST = 73


class Sales(TypedDict):
    """The sales of a week."""

    week: int
    orders: int
    dollars: float


@skill(idempotent=True)
def read_sales(week: int) -> Sales:
    """Read the sales of a week."""
    orders = 380 + week
    print(f"week {week}: {orders} orders")
    return {"week": week, "orders": orders, "dollars": orders * 27.5}


@skill(idempotent=True)
def convert(dollars: float, currency: str) -> dict[str, Any]:
    """Convert dollars by the rate of the day."""
    rate = json.loads(RATES.read_text())[currency]
    print(f"1 dollar is {rate} {currency}")
    return {"total": round(dollars * rate, 2), "currency": currency, "rate": rate}


@skill(idempotent=True)
def draw_chart(total: float, context: SkillContext) -> File:
    """Draw a bar of the total."""
    target = context.folder / "chart.svg"
    target.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="40"><rect width="{total / 40:.0f}" height="40" fill="#2d6a8a"/></svg>'
    )
    print("wrote chart.svg")
    return File(target)


@skill
def send_mail(to: str, subject: str) -> str:
    """Send a mail: here, write it into the folder ``sent``."""
    Path("sent").mkdir(exist_ok=True)
    (Path("sent") / f"{hashlib.sha256(subject.encode()).hexdigest()[:8]}.txt").write_text(f"{to}\n{subject}\n")
    print(f"sent to {to}")
    return to


@skill(idempotent=True)
def back_up(source: str, context: SkillContext) -> File:
    """Pack a folder."""
    target = context.folder / f"{source}.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted(Path(source).rglob("*")):
            archive.add(path)
            print(f"added {path}")
    return File(target)


@skill(idempotent=True)
def verify(archive: Path) -> dict[str, int]:
    """Read every file of an archive."""
    with tarfile.open(archive) as opened:
        names = opened.getnames()
    print(f"{len(names)} files are readable")
    return {"files": len(names)}


@skill(idempotent=True)
def read_stock(file: str) -> dict[str, int]:
    """Add up what is in stock."""
    total = 0
    for number, line in enumerate(Path(file).read_text().splitlines(), 1):
        article, _, pieces = line.partition(",")
        if not pieces.isdigit():
            raise ValueError(f"line {number} of {file}: {pieces!r} is no number of pieces")
        print(f"line {number}: {article}, {pieces} pieces")
        total += int(pieces)
    return {"pieces": total}


@skill(idempotent=True)
def build(service: str, version: str) -> dict[str, str]:
    """Build a service."""
    digest = hashlib.sha256(f"{service} {version}".encode()).hexdigest()[:12]
    print(f"compiling {service} {version}\nlinking\nimage {service}@{digest}")
    time.sleep(1)
    return {"service": service, "image": f"{service}@{digest}"}


@skill(idempotent=True)
def check(image: str) -> dict[str, Any]:
    """Test an image."""
    tests = 96 + len(image)
    for number in range(1, tests + 1):
        slow = " (slow: 2.4 s, database index missing on orders.customer)" if number == SLOW_TEST else ""
        print(f"test {number:3} of {tests} passed{slow}")
    return {"image": image, "passed": tests}


@skill
def deploy(service: str, version: str, region: str, copies: int = 1) -> str:
    """Deploy a version of a service to a region."""
    print(f"deploying {service} {version} to {region}, {copies} copies")
    return f"{service} {version} in {region}, {copies} copies"


@skill(idempotent=True)
def look_up_prices(shop: str) -> dict[str, Any]:
    """Look up what a competitor asks for a lamp."""
    print(f"asking {shop}")
    time.sleep(25)
    return {"shop": shop, "lamp": 30 + len(shop)}


@skill(idempotent=True)
def import_section(section: str, seconds: float = 0.2) -> dict[str, Any]:
    """Import a section of the catalogue."""
    articles = 40 + len(section) * 7 % 60
    print(f"{section}: {articles} articles")
    time.sleep(seconds)
    return {"section": section, "articles": articles}


@skill(idempotent=True)
def import_prices(supplier: str) -> str:
    """Wait for the price list of a supplier: a file of that name."""
    print(f"waiting for {supplier}.csv")
    end = time.monotonic() + PATIENCE_S
    while not Path(f"{supplier}.csv").exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{supplier} sends nothing")
        time.sleep(1)
    return f"{supplier}.csv"
