"""``python -m examples.notes ARGUMENTS``: the command ``asterism ARGUMENTS``, beside a model by a script that the loop here asks.

Only the model is not real: the client, HTTP on loopback, the MCP server and the files that it writes are.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from asterism.testing.model_wire import ModelRequest, Say
from asterism.testing.scripted_model import ScriptedModel
from examples.notes.loop import FOLDER, SUMMARY

REFUSED = "I was not allowed to write it."


def answer(request: ModelRequest) -> Say:
    """What a model might say: each worker's is known by its tools, and the reflection by having none."""
    said = request.body["messages"]
    returned = [str(message["content"]) for message in said if message["role"] == "tool"]
    if "write_file" in request.tools:
        return _write(str(said[1]["content"]), returned)
    if "read_text_file" in request.tools:
        if returned:
            return Say(text=f"There are {len(returned[-1].split())} words in it.")
        return Say(calls=(("read_text_file", {"path": SUMMARY}),))
    if "list_directory" in request.tools:
        return _read(returned)
    return Say(text="Fail." if REFUSED in request.text else "Continue.")


def _read(returned: list[str]) -> Say:
    """List, read, and tell."""
    if not returned:
        return Say(calls=(("list_directory", {"path": FOLDER}),))
    if len(returned) > 1:
        return Say(text=returned[1])
    names = [word.strip('"{}') for word in returned[0].replace("\\n", " ").split()]
    paths = [str(Path(FOLDER) / name) for name in names if name.endswith(".md") and name != Path(SUMMARY).name]
    return Say(calls=(("read_multiple_files", {"paths": paths}),))


def _write(handed: str, returned: list[str]) -> Say:
    """Write the sentences of what was handed over."""
    if returned:
        return Say(text=REFUSED if '"denied"' in returned[-1] else returned[-1])
    facts = [line for line in handed.replace("\\n", "\n").splitlines() if line.endswith(".")]
    return Say(calls=(("write_file", {"path": SUMMARY, "content": "# Summary\n\n" + "".join(f"- {fact}\n" for fact in facts)}),))


async def main(*arguments: str) -> int:
    """Run one command; returns its exit code."""
    async with ScriptedModel(answer) as model:
        here = {"OPENAI_BASE_URL": model.openai_url, "OPENAI_API_KEY": "any", "NOTES_MODEL": "openai:gpt-4o"}
        command = [sys.executable, "-m", "asterism.cli", *arguments]
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **here})
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
