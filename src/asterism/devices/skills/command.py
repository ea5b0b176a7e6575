"""Commands: programs that a fleet file declares as skills. No shell is involved.

An argument fills exactly one place in argv, whatever it contains. It is passed unchanged: to most
programs a value that begins with ``-`` is an option, so put ``--`` before the placeholder where
that matters.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from asterism.devices.attempts.worker_protocol import CommandJob, FieldType
from asterism.devices.port import Attempt, AttemptError
from asterism.devices.skills.skill import File
from asterism.engine.kernel.conformance import mismatch_text
from asterism.engine.kernel.data import FILE_SCHEMA, path_of
from asterism.engine.kernel.profile import JsonSchema
from asterism.engine.runtime.private_files import make_folder

TEXT_OUTPUT: JsonSchema = {
    "type": "object",
    "properties": {"output": {"type": "string"}, "exit_code": {"type": "integer"}},
    "required": ["output", "exit_code"],
}

_PLACEHOLDER = re.compile(r"\{(\{[A-Za-z_]\w*\})\}|\{([A-Za-z_]\w*)\}")
OUTPUT = "output"
"""Placeholder for the path of the file that a program writes."""
STDERR_BYTES = 4096
_STDERR_LINES = 5
_CHUNK_BYTES = 65536


def placeholders(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in ``{name}``, in order of appearance.

    ``{{name}}`` is not a placeholder: it becomes ``{name}``.
    """
    return tuple(dict.fromkeys(match[2] for part in argv for match in _PLACEHOLDER.finditer(part) if match[2]))


def parameters_schema(argv: tuple[str, ...], files: tuple[str, ...] = ()) -> JsonSchema:
    """Return the JSON Schema of the arguments: every placeholder is a required string, or a file if it is among ``files``."""
    names = placeholders(argv)
    properties = {name: FILE_SCHEMA if name in files else {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": list(names)}


def program_path(program: str, folder: Path) -> str:
    """Return the path of a program: relative to the folder with a slash, else on the PATH."""
    return str(folder / program) if os.sep in program else program


def filled(argv: tuple[str, ...], arguments: dict[str, Any]) -> list[str]:
    """Return the argv with its placeholders filled. Raises AttemptError ``bad_arguments``."""
    names = placeholders(argv)
    missing = [name for name in names if name not in arguments]
    unknown = [name for name in arguments if name not in names]
    if missing or unknown:
        what = f"missing {', '.join(missing)}" if missing else f"unknown argument {', '.join(unknown)}"
        raise AttemptError("bad_arguments", f"{argv[0]}: {what}; its arguments are: {', '.join(names) or 'none'}")
    texts = {name: _text(name, arguments[name]) for name in names}
    return [_PLACEHOLDER.sub(lambda match: match[1] or texts[match[2]], part) for part in argv]


def perform(job: CommandJob, attempt: Attempt, folder: Path, limit_bytes: int, scratch: str = "") -> object:
    """Run the program of an attempt to its end and return its output.

    ``scratch`` is the folder in which a program whose output is a file writes it.

    Raises:
        AttemptError: ``raised`` for an exit code that is not 0, ``bad_result`` for output that is
            too large or not JSON as declared, ``bad_arguments`` for
            arguments that do not fit ``argv``.
    """
    target, arguments = Path(scratch, "out", job.file), attempt.arguments
    if job.output == "file":
        make_folder(target.parent)
        arguments = {**arguments, OUTPUT: str(target)}
    argv = filled(job.argv, arguments)
    program = argv[0]
    try:
        process = subprocess.Popen(  # noqa: S603  argv comes from the fleet file, and no shell reads it
            [program_path(program, folder), *argv[1:]],
            env={**os.environ, **attempt.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise AttemptError("raised", f"{program} cannot be started: {error.strerror or error}") from error
    with process:
        try:
            output, errors = _outputs(process, limit_bytes)
        except AttemptError:
            process.kill()
            raise
    result = outcome(job, output, errors, process.returncode)
    if job.output == "file" and not target.is_file():
        raise AttemptError("bad_result", f"{program} ended without an error, and has not written the file {job.file} to {{{OUTPUT}}}")
    return File(target) if job.output == "file" else result


def outcome(job: CommandJob, output: bytes, errors: bytes, exit_code: int) -> object:
    """Return the result of a program that has ended; a negative exit code is a signal. Raises as ``perform``."""
    program = job.argv[0]
    if exit_code != 0:
        how = f"exit code {exit_code}" if exit_code > 0 else f"signal {-exit_code}"
        last = "\n".join(errors.decode(errors="replace").strip().splitlines()[-_STDERR_LINES:])
        raise AttemptError("raised", f"{program} ended with {how}{': ' + last if last else ''}")
    if job.output != "json":
        return {"output": output.decode(errors="replace").rstrip("\n"), "exit_code": 0}
    try:
        result = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AttemptError("bad_result", f"the output of {program} is not JSON: {error}") from error
    if wrong := mismatch_text(result, returns_schema(job.returns) or {}):
        raise AttemptError("bad_result", f"the output of {program} is not as its `returns` says: {wrong}")
    return result


_JSON_TYPES: Mapping[FieldType, str] = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}


def returns_schema(returns: Mapping[str, FieldType]) -> JsonSchema | None:
    """Return the JSON Schema of a result with these fields; None without any."""
    properties = {name: {"type": _JSON_TYPES[kind]} for name, kind in returns.items()}
    return {"type": "object", "properties": properties, "required": list(returns)} if returns else None


def too_large(limit_bytes: int) -> AttemptError:
    """Return the error of a program whose output is larger than the limit."""
    return AttemptError("bad_result", f"the output is larger than {limit_bytes} bytes; write it to a file and return its path")


def _text(name: str, value: object) -> str:
    text = value if isinstance(value, str) else path_of(value)
    if isinstance(value, (bool, int, float)):
        text = msgspec.json.encode(value).decode()
    if text is None or "\0" in text:
        raise AttemptError("bad_arguments", f"argument {name} must be a text, a number or a file, without NUL, not {type(value).__name__}")
    return text


def _outputs(process: subprocess.Popen[bytes], limit_bytes: int) -> tuple[bytes, bytes]:
    """Return all of stdout and the end of stderr; stderr also goes to the log as it comes."""
    output, errors = bytearray(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
        selector.register(process.stderr, selectors.EVENT_READ)  # type: ignore[arg-type]
        while selector.get_map():
            for key, _ in selector.select():
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += chunk
                else:
                    os.write(2, chunk)
                    errors = (errors + chunk)[-STDERR_BYTES:]
            if len(output) > limit_bytes:
                raise too_large(limit_bytes)
    return bytes(output), errors
