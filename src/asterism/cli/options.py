"""Parameters that several commands share, as cyclopts reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Database = Annotated[
    Path | None,
    Parameter(name=["--database", "-d"], help="File with the journals [default: $ASTERISM_DATABASE, else in the user's state folder]."),
]
FleetFile = Annotated[Path, Parameter(name=["--fleet", "-f"], help="TOML file that names the devices.")]
OtherFleet = Annotated[Path | None, Parameter(name=["--fleet", "-f"], help="Fleet file [default: the one the run was started with].")]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON.")]
JsonEvents = Annotated[bool, Parameter(name="--json", negative=(), help="Print each event as a line of JSON, the result last.")]
Mermaid = Annotated[bool, Parameter(name="--mermaid", negative=(), help="Print a Mermaid flowchart.")]
RunId = Annotated[str, Parameter(name="RUN", help="Id of a run; the beginning of it, or of its second half, is enough.")]
ResultFile = Annotated[Path | None, Parameter(name="--result-file", help="Write the result here too, as one JSON object.")]
Model = Annotated[
    str | None,
    Parameter(
        name="--model",
        help="Plan with this model: openai:…, anthropic:…, google:… or ollama:…, or replay:FILE for a recording "
        "[default: $ASTERISM_MODEL, else without a model].",
    ),
]
BackupModel = Annotated[
    str | None, Parameter(name="--backup-model", help="Asked where the model gives no usable answer [default: $ASTERISM_BACKUP_MODEL].")
]
OtherModel = Annotated[str | None, Parameter(name="--model", help="Plan with this model [default: the one the run was started with].")]
Record = Annotated[Path | None, Parameter(name="--record", help="Write what is said to the model, and what it answers, into this file.")]
