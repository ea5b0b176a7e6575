"""The example with six kinds of device, whose driver is killed after each entry in turn: ``python -m tests.end_to_end.remote_crashes``.

Each trial is a run in a database of its own: a process drives it until entry N is durable, and is killed with SIGKILL. Others resume it
and answer its questions: those of the devices with the prepared answers, and those about interrupted work from what the device has
counted. Then each device must have worked exactly once, each must have received the file that it was given, and no process may be left.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asterism.app.bootstrap import run_files
from asterism.engine.control.run_control import Verb
from asterism.engine.ports.store import InquiryRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.stores.sqlite import SqliteStore
from examples.remote.servers import Servers
from examples.remote.skills import digest
from tests.support.attempt_files import parts

OWNER = Path(__file__).with_name("crash_owner.py")
ROOT = Path(__file__).parents[2]
PLAN = json.loads((ROOT / "examples" / "remote" / "plan.json").read_text(encoding="utf-8"))
DEVICES = ("desk", "editor", "catalogue", "host", "reviewer", "publisher")
TEXT = "A few words about tides, and no more."
INTERRUPTED = {"draft": "desk", "edit": "editor", "register": "catalogue", "count": "host", "reader": "reviewer", "publish": "publisher"}
"""Device of an interrupted task or worker, by a word of the question about it."""
DRAFT, EDITED = (digest(text.encode()) for text in (TEXT, f"Tides\n\n{TEXT}"))
RECEIVED = {"editor": DRAFT, "catalogue": DRAFT, "host": DRAFT, "reviewer": EDITED, "publisher": EDITED}
"""Digest of the file that each device is given."""
NEVER, MAX_ENTRIES, MAX_RESUMES = 100_000, 300, 20
WITHIN_S = 120.0
GONE_S = 30.0


@dataclass
class Trial:
    """One run.

    Attributes:
        die_after: number of entries after which its driver is killed.
        entries: number of entries that were durable then; all of them if the run ended before.
        killed_at: kind of the last of them; empty if the run ended before.
        answers: the questions about interrupted work, as ``DEVICE done`` or ``DEVICE again``.
        starts: number of times that each device has begun to work.
        faults: what must not be; empty for a good trial.
    """

    die_after: int
    entries: int = 0
    killed_at: str = ""
    answers: list[str] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Return the trial as a row of the table."""
        counted = " ".join(str(self.starts.get(device, 0)) for device in DEVICES)
        return f"{self.entries:>7}  {self.killed_at:<22} {counted}  {', '.join(self.answers) or '-':<34} {'; '.join(self.faults) or 'ok'}"


class Site:
    """The servers of the example, and the runs on them."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self._seen = 0

    def work(self) -> list[dict[str, Any]]:
        """Return what the devices have noted since the trial began."""
        file = self.servers.folder / "work"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[self._seen :]] if file.exists() else []

    def begin(self) -> None:
        """Forget the work so far."""
        self._seen += len(self.work())

    def starts(self, device: str) -> list[Any]:
        """Return the results of the work that a device has begun."""
        return [noted.get("result") for noted in self.work() if (noted["device"], noted["event"]) == (device, "start")]

    def database(self, number: int) -> Path:
        return self.servers.folder / f"runs-{number}.db"

    def environment(self, number: int) -> dict[str, str]:
        """Return the environment of the processes that drive a run; what they perform themselves is fast."""
        return {**self.servers.environment, "ASTERISM_DATABASE": str(self.database(number)), "ASTERISM_REMOTE_PACE": "0.2"}

    def owner(self, number: int, *, new: bool, die_after: int = NEVER) -> subprocess.Popen[str]:
        """Start a process that drives the run of a trial."""
        plan, fleet = json.dumps(PLAN) if new else "-", self.servers.folder / "fleet.toml"
        argv: list[Path | str] = [OWNER, self.database(number), fleet, f"r{number}", plan, str(die_after)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, *argv], env=self.environment(number), cwd=ROOT, **pipes)

    def drive(self, number: int, *, new: bool, die_after: int = NEVER) -> str:
        """Drive a run until it ends, waits or its driver is killed, for which ``killed`` is returned."""
        with self.owner(number, new=new, die_after=die_after) as owner:
            try:
                out, err = owner.communicate(timeout=WITHIN_S)
            except subprocess.TimeoutExpired:
                owner.kill()
                return f"no end within {WITHIN_S:g} s"
        return "killed" if owner.returncode == -signal.SIGKILL else (out + err).strip()

    def entries(self, number: int) -> list[str]:
        """Return the kinds of the entries of a run and its children, oldest first."""
        with contextlib.closing(sqlite3.connect(self.database(number))) as database:
            return [kind for (kind,) in database.execute("SELECT kind FROM entries ORDER BY rowid")]

    def trial(self, die_after: int) -> Trial:
        """Kill the driver of a run after so many entries, and bring the run to its end."""
        found = Trial(die_after)
        self.begin()
        said = self._until_killed(found)
        if said != "killed":
            found.entries = len(self.entries(die_after))
            return self._ended(found, said)
        found.entries, found.killed_at = len(self.entries(die_after)), self.entries(die_after)[-1]
        self._check(found, "when killed")
        return self.finish(found)

    def finish(self, found: Trial) -> Trial:
        """Bring the run of a trial to its end."""
        said = "waiting"
        for _ in range(MAX_RESUMES):
            said = self.drive(found.die_after, new=False)
            if not said.startswith("waiting"):
                break
            self.answer(found.die_after, found)
        return self._ended(found, said)

    def _ended(self, found: Trial, said: str) -> Trial:
        if said != "ended finished":
            found.faults.append(said.replace("\n", " ")[-300:])
        self._check(found, "at the end", exactly=True)
        if left := self.left():
            found.faults.append(f"{len(left)} processes are left: {left}")
        return found

    def _until_killed(self, found: Trial) -> str:
        number, before, said = found.die_after, 0, "waiting"
        for attempt in range(MAX_RESUMES):
            said = self.drive(number, new=attempt == 0, die_after=number - before)
            if not said.startswith("waiting"):
                break
            before = len(self.entries(number))
            self.answer(number, found)
        return said

    def answer(self, number: int, found: Trial) -> None:
        """Answer the open questions of a run."""

        async def answered() -> None:
            store = SqliteStore.open(self.database(number), create=False)
            try:
                client = Client(store, SystemClock(), {})
                inquiries = await store.inquiries()
                pending = {row.key.partition("#")[0] for row in await store.inbox([asked.run_id for asked in inquiries])}
                for asked in inquiries:
                    if asked.inquiry_id not in pending:
                        verb, value = self._reply(asked, found)
                        if value == TEXT:
                            value = await run_files(store, self.database(number)).put(f"r{number}", "draft.txt", parts(TEXT.encode()))
                        await client.post_answer(asked.inquiry_id, verb, actor="test", value=value)
            finally:
                await store.close()

        asyncio.run(answered())

    def _reply(self, asked: InquiryRow, found: Trial) -> tuple[Verb, Any]:
        if asked.prompt == "What is the title?":
            return "respond", "Tides"
        if asked.prompt.startswith("Who is the author"):
            return "respond", {"author": "Ada"}
        device = next((device for word, device in INTERRUPTED.items() if word in asked.prompt), "")
        if not device or "interrupted" not in asked.prompt:
            found.faults.append(f"asked {asked.prompt!r}")
            return "reject", None
        results = self.starts(device)
        found.answers.append(f"{device} {'done' if results else 'again'}")
        return ("respond", results[0]) if results else ("approve", None)

    def _check(self, found: Trial, when: str, *, exactly: bool = False) -> None:
        found.starts = {device: len(self.starts(device)) for device in DEVICES}
        found.faults += [f"{device} began {count} times {when}" for device, count in found.starts.items() if count > 1]
        if exactly:
            found.faults += [f"{device} did not work" for device, count in found.starts.items() if not count]
            messages = collections.Counter(
                noted["result"] for noted in self.work() if noted["device"] == "editor" and noted["event"] != "file"
            )
            if list(messages.values()) != [1, 1]:
                found.faults.append(f"the editor has received the messages {dict(messages)}")

            found.faults += asyncio.run(self._file_faults(found.die_after))

    async def _file_faults(self, number: int) -> list[str]:
        """Return what is wrong with the files of a run: those that the devices have received, and those that it has stored."""
        received = {
            device: {noted["result"] for noted in self.work() if (noted["device"], noted["event"]) == (device, "file")}
            for device in RECEIVED
        }
        faults = [f"{device} has received {received[device]}" for device, digest in RECEIVED.items() if received[device] != {digest}]
        store = SqliteStore.open(self.database(number), create=False)
        try:
            files = run_files(store, self.database(number))
            rows = {row.digest for row in await files.rows(f"r{number}")}
            for row in rows:
                async for _ in files.read(f"r{number}", row):  # checked by its digest
                    pass
        finally:
            await store.close()
        return faults if rows == {DRAFT, EDITED} else [*faults, f"the run has the files {rows}"]

    def left(self) -> list[str]:
        """Return the processes of the example, other than its servers, that have not ended after a while."""
        give_up = time.monotonic() + GONE_S
        while (alive := list(self._processes())) and time.monotonic() < give_up:
            time.sleep(0.1)
        return alive

    def _processes(self) -> Iterator[str]:
        mark = f"ASTERISM_REMOTE_DIR={self.servers.folder}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if int(folder.name) not in {os.getpid(), *self.servers.pids} and mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield f"{folder.name} {(folder / 'cmdline').read_bytes().replace(bytes(1), b' ').decode(errors='replace')[:80]}"


def trials(site: Site) -> Iterator[Trial]:
    """Yield a trial for each append of the run, the last one without a kill."""
    die_after = 1
    for _ in range(MAX_ENTRIES):
        yield (found := site.trial(die_after))
        if not found.killed_at:
            return
        die_after = max(die_after, found.entries) + 1
    raise AssertionError(f"the run has not ended after {MAX_ENTRIES} entries")


def main() -> int:
    """Print the table; return 1 if a trial has a fault."""
    faults, answers = 0, collections.Counter[str]()
    with tempfile.TemporaryDirectory(prefix="asterism-remote-") as folder, Servers(Path(folder)) as servers:
        print(f"entries  killed after            starts of {', '.join(DEVICES)}; interrupted work and its answer")
        count = 0
        for count, found in enumerate(trials(Site(servers)), start=1):  # noqa: B007 - it is printed
            print(found.row(), flush=True)
            faults += bool(found.faults)
            answers.update(found.answers)
    print(f"{count} runs, {count - 1} of them killed, {faults} with a fault; answered: {dict(sorted(answers.items()))}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
