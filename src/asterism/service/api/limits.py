"""Limits on how often and how much a client may ask."""

from __future__ import annotations

import collections
import contextlib
import math
from collections.abc import Callable, Iterator

from asterism.service.api.problems import Problem

LOGINS = 5
"""Logins of one address in a minute."""
SUBMISSIONS = 60
"""Runs that one token submits in a minute, by default."""
STREAMS = 20
"""Open streams of one token."""
MINUTE_S = 60.0
MAX_KEYS = 10_000
"""Clients that are counted; beyond it, those that were counted longest ago are counted afresh."""


class Rate:
    """A limit on the number of requests of one client within a minute.

    Args:
        limit: requests in any minute.
        what: the requests, in words.
        now: returns seconds that do not go backwards.
    """

    def __init__(self, limit: int, what: str, now: Callable[[], float]) -> None:
        self._limit = limit
        self._what = what
        self._now = now
        self._times: collections.OrderedDict[str, collections.deque[float]] = collections.OrderedDict()

    def count(self, key: str) -> None:
        """Count a request of a client.

        Raises:
            Problem: there were too many; this one is not counted.
        """
        now = self._now()
        times = self._times.setdefault(key, collections.deque(maxlen=self._limit))
        self._times.move_to_end(key)
        while times and times[0] <= now - MINUTE_S:
            times.popleft()
        if len(times) == self._limit:
            wait_s = math.ceil(times[0] + MINUTE_S - now)
            raise Problem(
                429, f"more than {self._limit} {self._what} in a minute; try again in {wait_s} s", headers={"Retry-After": str(wait_s)}
            )
        times.append(now)
        if len(self._times) > MAX_KEYS:
            self._times.popitem(last=False)


class Limits:
    """All limits of one server; ``submissions`` of one token in a minute."""

    def __init__(self, now: Callable[[], float], submissions: int = SUBMISSIONS) -> None:
        self.logins = Rate(LOGINS, "logins", now)
        self.submissions = Rate(submissions, "submissions", now)
        self._streams: collections.Counter[str] = collections.Counter()

    @contextlib.contextmanager
    def stream(self, token_id: str) -> Iterator[None]:
        """Count a stream of a token as long as it is open.

        Raises:
            Problem: the token has too many.
        """
        if self._streams[token_id] >= STREAMS:
            raise Problem(429, f"this token has {STREAMS} open streams already; close one", headers={"Retry-After": "10"})
        self._streams[token_id] += 1
        try:
            yield
        finally:
            self._streams[token_id] -= 1
            if not self._streams[token_id]:
                del self._streams[token_id]
