"""Metrics of runs.

Attributes are names of a fleet or fixed words, never ids: each new value is a new series.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Mapping

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

QueueDepths = Callable[[], Mapping[str, int]]
"""Returns the number of waiting attempts by device. A collector may call it from any thread."""


class Instruments:
    """The instruments of one meter provider; durations are in seconds.

    Attributes:
        depths: the queues of the runtimes that are open now.
        on: True if the provider records.
    """

    def __init__(self, meter_provider: MeterProvider | None) -> None:
        self._provider = meter_provider
        self.on = False
        meter = metrics.get_meter("asterism", meter_provider=meter_provider)
        self.runs_started = meter.create_counter("asterism.runs.started", "{run}", "Runs that were started.")
        self.runs_ended = meter.create_counter("asterism.runs.ended", "{run}", "Runs that have ended, by outcome.")
        self.tasks = meter.create_counter("asterism.tasks", "{task}", "Tasks of runs that have ended, by their final status.")
        self.attempts = meter.create_counter("asterism.attempts", "{attempt}", "Attempts that have ended, by device, skill and outcome.")
        self.attempt_s = meter.create_histogram("asterism.attempt.duration", "s", "From the begin of an attempt to its result.")
        self.queue_s = meter.create_histogram(
            "asterism.queue.wait", "s", "From the request of an attempt to its begin, or to its end in the queue."
        )
        self.people_s = meter.create_histogram("asterism.people.wait", "s", "From a question to a person to the answer.")
        self.append_s = meter.create_histogram("asterism.append.duration", "s", "From the transition of an event to its durable append.")
        self.stuck = meter.create_gauge("asterism.runs.stuck", "{run}", "Runs of the database that are stuck.")
        self.depths: list[QueueDepths] = []
        meter.create_observable_gauge("asterism.queue.depth", [self._observe], "{attempt}", "Attempts that wait for a device.")

    def look(self) -> None:
        """Check if a provider is configured by now. Those of the API itself record nothing."""
        provider = self._provider or metrics.get_meter_provider()
        self.on = not type(provider).__module__.startswith("opentelemetry.metrics")

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        waiting: collections.Counter[str] = collections.Counter()
        for depths in tuple(self.depths):
            waiting.update(depths())
        return [Observation(depth, {"asterism.device": device}) for device, depth in waiting.items()]


@functools.lru_cache(maxsize=8)
def instruments(meter_provider: MeterProvider | None) -> Instruments:
    """Return the instruments of a provider (None: the global one).

    They are cached, because a provider drops the callbacks of a second gauge.
    """
    return Instruments(meter_provider)
