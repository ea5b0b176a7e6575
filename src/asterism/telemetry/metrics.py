"""What is counted and timed. Attributes are names of a fleet and words of ours, never ids: each new value is a new series."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Mapping

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

QueueDepths = Callable[[], Mapping[str, int]]
"""How many attempts wait, by device. Called by whoever collects, from any thread."""


class Instruments:
    """The instruments of one meter provider; seconds where they time something.

    Attributes:
        depths: the queues of the runtimes that are open now.
        on: whether there is a provider that records.
    """

    def __init__(self, meter_provider: MeterProvider | None) -> None:
        self._provider = meter_provider
        self.on = False
        meter = metrics.get_meter("asterism", meter_provider=meter_provider)
        self.runs_started = meter.create_counter("asterism.runs.started", "{run}", "Runs that were claimed for the first time.")
        self.runs_ended = meter.create_counter("asterism.runs.ended", "{run}", "Runs that have ended, by outcome.")
        self.tasks = meter.create_counter("asterism.tasks", "{task}", "Tasks of runs that have ended, by their final status.")
        self.attempts = meter.create_counter("asterism.attempts", "{attempt}", "Attempts that have ended, by device, skill and outcome.")
        self.attempt_s = meter.create_histogram("asterism.attempt.duration", "s", "From asking for an attempt to taking its end.")
        self.queue_s = meter.create_histogram("asterism.queue.wait", "s", "From asking for an attempt to its device beginning it.")
        self.people_s = meter.create_histogram("asterism.people.wait", "s", "From asking a person to taking the answer.")
        self.append_s = meter.create_histogram("asterism.append.duration", "s", "From stepping with an event to its being durable.")
        self.depths: list[QueueDepths] = []
        meter.create_observable_gauge("asterism.queue.depth", [self._observe], "{attempt}", "Attempts that wait for a device.")

    def look(self) -> None:
        """See whether somebody has configured a provider by now. Those that come with the API itself record nothing."""
        provider = self._provider or metrics.get_meter_provider()
        self.on = not type(provider).__module__.startswith("opentelemetry.metrics")

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        waiting: collections.Counter[str] = collections.Counter()
        for depths in tuple(self.depths):
            waiting.update(depths())
        return [Observation(depth, {"asterism.device": device}) for device, depth in waiting.items()]


@functools.lru_cache(maxsize=8)
def instruments(meter_provider: MeterProvider | None) -> Instruments:
    """The instruments of a provider (None: the global one); made once, as a provider drops the callbacks of a second gauge."""
    return Instruments(meter_provider)
