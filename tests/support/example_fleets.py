"""Profiles of the two example fleets, for tests of planners; nothing here can run.

Names, descriptions and tags follow ``examples/``; a test of the planner reads those too.
"""

from __future__ import annotations

from typing import Any

from asterism.engine.kernel.profile import AgentProfile, Fleet, Skill

_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}


def make_schema(properties: dict[str, type], defaults: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON Schema of an object; properties without a default are required."""
    defaults = defaults or {}
    shown = {name: {"type": _TYPES[kind], **({"default": defaults[name]} if name in defaults else {})} for name, kind in properties.items()}
    return {"type": "object", "properties": shown, "required": [name for name in properties if name not in defaults]}


def digits() -> Fleet:
    """Return four devices that download, train, evaluate and deploy."""
    download = Skill(
        name="download_mnist",
        description="Download the MNIST dataset of handwritten digits and split it into a training and a held-out part.",
        parameters=make_schema({"samples": int, "noise": float}, {"samples": 1797, "noise": 0.0}),
        output=make_schema({"dataset": str, "samples": int, "held_out": int, "noise": float}),
        tags=("fetch", "get", "mnist", "dataset", "data", "handwritten", "digits"),
        examples=("Download MNIST dataset", "download the MNIST data with noise 6", "fetch the handwritten digits"),
    )
    train = Skill(
        name="train_cnn",
        description="Train a CNN: fit a small neural network to the training part of a dataset.",
        parameters=make_schema({"dataset": str, "epochs": int, "learning_rate": float}, {"epochs": 30, "learning_rate": 0.003}),
        output=make_schema({"model": str, "dataset": str, "train_accuracy": float, "epochs": int}),
        tags=("fit", "learn", "cnn", "neural", "network", "model", "classifier"),
        examples=("train CNN", "train a CNN on the dataset", "train the model with 40 epochs"),
    )
    evaluate = Skill(
        name="evaluate",
        description="Evaluate a model: measure its accuracy on the held-out part of a dataset.",
        parameters=make_schema({"model": str, "dataset": str}),
        output=make_schema({"accuracy": float, "errors": int, "model": str, "dataset": str}),
        tags=("measure", "accuracy", "score", "assess", "held-out"),
        examples=("evaluate", "evaluate the model", "measure the accuracy of the model"),
    )
    deploy = Skill(
        name="deploy",
        description="Deploy a model: put it, with a model card, where it can be loaded and asked again.",
        parameters=make_schema({"model": str}),
        output=make_schema({"deployed_to": str, "card": str, "digit": int, "answer": int}),
        tags=("publish", "release", "ship", "serve", "rollout"),
        examples=("deploy", "deploy the model", "publish the model"),
    )
    profiles = (
        AgentProfile(device_id="laptop", aliases=("my laptop", "notebook"), capabilities=("download", "storage"), skills=(download,)),
        AgentProfile(device_id="gpu_server", aliases=("GPU server", "gpu"), capabilities=("training", "gpu"), skills=(train,)),
        AgentProfile(device_id="test_server", aliases=("test server", "tester"), capabilities=("evaluation",), skills=(evaluate,)),
        AgentProfile(device_id="prod_server", aliases=("production", "prod"), capabilities=("serving",), skills=(deploy,)),
    )
    return {profile.device_id: profile for profile in profiles}


def folder() -> Fleet:
    """Three devices that count, check, archive and verify a folder."""
    count = Skill(
        name="count_files",
        description="Count the files in a folder, and in all folders below it.",
        parameters=make_schema({"folder": str}),
        output=make_schema({"folder": str, "files": int, "bytes": int}),
        tags=("count", "number", "files", "folder", "directory"),
        examples=("count the files", "how many files are in the folder"),
    )
    check = Skill(
        name="check_files",
        description="Check the files of a folder: read each of them, and find unreadable, empty and duplicate ones.",
        parameters=make_schema({"folder": str}),
        output=make_schema({"folder": str, "files": int, "unreadable": int, "duplicates": int}),
        tags=("check", "inspect", "unreadable", "empty", "duplicates", "health"),
        examples=("check the files", "check the folder for duplicates"),
    )
    archive = Skill(
        name="archive",
        description="Archive a folder: pack it into a tar.gz file, with a manifest of its content beside it.",
        parameters=make_schema({"folder": str, "target": str}, {"target": ""}),
        output=make_schema({"archive": str, "manifest": str, "folder": str, "files": int}),
        tags=("archive", "pack", "compress", "backup", "tar"),
        examples=("archive the folder", "archive '/home/me/photos'"),
    )
    verify = Skill(
        name="verify",
        description="Verify an archive: read back all it holds and compare it with the manifest of the folder.",
        parameters=make_schema({"archive": str}),
        output=make_schema({"valid": bool, "archive": str, "files": int}),
        tags=("verify", "validate", "integrity", "compare", "archive"),
        examples=("verify the archive", "compare the archive with its manifest"),
    )
    profiles = (
        AgentProfile(device_id="desk", aliases=("my desk", "desktop"), capabilities=("files", "inspection"), skills=(count, check)),
        AgentProfile(device_id="nas", aliases=("network storage",), capabilities=("storage", "archiving"), skills=(archive,)),
        AgentProfile(device_id="box", aliases=("backup box",), capabilities=("verification",), skills=(verify,)),
    )
    return {profile.device_id: profile for profile in profiles}
