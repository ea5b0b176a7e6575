"""Log lines of runs: a transition is DEBUG, the end of a task or a run INFO, a problem WARNING.

A program that uses this as a library gets lines only if it has configured structlog, and by its own
rules.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TextIO, cast

import structlog
from structlog.typing import Processor

from asterism.constellation.model.task import TaskStar
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import EffectResult, kind_of
from asterism.errors import InvalidInput


def configure_logs(level: str, stream: TextIO) -> None:
    """Write log lines as JSON, or in color on a terminal; also those of the logger ``asterism``.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``; lines below it are dropped.
        stream: receives the lines.

    Raises:
        InvalidInput: there is no such level.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise InvalidInput(f"there is no log level {level!r}; use debug, info, warning or error")
    renderer = structlog.dev.ConsoleRenderer() if stream.isatty() else structlog.processors.JSONRenderer()
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*first, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _LossyStream(stream))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(renderer, foreign_pre_chain=first))
    ours = logging.getLogger("asterism")
    ours.handlers = [handler]
    ours.setLevel(number)


class _LossyStream:
    """A stream that drops what cannot be written: a log on a full disk must not end a server."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write a text."""
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with contextlib.suppress(OSError):
            self._stream.flush()


class LogWriter:
    """Writes log lines if structlog is configured; its default would print to the terminal."""

    def __init__(self) -> None:
        self._logger = structlog.get_logger("asterism")

    @property
    def wanted(self) -> bool:
        """True if structlog is configured."""
        return structlog.is_configured()

    def transition(self, entry: Entry) -> None:
        """Log an entry without its content, which stays in the journal."""
        effect = {"effect_id": entry.event.effect_id} if isinstance(entry.event, EffectResult) else {}
        asked = {"asks_for": [kind_of(effect) for effect in entry.effects]} if entry.effects else {}
        noted = {"noted": True} if entry.note else {}
        self._logger.debug(
            kind_of(entry.event), run=entry.run_id, seq=entry.seq, actor=entry.actor, state=str(entry.state), **effect, **asked, **noted
        )

    def task_ended(self, run_id: str, seq: int, task: TaskStar, *, effect_id: str = "", outcome: str = "") -> None:
        """Log the end of a task, or of an attempt if the task continues."""
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
        """Log the end of a run, with its outcome and the number of tasks in each status."""
        self._logger.info("run ended", run=run_id, seq=seq, outcome=outcome, tasks=tasks)

    def trouble(self, run_id: str, message: str) -> None:
        """Log a problem that the driver is dealing with."""
        self._logger.warning("trouble", run=run_id, message=message)
