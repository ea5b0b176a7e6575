"""The plans of the site."""

from __future__ import annotations

from typing import Any

Plan = dict[str, Any]


def task(task_id: str, device: str, skill: str, *, name: str = "", after: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return a task of a plan, with the ids of the tasks before it."""
    return {"task_id": task_id, "name": name or task_id, "device": device, "skill": skill, "after": after, **more}


def plan(name: str, *tasks: dict[str, Any], **more: Any) -> Plan:
    """Return a plan; a task with a ``condition`` starts only if it holds for the results of the tasks before it."""
    lines = []
    for it in tasks:
        condition = it.pop("condition", "")
        kind = {"type": "CONDITIONAL", "condition": condition} if condition else {"type": it.pop("kind", "SUCCESS_ONLY")}
        lines += [{"from": other, "to": it["task_id"], **kind} for other in it.pop("after")]
    return {"name": name, "tasks": list(tasks), "dependencies": lines, **more}


def backup() -> Plan:
    """Back up a folder, and say so."""
    return plan(
        "Nightly backup",
        task("pack", "warehouse", "back_up", name="pack the orders", inputs={"source": "orders"}),
        task("verify", "warehouse", "verify", name="verify the archive", inputs={"archive": "${pack}"}, after=("pack",)),
        task("report", "office", "send_mail", inputs={"to": "ops@example.org", "subject": "Backup"}, after=("verify",)),
    )


def sales() -> Plan:
    """Calculate the sales of a week by the rate of the day."""
    return plan(
        "Weekly sales",
        task("read", "office", "read_sales", name="read the sales", inputs={"week": 47}),
        task(
            "convert",
            "office",
            "convert",
            name="convert to euros",
            inputs={"dollars": "${read.dollars}", "currency": "EUR"},
            after=("read",),
        ),
        task("chart", "office", "draw_chart", name="draw the chart", inputs={"total": "${convert.total}"}, after=("convert",)),
        task(
            "mail",
            "office",
            "send_mail",
            name="mail to the owners",
            inputs={"to": "owners@example.org", "subject": "Sales of week 47"},
            condition="size > 0",
            after=("chart",),
        ),
    )


def stock() -> Plan:
    """Count the stock; one line of the list is wrong."""
    return plan(
        "Stock count",
        task("sales", "office", "read_sales", name="read the sales", inputs={"week": 47}),
        task("stock", "warehouse", "read_stock", name="read the stock", inputs={"file": "stock.csv"}),
        task("value", "office", "convert", name="value of the stock", inputs={"dollars": 17.5, "currency": "EUR"}, after=("stock",)),
        task(
            "order",
            "office",
            "send_mail",
            name="order lamps",
            inputs={"to": "lamps@example.org", "subject": "Lamps"},
            after=("value", "sales"),
        ),
        task(
            "tell",
            "office",
            "send_mail",
            name="tell the owners",
            inputs={"to": "owners@example.org", "subject": "Stock"},
            kind="UNCONDITIONAL",
            after=("sales",),
        ),
    )


def branch() -> Plan:
    """Count the stock of a branch that sends no list."""
    return plan(
        "Stock of the branch",
        task("stock", "warehouse", "read_stock", name="read the stock", inputs={"file": "branch.csv"}),
        task(
            "tell",
            "office",
            "send_mail",
            name="tell the owners",
            inputs={"to": "owners@example.org", "subject": "Branch"},
            after=("stock",),
        ),
    )


def release() -> Plan:
    """Build three services, test them, and deploy each after an approval."""
    services = {"shop": ("2.4.1", "eu-central", 2), "shop-api": ("2.4.1", "eu-central", 20), "shop-admin": ("2.4.1-rc1", "us-east", 2)}
    tasks = []
    for service, (version, region, copies) in services.items():
        tasks += [
            task(f"build_{service}", "shop", "build", name=f"build {service}", inputs={"service": service, "version": version}),
            task(
                f"check_{service}",
                "shop",
                "check",
                name=f"check {service}",
                inputs={"image": f"${{build_{service}.image}}"},
                after=(f"build_{service}",),
            ),
            task(
                f"deploy_{service}",
                "shop",
                "deploy",
                name=f"deploy {service}",
                inputs={"service": service, "version": version, "region": region, "copies": copies},
                requires_approval=True,
                after=(f"check_{service}",),
            ),
        ]
    told = {"to": "all@example.org", "subject": "Release 2.4.1"}
    tasks.append(task("tell", "office", "send_mail", name="tell everybody", inputs=told, after=tuple(f"deploy_{it}" for it in services)))
    return plan("Release 2.4.1", *tasks)


def catalogue() -> Plan:
    """Import the sections of a catalogue, 60 tasks in all; two suppliers have not sent their prices."""
    suppliers = ("acme", "borealis", "corvus", "delta")
    tasks = [task("fetch", "office", "import_section", name="fetch the list", inputs={"section": "list"})]
    for supplier in suppliers:
        prices = f"prices_{supplier}"
        tasks.append(
            task(prices, "mailbox", "import_prices", name=f"prices of {supplier}", inputs={"supplier": supplier}, after=("fetch",))
        )
        sections = []
        for number in range(1, 13):
            section = f"{supplier}_{number:02}"
            sections.append(section)
            before = prices if number in (1, 2, 3) else f"{supplier}_{number - 3:02}"
            tasks.append(
                task(section, "office", "import_section", name=f"{supplier} {number}", inputs={"section": section}, after=(before,))
            )
        tasks.append(
            task(
                f"check_{supplier}",
                "office",
                "import_section",
                name=f"check {supplier}",
                inputs={"section": supplier},
                after=tuple(sections[-3:]),
            )
        )
    checks = tuple(f"check_{supplier}" for supplier in suppliers)
    tasks += [
        task("merge", "office", "import_section", name="merge", inputs={"section": "all"}, after=checks),
        task(
            "publish",
            "office",
            "send_mail",
            inputs={"to": "web@example.org", "subject": "Catalogue"},
            requires_approval=True,
            after=("merge",),
        ),
        task("search", "office", "import_section", name="search index", inputs={"section": "index"}, after=("merge",)),
    ]
    return plan("Catalogue of winter", *tasks)
