"""A plan file, JSON or YAML: it is read with duplicate names refused, and edited as a draft.

An edit takes a lock and replaces the whole file, so a reader never sees half of one, even if the
editor crashes. Comments and formatting are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from asterism.constellation.machine.guarding import check_draft
from asterism.constellation.model.batch import line_spec_of, spec_of
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import LineSpec, PlanDocument, as_file, parse_plan
from asterism.constellation.model.edits import Applied, Edit, EditRefused, parse_actions, with_index
from asterism.constellation.model.parameters import Param
from asterism.constellation.planner.draft import Accepted, apply
from asterism.engine.kernel.data import each_once
from asterism.engine.kernel.profile import Fleet
from asterism.errors import InvalidInput, did_you_mean

MAX_FILE = 16 * 1024 * 1024
"""Maximum bytes of a plan file."""

LOCK_TRIES, LOCK_WAIT_S = 500, 0.02
"""Attempts to lock a file that another process holds, and the seconds between them."""

_TOO_LARGE = f"a plan file may have at most {MAX_FILE // 1024**2} MiB; move large data to files that the tasks read"
_TYPE_AS_VALUE = re.compile(r"\.when: .* applied to '\(.*?type\((\w+)")
_ON_AS_TRUE = re.compile(r"\.retry: .* unknown field `true`")
_UNKNOWN = re.compile(r"unknown field [`'](?P<name>[^`']+)[`']; (?:its fields are|a plan has) (?P<names>[^;]+)$")
SUFFIXES = (".json", ".yaml", ".yml")
"""Suffixes of plan files."""
_NAMED_AS_FILE = re.compile(r"\S+\.(?:json|ya?ml)", re.IGNORECASE)


def plan_path(named: str) -> Path | None:
    """Return the plan file that a command line names; None if the argument is a request in words.

    Raises:
        InvalidInput: the argument looks like a file name, and no such file exists, or it is a TOML file.
    """
    path = Path(named)
    if path.suffix.lower() == ".toml" and len(named.split()) == 1:
        raise InvalidInput(f"{named}: a plan file is JSON or YAML, with the suffix .json, .yaml or .yml; fleets and loops are TOML")
    if path.suffix.lower() not in SUFFIXES:
        return None
    with contextlib.suppress(OSError):  # a name too long for a file is no file
        if path.is_file() or path.is_dir():  # read_plan reports a folder
            return path
    if _NAMED_AS_FILE.fullmatch(named):
        raise InvalidInput(f"{named}: there is no such plan file (looked in {Path.cwd()})")
    return None


def _value_of(text: str, path: Path) -> Any:
    if path.suffix.lower() == ".json":
        return json.loads(text, object_pairs_hook=each_once)
    from asterism.constellation.planner.plan_yaml import read_yaml  # noqa: PLC0415 - PyYAML delays the start of a command by 20 ms

    return read_yaml(text)


def read_plan(path: Path) -> PlanDocument:
    """Return the plan in a file.

    Raises:
        InvalidInput: the file cannot be read, is not JSON or YAML, or is not a plan. Names the
            file.
    """
    try:
        text = _text_of(path)
        return parse_plan(_value_of(text, path))
    except OSError as error:
        raise InvalidInput(f"{path}: the plan cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: not UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise InvalidInput(f"{path}: lists and objects are nested too deeply") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}{_hint(str(error))}") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:  # PyYAML raises these for a tag that does not fit its value
        form = "JSON" if path.suffix.lower() == ".json" else "YAML"
        hint = "; JSON has its names and texts in double quotes, and neither comments nor a comma after the last item"
        raise InvalidInput(f"{path}: not {form}: {error}{hint if form == 'JSON' else ''}") from error


def _hint(error: str) -> str:
    """Return what to do about an error in a plan, in words; empty where its own words suffice."""
    if named := _TYPE_AS_VALUE.search(error):
        return f"; {named[1]} is a type there, so give the input another name"
    if _ON_AS_TRUE.search(error):
        return '; the program that wrote the plan has read on as true: it must read "on", in quotes'
    unknown = _UNKNOWN.search(error)
    return did_you_mean(unknown["name"], unknown["names"].split(", ")) if unknown else ""


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        raw = file.read(MAX_FILE + 1)
    if len(raw) > MAX_FILE:
        raise InvalidInput(_TOO_LARGE)
    return raw.decode("utf-8")


def _text_for(value: Any, path: Path) -> str:
    if path.suffix.lower() == ".json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    from asterism.constellation.planner.plan_yaml import yaml_text  # noqa: PLC0415 - as above

    return yaml_text(value)


class PlanFile:
    """A draft that is a plan file.

    Its version counts the changes that this editor has seen, including those of other processes.

    Without a ``fleet``, devices and skills are not validated.

    Raises:
        InvalidInput: the file cannot be read, or is not a plan.
    """

    def __init__(self, path: Path, fleet: Fleet | None = None) -> None:
        self._path = path.resolve()  # replace the target of a link, not the link
        self._fleet = fleet
        self._lock = asyncio.Lock()  # for this process's clients; other processes use the lock on the folder
        self._plan, self._constellation = self._load()

    async def read(self) -> TaskConstellation:
        """Return the constellation that the file holds now; see ``Draft.look``."""
        async with self._lock:
            found: TaskConstellation = await asyncio.to_thread(self._within_lock, None)
        return found

    async def edit(self, *actions: Mapping[str, Any]) -> Accepted:
        """Write the edits into the file; see ``Draft.edit``."""
        edits = parse_actions(actions)
        async with self._lock:
            accepted: Accepted = await asyncio.to_thread(self._within_lock, edits)
        return accepted

    def _within_lock(self, edits: list[Edit] | None) -> Any:
        try:
            with self._locked():
                self._read()
                return self._constellation if edits is None else self._edit(edits)
        except OSError as error:
            raise EditRefused("unavailable", self._path.name, f"the file cannot be written: {error.strerror}") from None
        except InvalidInput as error:
            raise EditRefused("unavailable", self._path.name, str(error)) from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file's folder: a lock on the file would end when an edit replaces the file."""
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for number in range(LOCK_TRIES):
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if number == LOCK_TRIES - 1:
                        raise EditRefused("unavailable", self._path.name, "another process is writing it; try again") from None
                    time.sleep(LOCK_WAIT_S)
            yield
        finally:
            os.close(folder)

    def _read(self) -> None:
        """Load the changes that another process has written."""
        plan, loaded = self._load()
        if plan == self._plan:
            return
        loaded.version = self._constellation.version + 1
        loaded.removed_tasks = self._constellation.removed_tasks - loaded.tasks.keys()
        loaded.removed_lines = self._constellation.removed_lines - loaded.lines.keys()
        self._plan, self._constellation = plan, loaded

    def _load(self) -> tuple[PlanDocument, TaskConstellation]:
        plan = read_plan(self._path)
        try:
            return plan, TaskConstellation.from_dict(msgspec.to_builtins(plan))
        except InvalidInput as error:
            raise InvalidInput(f"{self._path}: {error}") from None

    def _edit(self, edits: list[Edit]) -> Accepted:
        try:
            edited, applied = self._applied(edits)
        except EditRefused as refused:
            raise with_index(refused, len(edits), lambda number: self._applied(edits[:number])) from None
        if not edited.tasks:
            raise EditRefused("bad_content", self._path.name, "a plan needs at least one task; delete the file instead")
        if applied.changed:
            plan = msgspec.structs.replace(
                self._plan,
                tasks=tuple(spec_of(task) for task in edited.in_order()),
                dependencies=tuple(as_written(line_spec_of(line)) for line in edited.lines.values()),
            )
            self._write(plan)
            self._plan, self._constellation = plan, edited
        return Accepted(constellation=edited, changed=applied.changed, notes=tuple(map(str, applied.notes)))

    def _applied(self, edits: list[Edit]) -> tuple[TaskConstellation, Applied]:
        edited = TaskConstellation.from_dict(self._constellation.to_dict())
        applied = apply(edited, edits, self._fleet, exact=True, params=self._plan.params)
        check_draft(self._constellation, edited, applied, self._fleet)
        return edited, applied

    def _write(self, plan: PlanDocument) -> None:
        text = _text_for(as_file(plan), self._path)
        if len(text.encode()) > MAX_FILE:
            raise EditRefused("bad_content", self._path.name, _TOO_LARGE)
        draft = self._path.with_name(f".{self._path.name}.draft")  # one name suffices under the lock; a killed editor's file is overwritten
        with draft.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), self._path.stat().st_mode & 0o777)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)


def as_written(spec: LineSpec) -> LineSpec:
    """Return a dependency without the fields that have their default value."""
    kind = None if spec.dependency_type is msgspec.structs.replace(spec, type=None).dependency_type else spec.type
    return msgspec.structs.replace(spec, id="" if spec.id == f"{spec.source}->{spec.target}" else spec.id, type=kind)


def plan_text(plan: PlanDocument) -> str:
    """Return a plan as the text of a plan file."""
    return json.dumps(as_file(plan), indent=2, ensure_ascii=False) + "\n"


def plan_of(constellation: TaskConstellation, name: str, params: Mapping[str, Param] = {}) -> PlanDocument:
    """Return the plan of the constellation of a run, with the skills that its tasks have now.

    Raises:
        InvalidInput: the run has no plan yet.
    """
    if not constellation.tasks:
        raise InvalidInput("this run has no plan yet")
    return PlanDocument(
        name=name,
        params=dict(params),
        tasks=tuple(msgspec.structs.replace(spec_of(task), skill=task.resolved_skill or task.skill) for task in constellation.in_order()),
        dependencies=tuple(as_written(line_spec_of(line)) for line in constellation.lines.values()),
    )
