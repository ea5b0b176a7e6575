"""The process that performs attempts: ``python -m asterism.devices.workers.worker TALK LIFELINE FOLDER``.

It is two processes in one process group. The *guardian*, its leader, runs no user code: it waits
for the end of its parent (the lifeline closes, or it is adopted) and then kills the whole group,
itself included. The *performer*, its child, imports skills, and forks a copy of itself for each
attempt. So an attempt leaves nothing behind, and needs no imports of its own. A guardian in a
thread of the performer would not do: a skill that never releases the interpreter lock would outlive
its parent.

The ``pool`` decides what is performed, and when a worker is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import hashlib
import inspect
import os
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from asterism.devices.attempts import secrets
from asterism.devices.attempts.worker_protocol import (
    CommandJob,
    DescribeSkills,
    FunctionJob,
    Order,
    ProducedFile,
    Report,
    SkillsDescribed,
    Work,
    WorkDone,
    WorkerExited,
    WorkFailed,
    WorkProgress,
    WorkStarted,
)
from asterism.devices.port import Attempt, AttemptError
from asterism.devices.skills import command, source
from asterism.devices.skills.skill import Contract, File, SkillContext, contract_of, plain, type_name
from asterism.engine.kernel.data import FILE, json_bytes, safe_name
from asterism.engine.kernel.profile import Skill
from asterism.engine.ports.files import media_type_of
from asterism.engine.runtime.private_files import make_folder
from asterism.errors import InvalidInput, MissingExtra

_GUARD_INTERVAL_S = 1.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MAX_CHILDREN = 10_000
_CHUNK_BYTES = 1 << 16


def main(talk_fd: int, lifeline_fd: int, folder: Path) -> NoReturn:
    """Fork into a guardian process and a process that performs attempts; neither returns."""
    parent, guardian = os.getppid(), os.getpid()
    talk = socket.socket(fileno=talk_fd)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler, the wakeup fd is not written
    signal.set_wakeup_fd(waker)
    performer = os.fork()
    if performer:
        _guard(performer, parent, talk, lifeline_fd, wake)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd in (lifeline_fd, wake, waker):
        os.close(fd)
    _die_with(guardian)
    WorkRunner(talk, folder).serve()
    os._exit(0)


def _guard(performer: int, parent: int, talk: socket.socket, lifeline_fd: int, wake: int) -> NoReturn:
    """Report the end of the performer, and kill the group when the parent ends."""
    reported = False
    while True:
        ready, _, _ = select.select([lifeline_fd, wake], [], [], _GUARD_INTERVAL_S)
        # The lifeline alone is not enough: a child that the parent forked may hold its other end
        # open.
        if lifeline_fd in ready or os.getppid() != parent:
            os.killpg(0, signal.SIGKILL)
        if wake in ready:
            os.read(wake, 512)
        if reported:
            continue
        ended, status = os.waitpid(performer, os.WNOHANG)
        if ended:
            reported = True
            # The performer may have died in the middle of a line: finish it first.
            _say(talk, WorkerExited(os.waitstatus_to_exitcode(status)), before=b"\n")


def _die_with(parent: int) -> None:
    """Let this process end with its parent, and adopt orphaned descendants.

    The parent has one thread; so the signal, which follows the thread, follows the process.
    """
    prctl = _prctl()
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


@functools.cache
def _prctl() -> Callable[..., int]:
    import ctypes  # noqa: PLC0415 - delays the start of every command by 1 ms

    found: Callable[..., int] = ctypes.CDLL(None).prctl
    return found


def _say(talk: socket.socket, report: Report, *, before: bytes = b"") -> None:
    talk.sendall(before + msgspec.json.encode(report) + b"\n")


class _Missing(InvalidInput):
    """A function is not found, does not import, or is no skill."""


class WorkRunner:
    """Processes orders one at a time and reports on them: imports here, and each attempt in a copy of this process."""

    def __init__(self, talk: socket.socket, folder: Path) -> None:
        self._talk = talk
        self._folder = folder
        self._home = Path.cwd()
        self._contracts: dict[FunctionJob, Contract] = {}
        self._places: list[int] = []
        self._send_lock = threading.Lock()
        self._secrets: dict[str, str] = {}

    def serve(self) -> None:
        """Process orders until the parent closes the socket."""
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
        decoder: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)
        descriptors = _open_descriptors()
        for line in self._lines():
            match decoder.decode(line):
                case DescribeSkills(sources, plain_too, folder):
                    with contextlib.suppress(OSError):  # the attempt that comes next reports it
                        os.chdir(self._home / folder)
                    self._say(SkillsDescribed(tuple(self._described(FunctionJob(each, plain_too)) for each in sources)))
                case Work() as work:
                    # A thread ends in a copy, and a connection or a file would be shared by all copies.
                    is_plain = threading.active_count() == 1 and _open_descriptors() - len(self._places) <= descriptors
                    if isinstance(work.job, CommandJob):
                        exited = self._performed_here(work, reusable=True)
                    elif is_plain:
                        exited = self._performed_by_copy(work)
                    else:
                        exited = self._performed_here(work, reusable=False)
                    while self._places:
                        os.close(self._places.pop())
                    self._say(exited, before=b"\n")  # the copy may have died in the middle of a line

    def _performed_by_copy(self, work: Work) -> WorkerExited:
        """Carry out one attempt in a copy of this process, and wait for its end."""
        _flush()
        gc.freeze()  # else a collection in the copy writes to each object that it shares with this process
        performer = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of C libraries, which prepare for this themselves
            copy = os.fork()
        if copy:
            _, status = os.waitpid(copy, 0)
            return WorkerExited(os.waitstatus_to_exitcode(status), reusable=not _has_children())
        code = 1
        try:
            _die_with(performer)
            for stream in (1, 2):
                os.set_blocking(stream, True)
            if reseed := getattr(sys.modules.get("numpy.random"), "seed", None):
                reseed()  # as `random` does: else all copies draw the same numbers
            self._performed_here(work, reusable=False)
            code = 0
        finally:
            os._exit(code)

    def _performed_here(self, work: Work, *, reusable: bool) -> WorkerExited:
        """Carry out one attempt in this process; it is ``reusable`` if none of the user's code runs in it."""
        self._say(self._with_secrets(work))
        return WorkerExited(0, reusable=reusable and not _has_children())

    def _with_secrets(self, work: Work) -> WorkDone | WorkFailed:
        """Resolve the secrets of an attempt and carry it out; its texts have the values masked before they are cut."""
        self._secrets = {}
        try:
            attempt, self._secrets = secrets.with_values(work.attempt)
        except (InvalidInput, MissingExtra) as error:
            self._say(WorkStarted())
            return WorkFailed("bad_arguments", str(error))
        self._say(WorkStarted(self._secrets))
        return self._performed(msgspec.structs.replace(work, attempt=attempt))

    def _hidden(self, text: str) -> str:
        return secrets.hidden(text, self._secrets)

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines with orders. Descriptors of places come with an empty line before the order."""
        parts: list[bytes] = []
        while True:
            chunk, descriptors, _, _ = socket.recv_fds(self._talk, _CHUNK_BYTES, 1)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - os has no name for it
            self._places += descriptors
            if not chunk:
                return
            end, *more = chunk.split(b"\n")
            parts.append(end)
            for part in more:
                if line := b"".join(parts):
                    yield line
                parts = [part]

    def _say(self, report: Report, *, before: bytes = b"") -> None:
        with self._send_lock:
            _say(self._talk, report, before=before)

    def _described(self, job: FunctionJob) -> Skill | str:
        try:
            return self._contract(job).skill
        except InvalidInput as error:
            return str(error)

    def _contract(self, job: FunctionJob) -> Contract:
        if job not in self._contracts:
            self._contracts[job] = contract_of(self._function(job))
        return self._contracts[job]

    def _function(self, job: FunctionJob) -> Callable[..., Any]:
        try:
            return source.load(job.source, self._folder, plain=job.plain)
        except InvalidInput as error:
            raise _Missing(str(error)) from error

    def _performed(self, work: Work) -> WorkDone | WorkFailed:
        """Carry out one attempt and return its end."""
        performer = os.getpid()
        try:
            _go_to(str(self._home.joinpath(work.attempt.folder, work.attempt.task_folder)))
            if isinstance(work.job, CommandJob):
                result = command.perform(work.job, work.attempt, self._folder, work.limit_bytes, work.scratch)
            else:
                os.environ.update(work.attempt.env)
                result = self._called(work, work.job)
            packed, files = pack_result(result, work.limit_bytes)
            self._check_secrets(packed)
            if not isinstance(work.job, CommandJob):
                check_promise(packed, self._contract(work.job))
            end: WorkDone | WorkFailed = WorkDone(packed, files=files)
        except AttemptError as error:
            end = WorkFailed(error.code, self._hidden(error.message))
        except InvalidInput as error:
            end = WorkFailed("raised", self._hidden(str(error)), missing=isinstance(error, _Missing))
        except BaseException as error:  # boundary: user code; SystemExit and the like are failures of the skill too
            end = WorkFailed("raised", source.error_with_line(error, self._hidden), trace=self._hidden(source.trace_of(error)))
        if os.getpid() != performer:
            os._exit(0)  # a process that the skill forked, and that returned into our code
        _flush()
        return end

    def _check_secrets(self, packed: msgspec.Raw) -> None:
        try:
            secrets.check_result(bytes(packed), self._secrets)
        except InvalidInput as error:
            raise AttemptError("bad_result", str(error)) from None

    def _called(self, work: Work, job: FunctionJob) -> object:
        contract, attempt = self._contract(job), work.attempt
        if contract.context and work.scratch:
            make_folder(Path(work.scratch))
        context = SkillContext(
            folder=Path(work.scratch),
            key=attempt.key,
            attempt=attempt.number,
            task_id=attempt.task_id,
            results=attempt.results,
            sink=lambda fraction, message: self._say(WorkProgress(fraction, self._hidden(message))),
        )
        result = call(self._function(job), contract, attempt, context)
        if inspect.iscoroutine(result):
            return asyncio.run(result)
        return result


def call(function: Callable[..., Any], contract: Contract, attempt: Attempt, context: SkillContext) -> Any:
    """Call a function with the arguments of an attempt. Raises AttemptError ``bad_arguments``."""
    try:
        values = contract.values(attempt.arguments, "files" if attempt.networked else "texts")
    except msgspec.ValidationError as error:
        names = ", ".join(contract.skill.parameter_names()) or "none"
        raise AttemptError("bad_arguments", f"skill {contract.skill.name}: {error}; its arguments are: {names}") from error
    return function(**values, **dict.fromkeys(contract.context, context))


def _go_to(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise AttemptError("raised", f"its working folder {folder}: {error.strerror}") from error


def pack_result(result: object, limit_bytes: int) -> tuple[msgspec.Raw, tuple[ProducedFile, ...]]:
    """Return the result as JSON, and the files that it names. Raises AttemptError ``bad_result``."""
    files: list[ProducedFile] = []

    def named(value: object) -> object:
        if not isinstance(value, File):
            return plain(value)
        files.append(produced := _produced(value))
        return {FILE: produced.digest, "name": produced.name, "media_type": produced.media_type, "size": value.path.stat().st_size}

    try:
        packed = json_bytes(result, "the result", named)
    except InvalidInput as error:
        raise AttemptError("bad_result", f"{error}; return dicts, lists, texts, finite numbers") from error
    if len(packed) > limit_bytes:
        message = f"the result has {len(packed)} bytes, more than {limit_bytes}; write it to a file and return its path"
        raise AttemptError("bad_result", message)
    return msgspec.Raw(packed), tuple(files)


def _produced(file: File) -> ProducedFile:
    name = safe_name(file.name)
    try:
        if not file.path.is_file():
            raise AttemptError("bad_result", f"the result names the file {file.path}, and there is none")
        with file.path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise AttemptError("bad_result", f"the result names the file {file.path}: {error.strerror}") from error
    media_type = file.media_type or media_type_of(name)
    return ProducedFile(f"sha256:{digest}", str(file.path.absolute()), name, media_type)


def check_promise(packed: msgspec.Raw, contract: Contract) -> None:
    """Check a result against its declared type, as conditions and references were.

    Raises AttemptError ``bad_result``.
    """
    try:
        contract.check_result(packed)
    except msgspec.ValidationError as error:
        message = f"skill {contract.skill.name} declares that it returns {type_name(contract.returns)}, and did not: {error}"
        raise AttemptError("bad_result", message) from error


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # user code may have closed or replaced it
            stream.flush()


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _has_children() -> bool:
    """Return True if a process that the attempt started still runs; reap those that have ended."""
    try:
        for _ in range(_MAX_CHILDREN):
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return True
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    given = sys.argv[1:]
    del sys.argv[1:]  # files of the user that read arguments when they are imported must not read these
    main(int(given[0]), int(given[1]), Path(given[2]))
