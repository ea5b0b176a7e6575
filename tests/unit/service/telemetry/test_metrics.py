"""Counters and timings, as a user's SDK reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from asterism.constellation.machine.events import AttemptBegun
from asterism.engine.control.run_control import OwnershipAcquired
from asterism.service.telemetry.observer import Telemetry
from tests.support.constellation_harness import Agent
from tests.support.constellations import plan


def _value(point: Any) -> Any:
    return (point.count, point.sum) if isinstance(point, HistogramDataPoint) else point.value


class Scene:
    """A run with a telemetry whose metrics can be read."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])
        self.told = 0
        self.telemetry = self.another()

    def another(self, depths: Callable[[], dict[str, int]] = dict) -> Telemetry:
        return Telemetry(lambda _: self.agent.run, lambda: self.agent.now, queue_depths=depths, meter_provider=self.provider)

    def tell(self) -> None:
        """Append the new entries as one batch."""
        self.telemetry.appended("r", self.agent.entries[self.told :])
        self.told = len(self.agent.entries)

    def points(self, name: str) -> dict[tuple[str, ...], Any]:
        """The values of the attributes -> a count, or (how often, the sum) of what was timed."""
        data = self.reader.get_metrics_data()
        found = {
            metric.name: metric.data.data_points
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }
        return {tuple(str(value) for _, value in sorted((point.attributes or {}).items())): _value(point) for point in found.get(name, [])}

    def close(self) -> None:
        self.telemetry.close()
        self.provider.shutdown()


def test_runs_tasks_and_attempts_are_counted_by_how_they_ended() -> None:
    agent = Agent(plan("a b c", "a>b b>c", device="s", skill="again"))
    scene = Scene(agent)
    scene.tell()
    agent.take(OwnershipAcquired(epoch=1, owner="me"))
    scene.tell()
    agent.now += 5
    agent.ends("a", result=1)
    scene.tell()
    agent.now += 2
    agent.ends("b", error="raised")
    scene.tell()
    assert scene.points("asterism.runs.started") == {(): 1}
    assert scene.points("asterism.runs.ended") == {("failed",): 1}
    assert scene.points("asterism.tasks") == {("COMPLETED",): 1, ("FAILED",): 1, ("SKIPPED",): 1}
    assert scene.points("asterism.attempts") == {("s", "completed", "again"): 1, ("s", "raised", "again"): 1}
    assert scene.points("asterism.attempt.duration") == {("s", "completed", "again"): (1, 5.0), ("s", "raised", "again"): (1, 2.0)}
    scene.close()


def test_a_run_that_goes_on_is_not_counted_again() -> None:
    agent = Agent(plan("a"))
    scene = Scene(agent)
    agent.ends("a")
    scene.tell()
    agent.take(OwnershipAcquired(epoch=2, owner="somebody with a letter for it"))
    agent.entries.append(agent.run.note(agent.entries[0].event, at=agent.now, actor="me", key="k", why="it has ended"))
    scene.tell()
    assert scene.points("asterism.runs.started") == {}
    assert scene.points("asterism.runs.ended") == {("finished",): 1}
    scene.close()


def test_a_run_that_waits_for_a_retry_has_not_ended() -> None:
    agent = Agent(plan("a", retry={"max_attempts": 2}))
    scene = Scene(agent)
    agent.ends("a", error="raised")
    scene.tell()
    assert scene.points("asterism.runs.ended") == {}
    scene.close()


def test_the_wait_for_a_person_is_timed() -> None:
    agent = Agent(plan("a", requires_approval=True))
    scene = Scene(agent)
    scene.tell()
    agent.now += 3600
    agent.answers("approve")
    scene.tell()
    assert scene.points("asterism.people.wait") == {("approve",): (1, 3600.0)}
    scene.close()


def test_an_effect_that_another_process_began_is_counted_and_not_timed() -> None:
    agent = Agent(plan("a", device="s", skill="again"))
    scene = Scene(agent)
    scene.told = len(agent.entries)
    agent.take(OwnershipAcquired(epoch=2, owner="me"))
    scene.tell()
    agent.ends("a")
    scene.tell()
    assert scene.points("asterism.attempts") == {("s", "completed", "again"): 1}
    assert scene.points("asterism.attempt.duration") == {}
    scene.close()


def test_the_wait_for_a_device_ends_when_it_begins() -> None:
    agent = Agent(plan("a b c", device="s", skill="again"))
    scene = Scene(agent)
    scene.tell()
    agent.now += 1.5
    agent.batch(agent.end_of("a"), AttemptBegun(of=agent.task("b").effect_id))
    agent.now += 2
    agent.batch(agent.end_of("b"), agent.end_of("c", error="deadline"))
    scene.tell()
    assert scene.points("asterism.queue.wait") == {("s",): (3, 0 + 1.5 + 3.5)}
    assert scene.points("asterism.attempt.duration") == {("s", "completed", "again"): (2, 1.5 + 2)}
    scene.close()


def test_an_append_is_timed_from_its_last_step() -> None:
    agent = Agent(plan("a"))
    scene = Scene(agent)
    agent.now += 0.25
    scene.tell()
    scene.telemetry.appended("r", [])
    assert scene.points("asterism.append.duration") == {(): (1, 0.25)}
    scene.close()


def test_queues_of_all_open_runtimes_are_seen_and_of_closed_ones_not() -> None:
    scene = Scene(Agent(plan("a")))
    first, second = scene.another(lambda: {"s": 2, "d": 1}), scene.another(lambda: {"s": 3})
    assert scene.points("asterism.queue.depth") == {("s",): 5, ("d",): 1}
    first.close()
    assert scene.points("asterism.queue.depth") == {("s",): 3}
    second.close()
    scene.close()
