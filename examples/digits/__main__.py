"""``python -m examples.digits``: the request in one sentence, run by the command line, and its model asked again.

Everything here could be typed: it runs ``asterism run "<request>" --fleet examples/digits/fleet.toml``
and reads what that wrote with ``--result-file``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FLEET = Path(__file__).with_name("fleet.toml")
REQUEST = "Download MNIST dataset{} on laptop, train CNN on GPU server, evaluate on test server, deploy to production if accuracy > 95%"
INK = " .:-=+*#%@"
DARKEST = 16.0
MOST_NOISE = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code of the run."""
    options = _options(arguments)
    outputs = Path(os.environ.get("ASTERISM_DIGITS_DIR") or "digits-run").absolute()
    outputs.mkdir(parents=True, exist_ok=True)
    result_file = outputs / "result.json"
    result_file.unlink(missing_ok=True)

    request = REQUEST.format(f" with noise {options.noise:g}" if options.noise else "")
    print(f'asterism run "{request}" --fleet {os.path.relpath(FLEET)}\n', flush=True)
    code = _run(request, outputs, result_file)
    if not result_file.is_file():
        return code
    print()
    run = json.loads(result_file.read_bytes())
    _tell(run)
    command = f"{_command()} serve --fleet {os.path.relpath(FLEET)} --open {run['run']}"
    print(f"\nto see the run in a browser, open the login link that this prints:\n\n    {command}")
    return code


def _command() -> str:
    """Return the command line as one can type it here: an environment that is not activated has it by its path."""
    installed = Path(sys.executable).with_name("asterism")
    return "asterism" if shutil.which("asterism") == str(installed) else os.path.relpath(installed)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.digits", description=__doc__)
    parser.add_argument(
        "--noise",
        type=_noise,
        default=0.0,
        metavar="LEVELS",
        help="make the digits harder: noise of this standard deviation on each pixel, in gray levels of 16 (6 spoils the model, 0 is none)",
    )
    return parser.parse_args(arguments)


def _noise(text: str) -> float:
    noise = float(text)
    if not 0 <= noise <= MOST_NOISE:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {MOST_NOISE}")
    return noise


def _run(request: str, outputs: Path, result_file: Path) -> int:
    """Run the request in the foreground, its view on this terminal; return its exit code."""
    command = [sys.executable, "-m", "asterism.cli", "run", request, "--fleet", str(FLEET), "--result-file", str(result_file)]
    # Ctrl-C reaches the child too and is for it to answer: it pauses the run. Here it must do nothing,
    # not even be ignored, as a child inherits that.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, env={**os.environ, "ASTERISM_DIGITS_DIR": str(outputs)}, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _tell(run: dict[str, Any]) -> None:
    """Say what was measured, and ask the deployed model, or say why there is none."""
    by_name = {task["name"]: task for task in run["tasks"].values()}
    measured = by_name.get("evaluate", {}).get("result")
    if measured:
        print(f"measured accuracy: {measured['accuracy']:.4f} ({measured['errors']} errors in {measured['held_out']} held-out digits)")
    deployment = by_name.get("deploy", {})
    if deployment.get("status") == "COMPLETED":
        deployed = deployment["result"]
        print(f"deployed model:    {deployed['deployed_to']}")
        print(f"its card:          {deployed['card']}")
        _ask(Path(deployed["card"]), Path(measured["dataset"]))
    elif deployment:
        print(f"deploy is {deployment.get('status')}: {_words(deployment.get('error'))}")


def _words(error: Any) -> str:
    """An error of a task in words, be it an object or a text."""
    return str(error["message"] if isinstance(error, dict) else error or "no reason was given")


def _ask(card: Path, dataset: Path) -> None:
    """Load the model that the card names, as anybody would, and ask it one digit that it has never seen."""
    import joblib
    import numpy as np

    model = joblib.load(card.parent / json.loads(card.read_bytes())["model"])
    with np.load(dataset) as parts:
        pixels, label = parts["x_held_out"][-1], int(parts["y_held_out"][-1])
    print("\nasked again, with a held-out digit:\n")
    for row in pixels.reshape(8, 8):
        print("    " + "".join(INK[int(level / DARKEST * (len(INK) - 1))] * 2 for level in row))
    print(f"\n    it says {int(model.predict([pixels])[0])}; it is a {label}")


if __name__ == "__main__":
    sys.exit(main())
