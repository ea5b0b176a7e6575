"""Processes that need not import everything: each is forked from one that has.

What is about signals, start-up or what is imported starts a Python of its own instead.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *(
            f"asterism.cli.{module}"
            for module in (
                "run_commands",
                "show_commands",
                "inquiry_commands",
                "flow_commands",
                "loop_command",
                "why_command",
                "journal_commands",
                "plan_commands",
            )
        ),
        *(
            "asterism.app.bootstrap",
            "asterism.constellation.python.performers",
            "asterism.devices.kinds.local",
            "asterism.conversation.python.performer",
        ),
        *(
            "asterism.loop.python.definition",
            "asterism.engine.runtime.driver",
            "asterism.constellation.planner.model",
            "pydantic_ai.models.openai",
            "pydantic_ai.providers.openai",
        ),
        *("tests.support.a2a_agent", "asterism.devices.kinds.mcp.task_messages", "mcp.server.mcpserver", "uvicorn.protocols.http.auto"),
    ]
)


def forked(function: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start a function in a process, which ends with this one at the latest."""
    process = _FORKS.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def forked_script(script: Path, *arguments: str) -> BaseProcess:
    """Start a script as ``python SCRIPT ARGUMENTS`` would, silent."""
    return forked(_run, str(script), arguments, dict(os.environ))


def _run(script: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        os.dup2(os.open(os.devnull, mode), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
