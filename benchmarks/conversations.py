"""``python -m benchmarks.conversations``: a thousand conversations at once in one process; what a turn and a waiting one cost.

Every user has one conversation; all speak at once, three times, through one orchestrator over a fresh SQLite file. One that waits is
in the journal and not in memory: what is measured is what is left after all have been asked, by tracemalloc.
The rows are measured in two processes: one with the extra ``talk``, and one in which it cannot be imported.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from asterism.app.bootstrap import open as open_runtime
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, Orchestrator, StandardAgent, flowagent
from asterism.words.reading.number_words import has_library
from benchmarks.machine import described

RESULTS = Path(__file__).with_name("CONVERSATIONS.md")
AT_ONCE = 100
"""Messages under way at once; the others queue, as in a server."""


@flowagent(triggers=["echo"], description="Echo")
class Echo(StandardAgent):
    """Asks for two fields and says them."""

    word: str = InputField("Which word?")
    times: int = InputField("How many times?", ge=1, le=9)

    async def on_running(self, msg: Message) -> AgentResult:
        """Say them."""
        return self.make_result(AgentStatus.COMPLETED, " ".join([self.word] * self.times))


async def measure(count: int) -> list[str]:
    """Hold that many conversations; returns lines of a report."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_runtime(Path(folder) / "flows.db") as runtime:
            desk = Orchestrator([Echo], runtime=runtime, max_open=count + 1)
            await desk.handle("echo", user="the first, so that everything is imported")
            places = asyncio.Semaphore(AT_ONCE)

            async def say(user: int, text: str) -> AgentResult:
                async with places:
                    return await desk.handle(text, user=f"user {user}")

            async def everybody(text: str) -> tuple[list[AgentResult], float, float]:
                started, used = time.perf_counter(), time.process_time()
                async with asyncio.TaskGroup() as group:
                    turns = [group.create_task(say(user, text.format(user))) for user in range(count)]
                return [turn.result() for turn in turns], time.perf_counter() - started, time.process_time() - used

            gc.collect()
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            await everybody("echo")
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            _, second_s, second_cpu_s = await everybody("word {}")
            said, third_s, third_cpu_s = await everybody("2")
            right = sum(result.raw_message == f"word {user} word {user}" for user, result in enumerate(said))
            if right != count:
                raise RuntimeError(f"{count - right} conversations have got another one's words")
    return [
        f"| a waiting conversation | {(after - before) / count / 1000:,.1f} kB |",
        f"| a message after which the agent asks for the next field | {second_s / count * 1000:,.2f} ms |",
        f"| its processor time | {second_cpu_s / count * 1000:,.2f} ms |",
        f"| a message after which `on_running` completes | {third_s / count * 1000:,.2f} ms |",
        f"| its processor time | {third_cpu_s / count * 1000:,.2f} ms |",
        f"| resident memory of the process afterwards, at most | {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:,.0f} MB |",
        f"| conversations that received their own messages | {right:,} of {count:,} |",
    ]


def column(part: str, *, quick: bool) -> list[tuple[str, str]]:
    """Measure one column in a process of its own; return its names and cells."""
    arguments = [sys.executable, "-m", "benchmarks.conversations", "--part", part, *(["--quick"] if quick else [])]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    names_and_cells = (line.strip("| ").partition(" | ") for line in done.stdout.splitlines())
    return [(name, cell) for name, _, cell in names_and_cells]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversations", description=__doc__)
    parser.add_argument("--part", choices=["with", "without"], help="measure one column only, and print its cells")
    parser.add_argument("--quick", action="store_true", help="a few conversations, and nothing is written: to see that it works")
    options = parser.parse_args()
    quick, count = options.quick, 20 if options.quick else 1000
    if options.part:
        if options.part == "without":
            sys.modules["text_to_num"] = None  # type: ignore[assignment]  # an import of it fails
        if has_library() is not (options.part == "with"):
            raise RuntimeError("the extra talk is not installed")
        print("\n".join(asyncio.run(measure(count))))
        return
    columns = [column(part, quick=quick) for part in ("with", "without")]
    lines = [f"| {name} | {cell} | {other} |" for (name, cell), (_, other) in zip(*columns, strict=True)]
    page = "\n".join([
        "# Conversations",
        "",
        f"*Results.* Written by `python -m benchmarks.conversations`: {count:,} users in one process,",
        f"{AT_ONCE} messages at once, one fresh SQLite file. {described()}.",
        "",
        "| | with the extra `talk` | without it |",
        "|---|--:|--:|",
        *lines,
        "",
        "A waiting conversation is not in memory: it is read from its journal when the next message comes.",
        "Only its entry in the orchestrator's list remains. The time of a message is the wall time of all",
        "messages, divided by their number: acquiring, replaying, moves, and writing to the disk.",
        "",
    ])  # fmt: skip
    print(page)
    if not quick:
        RESULTS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
