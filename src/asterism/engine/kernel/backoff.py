"""Growing waits between tries."""

from __future__ import annotations

from typing import NamedTuple


class Backoff(NamedTuple):
    """Waits of which each is twice the one before, up to the longest.

    Attributes:
        first_s: seconds of the first wait.
        longest_s: seconds of the longest.
        jitter: the share of a wait, from 0 to 1, by which chance may shorten it, so that those who
            wait for the same thing do not return at the same moment.
    """

    first_s: float
    longest_s: float
    jitter: float = 0.0

    def wait_s(self, tries: int, chance: float = 0.0) -> float:
        """Return the wait after so many tries in a row, from 1; ``chance`` is at least 0 and below 1."""
        grown_s = min(self.longest_s, self.first_s * 2.0 ** min(tries - 1, 60))
        return grown_s * (1 - self.jitter * chance)
