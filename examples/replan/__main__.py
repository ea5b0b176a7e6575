"""``python -m examples.replan``: a model makes a plan, sees a result that is too bad, and changes the plan while it runs.

The model is one by a script, on this computer; whatever is between it and the run is real: the client, the wire, the planner, the
devices of ``examples/digits`` and the accuracy they measure. With a key, ``--model openai:gpt-4o`` asks a real one instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asterism.testing.model_wire import ModelRequest, Say
from asterism.testing.scripted_model import ScriptedModel

FLEET = Path(__file__).parents[1] / "digits" / "fleet.toml"
REQUEST = (
    "Download MNIST dataset with noise 3 on laptop, train CNN on GPU server, "
    "evaluate on test server, deploy to production if accuracy > 95%"
)

CREATED: Mapping[str, Any] = {
    "observation": "The laptop downloads, the GPU server trains, the test server measures, the production server serves.",
    "thought": "Decomposed into 4 tasks: (1) download on laptop, (2) train on GPU, (3) evaluate on test server, (4) conditional deploy.",
    "status": "CONTINUE",
    "constellation": {
        "tasks": [
            {"task_id": "task_001", "name": "download_mnist", "device": "laptop", "inputs": {"noise": 3}},
            {"task_id": "task_002", "name": "train_cnn", "device": "gpu_server"},
            {"task_id": "task_003", "name": "evaluate", "device": "test_server"},
            {"task_id": "task_004", "name": "deploy", "device": "prod_server"},
        ],
        "dependencies": [
            {"from": "task_001", "to": "task_002", "type": "SUCCESS_ONLY"},
            {"from": "task_002", "to": "task_003", "type": "SUCCESS_ONLY"},
            {"from": "task_003", "to": "task_004", "type": "CONDITIONAL", "condition": "accuracy > 0.95"},
        ],
    },
}
RETRAINING = {
    "task_id": "task_005",
    "name": "retrain_with_tuning",
    "device": "gpu_server",
    "description": "Retrain with learning rate decay and data augmentation",
}
EDITED: Mapping[str, Any] = {
    "thought": "The accuracy did not meet the deployment threshold (95%). Adding a retraining task, removing the deployment.",
    "status": "CONTINUE",
    "actions": [
        {"tool": "add_task", "parameters": RETRAINING},
        {"tool": "add_dependency", "parameters": {"from": "task_003", "to": "task_005", "type": "SUCCESS_ONLY"}},
        {"tool": "remove_task", "parameters": {"task_id": "task_004"}},
    ],
}
GOES_ON: Mapping[str, Any] = {"thought": "The plan still stands.", "status": "CONTINUE", "actions": []}
FINISHED: Mapping[str, Any] = {
    "thought": "Every task has ended, and nothing is left to do.",
    "status": "FINISH",
    "actions": [],
    "result": {"summary": "The model was too inaccurate to deploy; it was retrained with augmentation, and production is as it was."},
}


def answer(request: ModelRequest) -> Say:
    """What a model might say to each question of this run."""
    _, editing, news = request.messages[-1].partition("# What has ended")
    if not editing:
        said = CREATED
    elif '"task_003"' in news:
        said = EDITED
    else:
        said = FINISHED if '"task_005"' in news else GOES_ON
    text = json.dumps(said)
    return Say(text=text, input_tokens=len(request.text) // 4, output_tokens=len(text) // 4, after_s=0.5)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code of the run."""
    parser = argparse.ArgumentParser(prog="python -m examples.replan", description=__doc__)
    parser.add_argument("--model", help="ask this model, by its real address, and not the one by a script")
    model = parser.parse_args(arguments).model
    outputs = Path(os.environ.get("ASTERISM_DIGITS_DIR") or "digits-run").absolute()
    outputs.mkdir(parents=True, exist_ok=True)
    os.environ["ASTERISM_DIGITS_DIR"] = str(outputs)
    result_file = outputs / "replan.json"
    result_file.unlink(missing_ok=True)

    options = ["--fleet", os.path.relpath(FLEET), "--model", model or "openai:gpt-4o", "--replan", "always"]
    print(f'asterism run "{REQUEST}" {" ".join(options)}\n', flush=True)
    command = ["run", REQUEST, *options, "--result-file", str(result_file)]
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C reaches the run, too, and is for it to answer: it pauses
    try:
        code = asyncio.run(_asterism(*command) if model else _before_the_script(*command))
        if result_file.is_file():
            run = json.loads(result_file.read_bytes())["run"]
            print(f"\nasterism show {run}\n", flush=True)
            asyncio.run(_asterism("show", run))
    finally:
        signal.signal(signal.SIGINT, before)
    return code


async def _before_the_script(*command: str) -> int:
    """A command that finds the model by a script where it looks for OpenAI's."""
    async with ScriptedModel(answer) as model:
        here = {"ASTERISM_MODEL_BASE_URL": model.openai_url, "ASTERISM_BACKUP_MODEL": "", "OPENAI_API_KEY": "any"}
        code = await _asterism(*command, **here)
    print(f"the model was asked {len(model.requests)} times", flush=True)
    return code


async def _asterism(*command: str, **environment: str) -> int:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "asterism.cli", *command, env={**os.environ, **environment})
    return await process.wait()


if __name__ == "__main__":
    sys.exit(main())
