"""The scripted A2A agent in a process of its own, as a test sees it."""

from __future__ import annotations

import time
from pathlib import Path

from asterism.devices.kinds.a2a.content import message_id
from tests.support.forks import forked_script

AGENT = Path(__file__).with_name("a2a_agent.py")
START_S = 60.0


class AgentProcess:
    """A scripted agent, and the files by which it is observed and controlled.

    Args:
        folder: folder of the files, made if it does not exist.
        flags: options of ``tests.support.a2a_agent``.

    Attributes:
        url: address of the agent.
    """

    def __init__(self, folder: Path, *flags: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._process = forked_script(AGENT, str(folder), *flags)
        until = time.monotonic() + START_S
        while not (folder / "url").exists():
            if not self._process.is_alive() or time.monotonic() > until:
                self.kill()
                raise RuntimeError("the scripted agent has not started")
            time.sleep(0.02)
        self.url = (folder / "url").read_text()

    def starts(self, message_key: str) -> int:
        """Return how often the agent has begun to work on the message of a leg."""
        return self._lines("starts").count(message_id(message_key))

    def is_working(self, key: str) -> bool:
        """Return True while the agent works on an attempt, or waits for an answer."""
        return self.starts(key) > self._lines("ends").count(message_id(key))

    def say(self, word: str) -> None:
        """Write a file that the agent looks for."""
        (self.folder / word).touch()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().split() if path.exists() else []
