"""Log lines: whole, in order, cut and thinned out."""

from __future__ import annotations

import asyncio
import os

from asterism.devices.attempts.log_relay import MESSAGE_CHARS, MESSAGES_PER_S, LogReader, RateLimit


def test_a_rate_limit_passes_so_many_a_second_and_reports_how_many_it_dropped() -> None:
    now = [0.0]
    heard: list[str] = []
    gate = RateLimit(lambda _, message: heard.append(message), lambda: now[0], "line")
    for number in range(MESSAGES_PER_S + 5):
        gate.say(None, str(number))
    assert heard == [str(number) for number in range(MESSAGES_PER_S)]
    now[0] = 1.0
    gate.say(None, "again")
    assert heard[-2:] == ["… 5 line(s) dropped", "again"]
    gate.note()
    assert heard[-1] == "again"


def test_lines_are_put_together_and_cut() -> None:
    async def scenario() -> list[str]:
        read, write = os.pipe()
        heard: list[str] = []
        logs = LogReader(read)
        logs.gate = RateLimit(lambda _, message: heard.append(message), asyncio.get_running_loop().time, "line")
        for part in ("one\ntw", "o\r\n", "x" * 30_000, "x" * 30_000, "\n", "gr\u00f6\u00dfer \u661f\n", "the rest"):
            os.write(write, part.encode())
        os.write(write, b"\xff")
        logs.drain()
        os.close(write)
        logs.drain()
        logs.close()
        return heard

    assert asyncio.run(scenario()) == ["one", "two", "x" * MESSAGE_CHARS + "…", "größer 星", "the rest\ufffd"]


def test_output_between_attempts_is_discarded() -> None:
    async def scenario() -> list[str]:
        read, write = os.pipe()
        heard: list[str] = []
        logs = LogReader(read)
        os.write(write, b"unheard\nhalf of")
        logs.drain()
        logs.gate = RateLimit(lambda _, message: heard.append(message), asyncio.get_running_loop().time, "line")
        os.write(write, b"heard\n")
        logs.drain()
        os.close(write)
        logs.close()
        return heard

    assert asyncio.run(scenario()) == ["heard"]
