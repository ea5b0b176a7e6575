"""Functions that only this process has, performed in threads: those of a notebook, lambdas, functions within functions.

A thread cannot be killed. When its attempt is stopped, an async function is cancelled; any other
function runs on, and its attempt ends only with it, so that its place on the device stays taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from asterism.devices.attempts import attempt_files, secrets
from asterism.devices.attempts.attempt_files import put_all, with_paths
from asterism.devices.attempts.task_log import CURRENT
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, AttemptError, AttemptResult, Signs
from asterism.devices.skills.skill import SkillContext, contract_of
from asterism.devices.skills.source import error_with_line, trace_of
from asterism.devices.workers.worker import call, check_promise, pack_result
from asterism.engine.runtime.private_files import make_folder
from asterism.errors import InvalidInput, MissingExtra

_POLL_S = 0.2

_FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions of this process, by source. A cell of a notebook that runs again replaces its functions."""


def register(source: str, function: Callable[..., Any]) -> None:
    """Make a function of this process known by its source.

    Raises:
        InvalidInput: another function is known by it, and it is not one of an earlier run of the same cell.
    """
    known = _FUNCTIONS.get(source, function)
    is_cell = known.__code__.co_filename != function.__code__.co_filename or function.__code__.co_filename.startswith("<")
    if _facts(known) != _facts(function) and (known.__code__ is function.__code__ or not is_cell):
        raise InvalidInput(f"two functions of this program are called {source}; name them with def, or pass what differs as an input")
    _FUNCTIONS[source] = function


def _facts(function: Callable[..., Any]) -> list[Any]:
    """Return what a function computes with: its code, and the values that it was made with."""
    values = [cell.cell_contents for cell in function.__closure__ or ()]
    values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [function.__code__, *(it if isinstance(it, str | bytes | int | float | None) else id(it) for it in values)]


def registered_function(source: str) -> Callable[..., Any] | None:
    """Return a function of this process by its source, or None."""
    return _FUNCTIONS.get(source)


def missing_text(source: str) -> str:
    """Return why a function cannot be performed here, and what to do."""
    return f"function {source} cannot be imported, and this process has none of that name; run the program or notebook that defines it"


async def perform(attempt: Attempt, signs: Signs, closing: asyncio.Future[None], limit_bytes: int) -> AttemptResult:
    """Perform an attempt in a thread; first wait until this process has its function.

    Args:
        attempt: its skill is the source of the function.
        signs: receive its begin and its progress.
        closing: done when nobody waits for threads any longer.
        limit_bytes: size limit of the result, as JSON.
    """
    if attempt.skill not in _FUNCTIONS:
        signs.progress(message=missing_text(attempt.skill))
    while (function := _FUNCTIONS.get(attempt.skill)) is None:  # noqa: ASYNC110 - any thread may register it; bounded by its timeout
        await asyncio.sleep(_POLL_S)
    try:
        attempt = await with_paths(attempt)
    except InvalidInput as error:
        return AttemptResult.failed("bad_arguments", str(error))
    await signs.begun()
    thread = _Thread(function, attempt, signs, limit_bytes)
    try:
        return await asyncio.shield(thread.end)
    except asyncio.CancelledError:
        thread.cancel()
        over: tuple[asyncio.Future[Any], ...] = (thread.end, closing)
        await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        raise


class _Thread:
    """An attempt in a thread of its own; ``end`` has its result."""

    def __init__(self, function: Callable[..., Any], attempt: Attempt, signs: Signs, limit_bytes: int) -> None:
        self._function = function
        self._attempt = attempt
        self._signs = signs
        self._limit_bytes = limit_bytes
        self._loop = asyncio.get_running_loop()
        self._inner: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._is_cancelled = False
        self.end: asyncio.Future[AttemptResult] = self._loop.create_future()
        self._log = CURRENT.get()
        files = attempt_files.CURRENT.get()
        self._folder = files.folder if files else Path()
        self._secrets: dict[str, str] = {}
        context = copy_context()  # with the log of the attempt
        threading.Thread(target=context.run, args=(self._run,), name=attempt.key, daemon=True).start()  # the process may end before it

    def cancel(self) -> None:
        """Cancel an async function; any other runs on."""
        self._is_cancelled = True
        if self._inner is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended
                self._inner[0].call_soon_threadsafe(self._inner[1].cancel)

    def _run(self) -> None:
        self._post(partial(self._finish, self._performed()))

    def _finish(self, result: AttemptResult) -> None:
        if not self.end.done():
            self.end.set_result(result)

    def _post(self, callback: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(callback)

    def _performed(self) -> AttemptResult:
        try:
            attempt, self._secrets = secrets.with_values(self._attempt)
            if self._log:
                self._log.values = self._secrets
            contract = contract_of(self._function)
            if contract.context and self._folder != Path():
                make_folder(self._folder)
            result = call(self._function, contract, attempt, self._context())
            if inspect.iscoroutine(result):
                result = asyncio.run(self._awaited(result))
            packed, files = pack_result(result, self._limit_bytes)
            secrets.check_result(bytes(packed), self._secrets)
            check_promise(packed, contract)
            if files:
                asyncio.run_coroutine_threadsafe(put_all(files), self._loop).result()
            return AttemptResult(result=msgspec.json.decode(packed))
        except AttemptError as error:
            return AttemptResult.failed(error.code, self._hidden(error.message))
        except (InvalidInput, MissingExtra) as error:
            return AttemptResult(error=TaskError(code="raised", message=self._hidden(str(error))))
        except BaseException as error:  # boundary: user code; SystemExit and the like are failures of the function too
            if self._log:
                self._log.print("stderr", trace_of(error))
            return AttemptResult.failed("raised", error_with_line(error, self._hidden))

    def _hidden(self, text: str) -> str:
        return secrets.hidden(text, self._secrets)

    async def _awaited(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        task = asyncio.current_task()
        if task is not None:
            self._inner = asyncio.get_running_loop(), task
        if self._is_cancelled:
            coroutine.close()
            raise asyncio.CancelledError
        return await coroutine

    def _context(self) -> SkillContext:
        attempt = self._attempt

        def report(fraction: float | None, message: str) -> None:
            hidden = self._hidden(message)
            self._post(lambda: None if self.end.done() else self._signs.progress(fraction, hidden))

        return SkillContext(
            folder=self._folder, key=attempt.key, attempt=attempt.number, task_id=attempt.task_id, results=attempt.results, sink=report
        )
