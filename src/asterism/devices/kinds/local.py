"""Local devices: skills that run in processes of this computer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import ChainMap
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asterism.devices.attempts.worker_protocol import CommandJob, FieldType, FunctionJob, Job, OutputForm
from asterism.devices.fleet.fleet_file import DeviceEntry, DeviceKind, FleetContext, Word
from asterism.devices.model.environment import check_process
from asterism.devices.model.references import secrets_of
from asterism.devices.port import Attempt, AttemptError, AttemptResult, Device, Signs
from asterism.devices.skills.command import OUTPUT, TEXT_OUTPUT, parameters_schema, placeholders, program_path, returns_schema
from asterism.devices.skills.source import module_part
from asterism.devices.workers.pool import WorkerPool, WorkerSettings
from asterism.engine.kernel.data import FILE_SCHEMA, safe_name
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import InvalidInput

_BY_ENV = "pass it as a variable of the task (env)"


class CommandEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ``[[devices.commands]]`` table: a program as a skill.

    Attributes:
        argv: program and arguments; ``{name}`` becomes a string parameter.
        output: ``text`` -> ``{"output": …, "exit_code": 0}``; ``json`` -> stdout, parsed; ``file`` -> the
            file that the program writes to the path ``{output}``.
        file: name of that file.
        files: placeholders that are files; the program gets their paths.
        returns: types of the fields of a JSON output, by name.
        timeout_s: time limit of one attempt, even if the task has a longer one.
    """

    name: Word
    argv: tuple[str, ...]
    description: str = ""
    idempotent: bool = False
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    output: OutputForm = "text"
    file: str = ""
    files: tuple[str, ...] = ()
    returns: dict[str, FieldType] = {}
    timeout_s: Annotated[float, Meta(gt=0)] | None = None


class LocalEntry(DeviceEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of kind ``local``.

    Attributes:
        env: environment variables of its processes, over those of the process that drives the run.
        folder: working folder of its skills and commands, relative to the fleet file; empty for the
            folder where the run was submitted.
        inherit: variables with secrets of the server itself that its processes inherit.
    """

    skills: tuple[str, ...] = ()
    commands: tuple[CommandEntry, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    folder: str = ""
    inherit: tuple[str, ...] = ()


class SkillJob(msgspec.Struct, frozen=True):
    """The job that carries out one skill, and its time limit in the fleet file, if any."""

    job: Job
    timeout_s: float | None = None


class LocalDevice(Device):
    """A device whose skills run in workers of a pool.

    Args:
        working_folder: absolute path of their working folder; empty for that of the run.
        secret_env: variables with references to secrets, which each attempt resolves.

    Attributes:
        working_folder: as given.
    """

    def __init__(
        self,
        profile: AgentProfile,
        jobs: Mapping[str, SkillJob],
        settings: WorkerSettings,
        pool: WorkerPool,
        working_folder: str = "",
        *,
        secret_env: Mapping[str, str] = {},
    ) -> None:
        super().__init__(profile)
        self.environment = ChainMap(dict(settings.env), os.environ)
        self.working_folder = working_folder
        self._secret_env = secret_env
        self._jobs = jobs
        self._settings = settings
        self._pool = pool

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if (job := self._jobs.get(attempt.skill)) is None:
            return self.lacks(attempt.skill).end
        if isinstance(job.job, CommandJob) and attempt.secrets:
            return AttemptResult.failed("bad_arguments", secret_in_argv(attempt))
        attempt = msgspec.structs.replace(attempt, folder=self.working_folder or attempt.folder, env={**self._secret_env, **attempt.env})
        try:
            async with in_time(attempt.skill, job.timeout_s):
                return await self._pool.perform(self._settings, job.job, attempt, signs)
        except AttemptError as error:
            return error.end


@contextlib.asynccontextmanager
async def in_time(skill: str, timeout_s: float | None) -> AsyncIterator[None]:
    """Limit the time of an attempt to that of its command. Raises AttemptError ``timeout``."""
    bound = asyncio.timeout(timeout_s)
    try:
        async with bound:
            yield
    except TimeoutError:
        if not bound.expired():
            raise
        raise AttemptError("timeout", f"{skill} took longer than its timeout_s in the fleet file, {timeout_s:g} s") from None


@contextlib.asynccontextmanager
async def _open(entry: LocalEntry, context: FleetContext) -> AsyncIterator[LocalDevice]:
    check_process(entry.env, entry.folder, "")
    folder, pool = context.folder, context.workers()
    working_folder = folder / entry.folder if entry.folder else None
    if working_folder and not working_folder.is_dir():
        raise InvalidInput(f"folder: there is no folder {working_folder}; make it")
    for index, command in enumerate(entry.commands):
        _check_command(command, f"commands[{index}]", folder, entry.env)
    secret_env = {name: value for name, value in entry.env.items() if secrets_of(value)}
    settings = WorkerSettings(
        folder,
        tuple(sorted({module_part(source) for source in entry.skills})),
        tuple(sorted(entry.env.items() - secret_env.items())),
        entry.inherit,
    )
    answers = await pool.describe(settings, entry.skills) if entry.skills else ()
    skills: dict[str, Skill] = {}
    jobs: dict[str, SkillJob] = {}
    for index, (source, answer) in enumerate(zip(entry.skills, answers, strict=True)):
        if isinstance(answer, str):
            raise InvalidInput(f"skills[{index}]: {source!r}: {answer}")
        _add(skills, answer, f"skills[{index}]")
        jobs[answer.name] = SkillJob(FunctionJob(source))
    for index, command in enumerate(entry.commands):
        _add(skills, command_skill(command), f"commands[{index}].name")
        jobs[command.name] = SkillJob(CommandJob(command.argv, command.output, command.file, command.returns), command.timeout_s)
    profile = entry.profile(skills=tuple(skills.values()))
    yield LocalDevice(profile, jobs, settings, pool, str(working_folder or ""), secret_env=secret_env)


LOCAL = DeviceKind(LocalEntry, _open)
"""The device kind ``local``."""


def _add(skills: dict[str, Skill], skill: Skill, key: str) -> None:
    if skill.name in skills:
        raise InvalidInput(f"{key}: this device has another skill {skill.name!r}; set a unique name with @skill(name=…)")
    skills[skill.name] = skill


def check_argv(command: CommandEntry, key: str) -> None:
    """Check the argv of a program, wherever it runs. Raises InvalidInput that begins with the key."""
    if not command.argv or not command.argv[0]:
        raise InvalidInput(f'{key}.argv: empty; write the program and its arguments, like ["wc", "-l", "{{path}}"]')
    program = command.argv[0]
    if placeholders((program,)):
        raise InvalidInput(f"{key}.argv[0]: {program!r}: the program cannot be a placeholder; use them from argv[1] on")
    if (command.output == "file") != (bool(command.file) and OUTPUT in placeholders(command.argv)):
        raise InvalidInput(
            f'{key}.output: a program that writes a file has output = "file", its name as file = "report.pdf", and {{output}} in argv'
        )
    if command.file and safe_name(command.file) != command.file:
        raise InvalidInput(f"{key}.file: {command.file!r} is no plain file name, such as report.pdf")
    if command.returns and command.output != "json":
        raise InvalidInput(f'{key}.returns: only a program with output = "json" has fields to declare')
    if unknown := set(command.files) - set(placeholders(command.argv)) | {name for name in command.files if name == OUTPUT}:
        raise InvalidInput(f"{key}.files: argv has no placeholder {min(unknown)!r} for a file that is given")
    nul = next((index for index, part in enumerate(command.argv) if "\0" in part), None)
    if nul is not None:
        raise InvalidInput(f"{key}.argv[{nul}]: contains a NUL character, which no argument may; remove it")


def _check_command(command: CommandEntry, key: str, folder: Path, env: Mapping[str, str]) -> None:
    check_argv(command, key)
    program = command.argv[0]
    if shutil.which(program_path(program, folder), path=env.get("PATH")) is None:
        raise InvalidInput(f"{key}.argv[0]: there is no program {program!r}; name one on the PATH, or a path relative to the fleet file")


def command_skill(command: CommandEntry) -> Skill:
    """Return the skill that a program is."""
    given = command.argv if command.output != "file" else tuple(part.replace(f"{{{OUTPUT}}}", "") for part in command.argv)
    return Skill(
        name=command.name,
        description=command.description,
        parameters=parameters_schema(given, command.files),
        output={"text": TEXT_OUTPUT, "file": FILE_SCHEMA, "json": returns_schema(command.returns)}[command.output],
        idempotent=command.idempotent,
        tags=command.tags,
        examples=command.examples,
    )


def secret_in_argv(attempt: Attempt) -> str:
    """Return the error of a command with a secret in its arguments."""
    return f"{attempt.skill}: argument {attempt.secrets[0][0]} has a secret, and every user can see a command line; {_BY_ENV}"
