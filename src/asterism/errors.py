"""The errors that users can meet. Each message says what is wrong, where, and what to do.

Failures of tasks and devices are not exceptions: they are events in a journal.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence

DISTRIBUTION = "asterism-engine"
"""The name of this package for pip. The name ``asterism`` on the index is another project's."""


class AsterismError(Exception):
    """Base class of the errors that are raised on purpose; the CLI prints only their text."""


class InvalidInput(AsterismError):
    """Something that the user wrote cannot be used: a plan, a fleet file, a request, an option."""


class MissingExtra(AsterismError):
    """An optional extra is not installed.

    The command in the message adds what the extra needs to an environment that has Asterism: pip asks the index for
    those packages only, so it is right before Asterism is published, and after.

    Args:
        extra: name of the extra, as in ``pip install 'asterism-engine[extra]'``.
        what: the feature that needs it, in words.
    """

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs an extra: pip install '{DISTRIBUTION}[{extra}]'")


class IllegalTransition(AsterismError):
    """A machine's table has no row for an event; the run is unchanged.

    Attributes:
        machine: name of the machine.
        state: name of its state.
        event: name of the event that was refused.
        accepted: names of the events that this state accepts.
        history: the last entries of the run, one line each, oldest first.
    """

    def __init__(self, machine: str, state: str, event: str, accepted: Sequence[str], story: Sequence[str] = ()) -> None:
        self.machine = machine
        self.state = state
        self.event = event
        self.accepted = tuple(accepted)
        self.history = tuple(story)
        history = "".join(f"\n  {line}" for line in self.history)
        super().__init__(f"{machine} in {state} does not accept {event}; accepted: {', '.join(self.accepted) or 'nothing'}{history}")


class ForbiddenTarget(IllegalTransition):
    """A move returned a target that its row forbids: a defect of the move.

    The state and the journal are unchanged. The memory may have changed: the driver
    of the run reads it again from the journal. ``accepted`` has the targets that the row allows.
    """


class RunNotFound(AsterismError):
    """No run has that id, which is ``run_id``."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no run {run_id!r}; `asterism runs` lists them")


class DefinitionMissing(InvalidInput):
    """The code of a run cannot be imported, or does not fit its journal; the run waits until it does."""


class UnknownMachine(DefinitionMissing):
    """The machine of a run is registered by another program, and not by this one."""

    def __init__(self, run_id: str, machine: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"run {run_id}: its machine {machine!r} is not known here; "
            "name its form in ASTERISM_FORMS, or use the program that registers it, with asterism.open(machines=[Form(…)])"
        )


class Interrupted(SystemExit, KeyboardInterrupt):
    """``asterism.run`` was interrupted by Ctrl-C. Uncaught, it ends the program with exit code 130, without a traceback.

    Attributes:
        run_id: id of the run, which can be resumed; empty if none had started.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(130)


class RunOwned(AsterismError):
    """Another live process owns this run; it can be acquired after that process has released it or ended.

    Attributes:
        run_id: id of the run.
        owner: the owner in words (process id, host).
    """

    def __init__(self, run_id: str, owner: str) -> None:
        self.run_id = run_id
        self.owner = owner
        super().__init__(f"run {run_id} is being driven by {owner}; follow it with `asterism log {run_id} --follow`")


class RunNewer(AsterismError):
    """A newer program has written to this run, in a format or by rules unknown to this program.

    Attributes:
        run_id: id of the run.
        theirs: version of the run, as ``engine.kernel.journal.version_of`` returns it.
        ours: newest version of the run's machine that this program supports.
    """

    def __init__(self, run_id: str, theirs: int, ours: int) -> None:
        self.run_id = run_id
        self.theirs = theirs
        self.ours = ours
        super().__init__(
            f"run {run_id} was written with run version {version_text(theirs)}, and this program supports run versions"
            f" up to {version_text(ours)}; upgrade Asterism, or the program that defines the run's machine"
        )


class RunStuck(AsterismError):
    """A run has not ended, and no possible event would advance it: a defect of its machine.

    Attributes:
        run_id: id of the run.
    """

    def __init__(self, run_id: str, machine: str, state: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"run {run_id}: machine {machine!r} waits for nothing in {state}: no effect is outstanding and wake_at() returns None;"
            " correct the move that led there and resume the run, or cancel it"
        )


class RunFailed(AsterismError):
    """A run did not finish, and its program asked to be informed by an error.

    Attributes:
        run_id: id of the run.
        outcome: its outcome: failed, cancelled, waiting or paused.
    """

    def __init__(self, run_id: str, outcome: str, why: str) -> None:
        self.run_id = run_id
        self.outcome = outcome
        super().__init__(f"run {run_id} is {outcome}: {why}" if why else f"run {run_id} is {outcome}")


class StaleOwner(AsterismError):
    """This process no longer owns the run: another one has acquired it. Stop driving the run."""

    def __init__(self, run_id: str, epoch: int) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was acquired by another process after epoch {epoch}; this process no longer drives it")


class StoreUnavailable(AsterismError):
    """The database cannot be read or written: disk full, no permission, or not asterism's."""


class LimitReached(AsterismError):
    """A server has a limit on how often it is asked, and it was reached.

    Attributes:
        retry_after_s: seconds after which it may be asked again.
    """

    def __init__(self, text: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(text)


class Refused(AsterismError):
    """A run refuses a command.

    Attributes:
        why: the reason: a text, or a phrase of the run's machine.
    """

    def __init__(self, why: object) -> None:
        self.why = why
        super().__init__(str(why))


VERSION_STEP = 1000
"""The version of a run is VERSION_STEP times the version of the journal format, plus the version of
the rules."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` with the known name that a mistyped one resembles; empty without one."""
    import difflib  # noqa: PLC0415 - only a mistyped name needs it

    near = difflib.get_close_matches(given, list(known), n=1) if given else []
    return f"; did you mean {near[0]}?" if near else ""


def how_to_write_there(error: OSError) -> str:
    """Return the advice for a folder that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "make it writable, or name another database"
    return "name a database in a folder where files can be made"


def version_text(version: int) -> str:
    """Return the version of a run as text, the format's and the rules', as in ``2.1``."""
    return "{}.{}".format(*divmod(version, VERSION_STEP))


def first_of(error: BaseException) -> BaseException:
    """Return the first error of a group, and of the groups in it; any other error as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
