"""Log lines of runs: a transition is DEBUG, the end of a task or a run INFO, trouble WARNING.

A program that uses this as a library sees lines only if it has configured structlog, and then by its own rules.
"""

from __future__ import annotations

import logging
from typing import TextIO

import structlog
from structlog.typing import Processor

from asterism.constellation.task import TaskStar
from asterism.errors import InvalidInput
from asterism.kernel.journal import Entry
from asterism.kernel.machine import EffectResult, kind_of


def configure_logs(level: str, stream: TextIO) -> None:
    """Have lines written: as JSON, or in colour when the stream is a terminal; with them what the logger ``asterism`` is told.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``; lines below it are dropped.
        stream: where they go.

    Raises:
        InvalidInput: there is no such level.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise InvalidInput(f"there is no log level {level!r}; take debug, info, warning or error")
    renderer = structlog.dev.ConsoleRenderer() if stream.isatty() else structlog.processors.JSONRenderer()
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*first, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(renderer, foreign_pre_chain=first))
    ours = logging.getLogger("asterism")
    ours.handlers = [handler]
    ours.setLevel(number)


class LogWriter:
    """Writes them. Nothing is written where structlog is not configured: its default would print on the user's screen."""

    def __init__(self) -> None:
        self._logger = structlog.get_logger("asterism")

    @property
    def wanted(self) -> bool:
        """Whether there is anybody to write for."""
        return structlog.is_configured()

    def transition(self, entry: Entry) -> None:
        """An entry; what it was about stays in the journal."""
        effect = {"effect_id": entry.event.effect_id} if isinstance(entry.event, EffectResult) else {}
        asked = {"asks_for": [kind_of(effect) for effect in entry.effects]} if entry.effects else {}
        noted = {"noted": True} if entry.note else {}
        self._logger.debug(
            kind_of(entry.event), run=entry.run_id, seq=entry.seq, actor=entry.actor, state=str(entry.state), **effect, **asked, **noted
        )

    def task_ended(self, run_id: str, seq: int, task: TaskStar, *, effect_id: str = "", outcome: str = "") -> None:
        """A task has settled, or (it is not settled yet) an attempt at it has ended."""
        said = {"effect_id": effect_id, "outcome": outcome} if effect_id else {}
        code = {"code": task.error.code} if task.error else {}
        self._logger.info(
            "task ended" if task.settled else "attempt ended",
            run=run_id,
            seq=seq,
            task=task.task_id,
            status=str(task.status),
            device=task.device,
            skill=task.resolved_skill,
            **said,
            **code,
        )

    def run_ended(self, run_id: str, seq: int, outcome: str, tasks: dict[str, int]) -> None:
        """A run has ended: how, and how many tasks in which status."""
        self._logger.info("run ended", run=run_id, seq=seq, outcome=outcome, tasks=tasks)

    def trouble(self, run_id: str, message: str) -> None:
        """Something is wrong that is being dealt with."""
        self._logger.warning("trouble", run=run_id, message=message)
