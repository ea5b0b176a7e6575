"""The offline planner over the fleets in ``examples/``, as their files describe them.

Most of these requests were written after the planner, to see what it does with words it was not made for.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from asterism.constellation.model.condition import Condition
from asterism.devices.skills.skill import describe
from asterism.devices.skills.source import load
from asterism.engine.kernel.profile import AgentProfile, Fleet
from asterism.words.planner.planner import plan_offline
from asterism.words.planner.refusal import PlanRefused

EXAMPLES = Path(__file__).parents[4] / "examples"


def example(name: str) -> Fleet:
    """The profiles of an example fleet, without opening its devices (and without the skills that are commands)."""
    base = EXAMPLES / name
    document: dict[str, Any] = tomllib.loads((base / "fleet.toml").read_text())
    return {
        device["id"]: AgentProfile(
            device_id=device["id"],
            description=device.get("description", ""),
            aliases=tuple(device.get("aliases", ())),
            capabilities=tuple(device.get("capabilities", ())),
            skills=tuple(describe(load(source, base)) for source in device.get("skills", ())),
        )
        for device in document["devices"]
    }


@pytest.fixture(scope="module")
def fleets() -> dict[str, Fleet]:
    return {name: example(name) for name in ("digits", "folder")}


def told(plan: dict[str, Any]) -> str:
    """Return a plan on one line: "skill@device {inputs}" by task, "1>2 condition" by dependency."""
    number = {task["task_id"]: str(index) for index, task in enumerate(plan["tasks"], 1)}
    tasks = [
        f"{task['name']}@{task['device']}" + "".join(f" {name}={value}" for name, value in task.get("inputs", {}).items())
        for task in plan["tasks"]
    ]
    lines = [f"{number[line['from']]}>{number[line['to']]} {line.get('condition', '')}".strip() for line in plan["dependencies"]]
    return "; ".join(tasks) + " | " + ", ".join(lines)


PLACED = [
    (
        "digits",
        "Download MNIST dataset on laptop, train CNN on GPU server, evaluate on test server, deploy to production if accuracy > 95%",
        "download_mnist@laptop; train_cnn@gpu_server; evaluate@test_server; deploy@prod_server | 1>2, 2>3, 3>4 accuracy > 0.95",
    ),
    (
        "digits",
        (
            "Could you grab MNIST with my laptop, teach a CNN on the GPU box, assess it on the tester, and release to prod once accuracy is"
            " over 0.95?"
        ),
        "download_mnist@laptop; train_cnn@gpu_server; evaluate@test_server; deploy@prod_server | 1>2, 2>3, 3>4 accuracy > 0.95",
    ),
    (
        "digits",
        (
            "Use the laptop to download the handwritten digits with a noise of 6. Then train the model for 40 epochs on gpu_server. "
            "Next, score it. Deploy the model when accuracy reaches 95%."
        ),
        (
            "download_mnist@laptop noise=6; train_cnn@gpu_server epochs=40; evaluate@test_server; deploy@prod_server"
            " | 1>2, 2>3, 3>4 accuracy >= 0.95"
        ),
    ),
    (
        "digits",
        (
            "Download MNIST, train CNN, evaluate on test server; if accuracy >= 95% deploy to production, else retrain with tuning on the"
            " GPU server"
        ),
        (
            "download_mnist@laptop; train_cnn@gpu_server; evaluate@test_server; deploy@prod_server; retrain_with_tuning@gpu_server"
            " | 1>2, 2>3, 3>4 accuracy >= 0.95, 3>5 accuracy < 0.95"
        ),
    ),
    (
        "digits",
        "fetch 500 samples of mnist, train with a learning rate of 0.01 and 20 epochs, evaluate, ship",
        (
            "download_mnist@laptop samples=500; train_cnn@gpu_server learning_rate=0.01 epochs=20; evaluate@test_server; deploy@prod_server"
            " | 1>2, 2>3, 3>4"
        ),
    ),
    (
        "digits",
        (
            "Please download MNIST dataset (on my laptop), train CNN [on the gpu], evaluate it, and — if the accuracy is greater than or"
            " equal to 95 % — deploy to prod."
        ),
        "download_mnist@laptop; train_cnn@gpu_server; evaluate@test_server; deploy@prod_server | 1>2, 2>3, 3>4 accuracy >= 0.95",
    ),
    (
        "folder",
        "How many files are in ./photos? Then archive the folder on the nas.",
        "count_files@desk folder=./photos; archive@nas | 1>2",
    ),
    (
        "folder",
        (
            "On desk count the files in ~/Documents, in parallel check ~/Documents, then compress ~/Documents to ~/docs.tgz on the NAS, "
            "and verify that archive on the box"
        ),
        (
            "count_files@desk folder=~/Documents; check_files@desk folder=~/Documents; archive@nas folder=~/Documents target=~/docs.tgz;"
            " verify@box | 1>3, 2>3, 3>4"
        ),
    ),
    (
        "folder",
        (
            'Archive the folder "./My Pictures" on the network storage, validate it with the backup box, and if it is valid count the files'
            ' in "./My Pictures"'
        ),
        "archive@nas folder=./My Pictures; verify@box; count_files@desk folder=./My Pictures | 1>2, 2>3 valid == true",
    ),
    (
        "folder",
        "Count files in ./a, check files in ./b, archive ./c, verify the archive",
        "count_files@desk folder=./a; check_files@desk folder=./b; archive@nas folder=./c; verify@box | 1>2, 2>3, 3>4",
    ),
    (
        "folder",
        "Inspect ./inbox; unless duplicates > 0, pack ./inbox into inbox.tar.gz; finally verify",
        "check_files@desk folder=./inbox; archive@nas folder=./inbox target=inbox.tar.gz; verify@box | 1>2 duplicates <= 0, 2>3",
    ),
    (
        "folder",
        (
            "check ./photos. if duplicates are more than 3 and unreadable is 0 then archive ./photos on nas and verify on box else count"
            " the files in ./photos"
        ),
        (
            "check_files@desk folder=./photos; archive@nas folder=./photos; verify@box; count_files@desk folder=./photos"
            " | 1>2 duplicates > 3 && unreadable == 0, 2>3, 1>4 !(duplicates > 3 && unreadable == 0)"
        ),
    ),
]

REFUSED = [
    ("digits", "Train a CNN on the GPU server after downloading MNIST on the laptop", "not_supported", "after"),
    ("digits", "Download MNIST dataset on laptop, train CNN on TPU pod, evaluate on test server", "unknown_device", "TPU pod"),
    ("digits", "Download MNIST on laptop, train CNN on GPU server, then notify the team on Slack", "no_match", "notify"),
    ("digits", "Download MNIST dataset on laptop, label it by hand, train CNN on GPU server", "no_match", "label it by hand"),
    ("digits", "download mnist on laptop. train CNN on gpu server with batch size 64.", "unknown_words", "batch"),
    ("digits", "Download CIFAR-10 on laptop and train CNN on GPU server", "unknown_words", "CIFAR-10"),
    (
        "digits",
        "Download the MNIST dataset on the laptop and train the CNN on the GPU server, but don't overfit it",
        "not_supported",
        "negation",
    ),
    ("digits", "Download MNIST twice on laptop", "unknown_words", "twice"),
    ("digits", "download MNIST, train CNN, evaluate, deploy to production and to the test server", "ambiguous", "test_server"),
    ("folder", "Check ./data for duplicates on my desk and upload it to S3", "no_match", "upload it to S3"),
    ("folder", "Archive ./photos with password hunter2", "unknown_words", "password"),
    ("folder", "Back up ./photos on nas, then verify it on desk", "wrong_device", "box"),
    ("folder", "If there are more than 100 files in ./photos, archive it", "bad_condition", "no earlier step"),
    ("folder", "Encrypt ./photos on the nas and verify the archive", "no_match", "Encrypt"),
    ("folder", "archive ./photos, verify the archive, otherwise archive it again", "bad_structure", "otherwise"),
]


@pytest.mark.parametrize(("name", "request_text", "plan"), PLACED)
def test_a_paraphrase_is_placed_on_the_example(fleets: dict[str, Fleet], name: str, request_text: str, plan: str) -> None:
    found = plan_offline(request_text, fleets[name])
    assert told(found) == plan
    for line in found["dependencies"]:
        if "condition" in line:
            Condition(line["condition"])


@pytest.mark.parametrize(("name", "request_text", "code", "named"), REFUSED)
def test_an_unplaceable_request_on_an_example_is_refused_by_name(
    fleets: dict[str, Fleet], name: str, request_text: str, code: str, named: str
) -> None:
    with pytest.raises(PlanRefused) as caught:
        plan_offline(request_text, fleets[name])
    assert [refusal.code for refusal in caught.value.refusals] == [code]
    assert named in str(caught.value)
