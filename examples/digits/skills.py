"""What the devices of the digits fleet can do: fetch digits, fit a network, measure it, deploy it.

Every file is named after what it was made from and appears whole or not at all, so each skill may be
done again after a crash and ends with the same files. scikit-learn is imported inside the functions:
describing a fleet must not take the second that importing it takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict

from asterism import SkillContext, skill

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 0
"""Of the noise, the split and the weights: the same request gives the same files."""

ALL_SAMPLES = 1797
FEWEST_SAMPLES = 200
HELD_OUT_SHARE = 0.25
MOST_EPOCHS = 1000
SIDE = 8
DARKEST = 16.0
MOST_NOISE = 100.0


class Dataset(TypedDict):
    """A data set on disk. ``samples`` counts both parts, ``held_out`` the part that training never sees."""

    dataset: str
    samples: int
    held_out: int
    noise: float


class Trained(TypedDict):
    """A fitted model on disk, and the data set it was fitted to."""

    model: str
    dataset: str
    train_accuracy: float
    epochs: int
    seconds: float


class Evaluated(TypedDict):
    """How a model does on held-out digits; ``accuracy`` is the share it names rightly, 0 to 1."""

    accuracy: float
    errors: int
    held_out: int
    model: str
    dataset: str


class Deployed(TypedDict):
    """Where a model can be asked. ``answer`` is what it said of one held-out digit, which really was ``digit``."""

    deployed_to: str
    card: str
    digit: int
    answer: int


@skill(
    idempotent=True,
    tags=("fetch", "get", "mnist", "dataset", "data", "handwritten", "digits"),
    examples=("Download MNIST dataset", "download the MNIST data with noise 6", "fetch the handwritten digits"),
)
def download_mnist(context: SkillContext, samples: int = ALL_SAMPLES, noise: float = 0.0) -> Dataset:
    """Download the MNIST dataset of handwritten digits and split it into a training and a held-out part.

    Args:
        context: of this attempt.
        samples: how many digits, 200 to 1797.
        noise: standard deviation of the noise added to every pixel, in gray levels (0 white, 16 black).

    Raises:
        ValueError: a number out of range.
    """
    if not FEWEST_SAMPLES <= samples <= ALL_SAMPLES:
        raise ValueError(f"samples is {samples}; there are {ALL_SAMPLES} digits, and at least {FEWEST_SAMPLES} are needed for a fair split")
    if not 0 <= noise <= MOST_NOISE:
        raise ValueError(f"noise is {noise}; it is a standard deviation in gray levels, from 0 (none) to {MOST_NOISE:g}")
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    chance = np.random.default_rng(SEED)
    chosen = np.sort(chance.permutation(ALL_SAMPLES)[:samples])
    pixels = np.clip(digits.data[chosen] + chance.normal(0.0, noise, (samples, SIDE * SIDE)), 0.0, DARKEST)
    labels = digits.target[chosen]
    x_train, x_held_out, y_train, y_held_out = train_test_split(
        pixels, labels, test_size=HELD_OUT_SHARE, random_state=SEED, stratify=labels
    )
    target = _outputs() / "data" / f"digits-{samples}-noise-{noise:.12g}.npz"
    with _whole_file(target, context.key) as stream:
        np.savez(stream, x_train=x_train, y_train=y_train, x_held_out=x_held_out, y_held_out=y_held_out)
    context.progress(1.0, f"{samples} digits, {len(y_held_out)} of them held out")
    return Dataset(dataset=str(target), samples=samples, held_out=len(y_held_out), noise=noise)


@skill(
    idempotent=True,
    tags=("fit", "learn", "cnn", "neural", "network", "model", "classifier"),
    examples=("train CNN", "train a CNN on the dataset", "train the model with 40 epochs"),
)
def train_cnn(context: SkillContext, dataset: str, epochs: int = 30, learning_rate: float = 0.003) -> Trained:
    """Train a CNN: fit a small neural network to the training part of a dataset.

    Args:
        context: of this attempt.
        dataset: path that download_mnist returned.
        epochs: passes over the training part, 1 to 1000.
        learning_rate: step size, above 0 and at most 1.

    Raises:
        ValueError: a number out of range, or no such dataset.
    """
    from sklearn.neural_network import MLPClassifier

    pixels, labels = _read_part(dataset, "train")
    classifier = MLPClassifier((96,), learning_rate_init=learning_rate, alpha=1e-3, batch_size=64, random_state=SEED)
    return _fit(context, "cnn", classifier, pixels, labels, dataset=dataset, epochs=epochs, learning_rate=learning_rate)


@skill(
    idempotent=True,
    tags=("retraining", "tuning", "tuned", "augmentation", "decay", "hyperparameters"),
    examples=("retrain with tuning", "retrain with learning rate decay and data augmentation"),
)
def retrain_with_tuning(context: SkillContext, dataset: str, epochs: int = 40, learning_rate: float = 0.02) -> Trained:
    """Retrain with learning rate decay and data augmentation, for an accuracy that was too low.

    Augmentation adds every digit moved by one pixel up, down, left and right.

    Args:
        context: of this attempt.
        dataset: path that download_mnist returned.
        epochs: passes over the augmented training part, 1 to 1000.
        learning_rate: the first step size, above 0 and at most 1; it decays with every epoch.

    Raises:
        ValueError: a number out of range, or no such dataset.
    """
    import numpy as np
    from sklearn.neural_network import MLPClassifier

    pixels, labels = _read_part(dataset, "train")
    images = pixels.reshape(-1, SIDE, SIDE)
    moved = [np.roll(images, step, axis).reshape(pixels.shape) for axis in (1, 2) for step in (1, -1)]
    classifier = MLPClassifier(
        (96,),
        solver="sgd",
        learning_rate="invscaling",
        power_t=0.1,
        learning_rate_init=learning_rate,
        alpha=1e-3,
        batch_size=64,
        random_state=SEED,
    )
    return _fit(
        context,
        "retrained",
        classifier,
        np.concatenate([pixels, *moved]),
        np.tile(labels, 1 + len(moved)),
        dataset=dataset,
        epochs=epochs,
        learning_rate=learning_rate,
    )


@skill(
    idempotent=True,
    tags=("measure", "accuracy", "score", "assess", "held-out"),
    examples=("evaluate", "evaluate the model", "measure the accuracy of the model"),
)
def evaluate(model: str, dataset: str) -> Evaluated:
    """Evaluate a model: measure its accuracy on the held-out part of a dataset.

    Args:
        model: path that train_cnn returned.
        dataset: path that download_mnist returned; its training part is not read.

    Raises:
        ValueError: no such model or dataset.
    """
    pixels, labels = _read_part(dataset, "held_out")
    right = int((_load_model(Path(model)).predict(pixels) == labels).sum())
    return Evaluated(accuracy=right / len(labels), errors=len(labels) - right, held_out=len(labels), model=model, dataset=dataset)


@skill(
    idempotent=True,
    tags=("publish", "release", "ship", "serve", "rollout"),
    examples=("deploy", "deploy the model", "publish the model"),
)
def deploy(context: SkillContext, model: str) -> Deployed:
    """Deploy a model: put it, with a model card, where it can be loaded and asked again.

    The card names the model file and is replaced in one step, after the model is there: whoever reads
    the card gets the old model or the new one, and doing it twice is doing it once.

    Args:
        context: of this attempt.
        model: path that train_cnn returned.

    Raises:
        ValueError: no such model, or not one that train_cnn wrote.
        RuntimeError: the deployed copy does not answer as the model does.
    """
    source = Path(model)
    original = _load_model(source)
    notes = _read_notes(source)
    content = source.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    folder = _outputs() / "production"
    target = folder / f"model-{digest[:12]}.joblib"
    with _whole_file(target, context.key) as stream:
        stream.write(content)

    pixels, labels = _read_part(notes["dataset"], "held_out")
    answer = int(_load_model(target).predict(pixels[:1])[0])
    if answer != int(original.predict(pixels[:1])[0]):
        raise RuntimeError(f"{target} answers otherwise than {source}; the card still names the model before it")
    measured = next((r["accuracy"] for r in context.results.values() if isinstance(r, dict) and "accuracy" in r), None)
    card = folder / "card.json"
    with _whole_file(card, context.key) as stream:
        stream.write(_json_bytes({"model": target.name, "sha256": digest, "accuracy": measured, **notes}))
    return Deployed(deployed_to=str(target), card=str(card), digit=int(labels[0]), answer=answer)


def _outputs() -> Path:
    """Where everything is written: ``$ASTERISM_DIGITS_DIR``, else ``digits-run`` in the current directory."""
    return Path(os.environ.get("ASTERISM_DIGITS_DIR") or "digits-run").absolute()


@contextmanager
def _whole_file(target: Path, key: str) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete; a killed attempt's leftover is overwritten by the next of the same key."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{hashlib.sha256(key.encode()).hexdigest()[:12]}.part")
    try:
        with part.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _json_bytes(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _read_part(dataset: str, part: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pixels (n, 64) and labels (n) of one part; the other part is not read from disk."""
    import numpy as np

    if not Path(dataset).is_file():
        raise ValueError(f"there is no dataset {dataset!r}; download_mnist writes one and returns its path")
    try:
        with np.load(dataset) as archive:
            return archive[f"x_{part}"], archive[f"y_{part}"]
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{dataset!r} is not a dataset that download_mnist wrote: {error}") from error


def _fit(
    context: SkillContext,
    name: str,
    classifier: Any,
    pixels: NDArray[Any],
    labels: NDArray[Any],
    *,
    dataset: str,
    epochs: int,
    learning_rate: float,
) -> Trained:
    """Fit epoch by epoch, so that progress is seen, and write the model with notes on how it was made."""
    if not 1 <= epochs <= MOST_EPOCHS:
        raise ValueError(f"epochs is {epochs}; it must be 1 to {MOST_EPOCHS}")
    if not 0 < learning_rate <= 1:
        raise ValueError(f"learning_rate is {learning_rate}; it must be above 0 and at most 1")
    import joblib
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    started = time.monotonic()
    # The scaler knows the training part only, and travels with the model: who asks it brings plain pixels.
    scaler = StandardScaler().fit(pixels)
    scaled = scaler.transform(pixels)
    for epoch in range(1, epochs + 1):
        classifier.partial_fit(scaled, labels, classes=range(10))
        context.progress(epoch / epochs, f"epoch {epoch} of {epochs}, loss {classifier.loss_:.4f}")
    train_accuracy = float(classifier.score(scaled, labels))

    target = _outputs() / "models" / f"{name}-{Path(dataset).stem}-epochs-{epochs}-rate-{learning_rate:.12g}.joblib"
    notes = {"dataset": dataset, "made_by": name, "epochs": epochs, "learning_rate": learning_rate, "train_accuracy": train_accuracy}
    with _whole_file(target.with_suffix(".json"), context.key) as stream:
        stream.write(_json_bytes(notes))
    with _whole_file(target, context.key) as stream:
        joblib.dump(make_pipeline(scaler, classifier), stream)
    return Trained(
        model=str(target), dataset=dataset, train_accuracy=train_accuracy, epochs=epochs, seconds=round(time.monotonic() - started, 3)
    )


def _load_model(path: Path) -> Any:
    import joblib

    if not path.is_file():
        raise ValueError(f"there is no model {str(path)!r}; train_cnn writes one and returns its path")
    return joblib.load(path)


def _read_notes(model: Path) -> dict[str, Any]:
    """How the model was made, as _fit wrote it beside the model."""
    notes = model.with_suffix(".json")
    if not notes.is_file():
        raise ValueError(f"{str(model)!r} has no {notes.name} beside it; only models that train_cnn wrote can be deployed")
    read: dict[str, Any] = json.loads(notes.read_bytes())
    return read
