"""Settings from options and environment variables, with their defaults."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from asterism.constellation.planner.model_choice import MODEL_VARIABLES, ModelChoice, choose_model
from asterism.constellation.python.own_secrets import FILES_VARIABLE, SERVER_VARIABLE, TOKEN_VARIABLE
from asterism.errors import InvalidInput

DATABASE_VARIABLE = "ASTERISM_DATABASE"
FORMS_VARIABLE = "ASTERISM_FORMS"
MEMORY = ":memory:"
REPLAY = "replay:"


@functools.cache
def _memory_folder() -> str:
    folder = tempfile.mkdtemp(prefix="asterism-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def database_path(given: Path | str | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the database: as given, else ``$ASTERISM_DATABASE``, else the default.

    The default is in the user's state folder. ``:memory:`` is the memory of this process, whose files are in a folder
    that the end of the process deletes.

    Raises:
        InvalidInput: the given value is no path.
    """
    if given is not None and not isinstance(given, Path | str):
        raise InvalidInput(f"database: expected the path of a file, not {given!r}")
    named = (environment.get(DATABASE_VARIABLE) or None) if given is None else given
    if named is not None:
        return Path(_memory_folder(), MEMORY) if str(named) == MEMORY else Path(named)
    state = Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "asterism" / "asterism.db"


def server_url(given: str | None, database: Path | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the server that commands use: as given, else that of the environment, unless a database is given; empty for none.

    Raises:
        InvalidInput: a server and a database are given.
    """
    if given and database is not None:
        raise InvalidInput("--server and --database exclude each other: a server has a database of its own")
    return given or ("" if database is not None else environment.get(SERVER_VARIABLE, ""))


def server_token(environment: Mapping[str, str] = os.environ) -> str:
    """Return the token for a server: that of the environment, else the one that a server of the database has written for its user.

    Raises:
        InvalidInput: there is neither.
    """
    if given := environment.get(TOKEN_VARIABLE):
        return given.strip()
    file = Path(f"{os.path.realpath(database_path(None, environment))}.token")
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        raise InvalidInput(f"the server needs a token; set {TOKEN_VARIABLE} (there is none in {file})") from None


def form_names(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the forms that this process uses beside the built-in ones: ``$ASTERISM_FORMS``, with commas between them."""
    return [name for part in environment.get(FORMS_VARIABLE, "").split(",") if (name := part.strip())]


def files_url(environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the storage for files; empty for the folder beside the database."""
    return environment.get(FILES_VARIABLE, "")


def model_choice(
    model: str | None = None, backup: str | None = None, record: Path | None = None, environment: Mapping[str, str] = os.environ
) -> ModelChoice | None:
    """Return the model that plans: as given, else from the environment; None if neither names one.

    Raises:
        InvalidInput: a setting that cannot be used.
    """
    found = {field: environment[name] for field, name in MODEL_VARIABLES.items() if environment.get(name)}
    found |= {field: value for field, value in (("model", model), ("backup", backup)) if value}
    if "model" not in found:
        if backup:
            raise InvalidInput("--backup-model replaces a model that fails; name that model, too, with --model")
        if record:
            raise InvalidInput("--record records the replies of a model; name one with --model")
        return None
    if record:
        found["record"] = str(_new_file(record))
    if found["model"].startswith(REPLAY):
        found["model"] = REPLAY + os.path.realpath(found["model"].removeprefix(REPLAY))
        found = {name: it for name, it in found.items() if name in ("model", "record") or (name == "backup" and backup)}
    if "examples" in found:
        found["examples"] = os.path.realpath(found["examples"])
    try:
        return choose_model(**found)
    except InvalidInput as error:
        read = ", ".join(MODEL_VARIABLES[field] for field in found if found[field] == environment.get(MODEL_VARIABLES.get(field, "")))
        raise InvalidInput(f"{error} (set in the environment: {read})" if read else str(error)) from None


def _new_file(record: Path) -> Path:
    """Return the path of a new recording; an existing one belongs to the run that began it."""
    if record.exists():
        raise InvalidInput(f"--record {record}: the file exists already; name another file")

    if not record.parent.is_dir():
        raise InvalidInput(f"--record {record}: there is no folder {record.parent}")
    return Path(os.path.realpath(record))
