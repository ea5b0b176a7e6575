"""The command ``schema``."""

from __future__ import annotations

import json
from typing import Annotated

from cyclopts import Parameter

from asterism.app.schemas import FileKind, schema_of
from asterism.cli.exit_codes import FINISHED
from asterism.cli.output import put


def schema(kind: Annotated[FileKind, Parameter(name="KIND", help="Kind of file.")], /) -> int:
    """Print the JSON Schema of a kind of file, for editors.

    Store it beside the file and name it in the first line. YAML: `# yaml-language-server: $schema=plan.schema.json`.
    TOML: `#:schema ./fleet.schema.json`. JSON: `"$schema": "plan.schema.json"`.
    """
    put(json.dumps(schema_of(kind), indent=2, ensure_ascii=False))
    return FINISHED
