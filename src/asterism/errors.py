"""The errors a user can meet. Each message says what happened, where, and what to do next.

Not here: failures of a task or a device. Those are events in a journal, not exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence


class AsterismError(Exception):
    """Root of every error raised on purpose; the CLI prints its text and nothing else."""


class InvalidInput(AsterismError):
    """Something the user wrote cannot be used: a plan, a fleet file, a request, an option."""


class MissingExtra(AsterismError):
    """An optional part is not installed.

    Args:
        extra: name of the extra, as in ``pip install 'asterism[extra]'``.
        what: the thing that needs it, in words.
    """

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs an extra: pip install 'asterism[{extra}]'")


class IllegalTransition(AsterismError):
    """A machine was given an event that its table has no row for, or a move chose a target its row forbids.

    State and journal are unchanged when this is raised.

    Attributes:
        machine: name of the machine.
        state: name of the state it is in.
        event: name of the refused event.
        accepted: names of the events this state accepts, or of the targets the row allows.
        story: the last entries of the run, one line each, oldest first.
    """

    def __init__(self, machine: str, state: str, event: str, accepted: Sequence[str], story: Sequence[str] = ()) -> None:
        self.machine = machine
        self.state = state
        self.event = event
        self.accepted = tuple(accepted)
        self.story = tuple(story)
        told = "".join(f"\n  {line}" for line in self.story)
        super().__init__(f"{machine} in {state} does not accept {event}; accepted: {', '.join(self.accepted) or 'nothing'}{told}")


class RunNotFound(AsterismError):
    """No run has that id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id!r}; `asterism runs` lists them")


class UnknownMachine(InvalidInput):
    """A run is of a machine that this program does not have: another program registers it."""

    def __init__(self, run_id: str, machine: str) -> None:
        super().__init__(
            f"run {run_id}: its machine {machine!r} is not known here; "
            "use the program that registers it, with asterism.open(machines=[Registration(…)])"
        )


class RunOwned(AsterismError):
    """Another live process drives this run; a live owner is never robbed.

    Attributes:
        run_id: the run's id.
        owner: who has it, in words (process id, host).
    """

    def __init__(self, run_id: str, owner: str) -> None:
        self.run_id = run_id
        self.owner = owner
        super().__init__(f"run {run_id} is being driven by {owner}; follow it with `asterism log {run_id} --follow`")


class RunNewer(AsterismError):
    """A newer program has written to this run, in a form or by rules that this program does not know.

    Attributes:
        run_id: the run's id.
        theirs: version of what the run was written with, as ``kernel.journal.version_of`` gives it.
        ours: the newest version that this program knows of the run's machine.
    """

    def __init__(self, run_id: str, theirs: int, ours: int) -> None:
        self.run_id = run_id
        self.theirs = theirs
        self.ours = ours
        super().__init__(
            f"run {run_id} was written with version {version_text(theirs)}, and this program knows versions up to {version_text(ours)};"
            " upgrade it"
        )


class RunStuck(AsterismError):
    """A run has not ended, and nothing that could happen would move it on: a defect of its machine.

    Attributes:
        run_id: the run's id.
    """

    def __init__(self, run_id: str, machine: str, state: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"run {run_id}: machine {machine!r} waits for nothing in {state}: no effect is outstanding and wake_at() gives no time;"
            " correct the move that led there and take the run up again, or cancel it"
        )


class StaleOwner(AsterismError):
    """This process no longer owns the run: somebody claimed it later. Drop it and do nothing more."""

    def __init__(self, run_id: str, epoch: int) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was claimed by another process after epoch {epoch}; this one has let go of it")


class StoreUnavailable(AsterismError):
    """The database cannot be read or written now: full disk, no permission, not a database of ours."""


class Refused(AsterismError):
    """A command reached its run and was refused there."""

    @property
    def verdict(self) -> str:
        """What the sender is told, and the journal keeps: one line."""
        return str(self).partition("\n")[0]


VERSION_STEP = 1000
"""What one version of the journal's format counts in the version of a run; the version of the rules counts one."""


def version_text(version: int) -> str:
    """Return the version of a run for people: the format's version and the rules', as in ``2.1``."""
    return "{}.{}".format(*divmod(version, VERSION_STEP))


def first_of(error: BaseException) -> BaseException:
    """What was the matter: the first error of a group, and of the groups in it; any other error as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
