"""The offline planner on the two example fleets: requests are placed whole, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asterism.constellation.model.condition import Condition
from asterism.engine.kernel.profile import AgentProfile, Fleet, Skill
from asterism.errors import InvalidInput
from asterism.words.planner.planner import MAX_CLAUSES, MAX_REQUEST_LENGTH, plan_offline
from asterism.words.planner.refusal import PlanRefused
from tests.support.example_fleets import digits, folder, make_schema

SEED = "Download MNIST dataset on laptop, train CNN on GPU server, \nevaluate on test server, deploy to production if accuracy > 95%"

FOUR = ["download_mnist@laptop", "train_cnn@gpu_server", "evaluate@test_server", "deploy@prod_server"]
CHAIN = ["1>2", "2>3", "3>4"]
IF_95 = ["1>2", "2>3", "3>4 accuracy > 0.95"]


def told(plan: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return a short form of a plan: "skill@device" by task, "1>2 condition" by dependency."""
    number = {task["task_id"]: str(index) for index, task in enumerate(plan["tasks"], 1)}
    tasks = [f"{task['name']}@{task['device']}" for task in plan["tasks"]]
    lines = [
        f"{number[line['from']]}>{number[line['to']]}{' ' + line['condition'] if line['type'] == 'CONDITIONAL' else ''}"
        for line in plan["dependencies"]
    ]
    return tasks, lines


def inputs(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [task.get("inputs", {}) for task in plan["tasks"]]


def refused(request: str, fleet: Fleet) -> PlanRefused:
    with pytest.raises(PlanRefused) as caught:
        plan_offline(request, fleet)
    return caught.value


def test_the_seeds_request_gives_the_seeds_plan() -> None:
    plan = plan_offline(SEED, digits())
    tasks = [{key: task[key] for key in ("task_id", "name", "device")} for task in plan["tasks"]]
    assert tasks == [
        {"task_id": "task_001", "name": "download_mnist", "device": "laptop"},
        {"task_id": "task_002", "name": "train_cnn", "device": "gpu_server"},
        {"task_id": "task_003", "name": "evaluate", "device": "test_server"},
        {"task_id": "task_004", "name": "deploy", "device": "prod_server"},
    ]
    assert plan["dependencies"] == [
        {"from": "task_001", "to": "task_002", "type": "SUCCESS_ONLY"},
        {"from": "task_002", "to": "task_003", "type": "SUCCESS_ONLY"},
        {"from": "task_003", "to": "task_004", "type": "CONDITIONAL", "condition": "accuracy > 0.95"},
    ]
    assert plan["thought"].startswith("Decomposed into 4 tasks: (1) download_mnist on laptop")


PLACED: list[tuple[Callable[[], Fleet], str, list[str], list[str]]] = [
    (
        digits,
        "Fetch the MNIST data on my laptop; fit the network on the GPU; measure the accuracy; ship it if accuracy exceeds 95%",
        FOUR,
        IF_95,
    ),
    (digits, "First download_mnist, then train_cnn, then evaluate and finally deploy to production", FOUR, CHAIN),
    (
        digits,
        "On the laptop, download MNIST. On the GPU server, train the CNN. Evaluate it. If accuracy is at least 97.5 percent, deploy it.",
        FOUR,
        ["1>2", "2>3", "3>4 accuracy >= 0.975"],
    ),
    (
        digits,
        "1. Get the digits\n2. Train a CNN\n3. Run the evaluation\n4. Only if accuracy is above 0.9 and errors < 20, publish the model",
        FOUR,
        ["1>2", "2>3", "3>4 accuracy > 0.9 && errors < 20"],
    ),
    (
        digits,
        "Download MNIST, train the CNN, evaluate the model, deploy unless accuracy is below 95%, otherwise train it again with 60 epochs",
        [*FOUR, "train_cnn@gpu_server"],
        ["1>2", "2>3", "3>4 accuracy >= 0.95", "3>5 accuracy < 0.95"],
    ),
    (digits, "have the notebook download mnist -> gpu_server: train cnn", FOUR[:2], ["1>2"]),
    (folder, "count files in ./photos, then archive it on the nas", ["count_files@desk", "archive@nas"], ["1>2"]),
    (
        folder,
        "Count the files in ./photos and meanwhile check them, then pack ./photos into 'p.tgz', then verify it on the box",
        ["count_files@desk", "check_files@desk", "archive@nas", "verify@box"],
        ["1>3", "2>3", "3>4"],
    ),
    (
        folder,
        "Archive ./photos and verify the archive; if it is not valid, check the files in ./photos",
        ["archive@nas", "verify@box", "check_files@desk"],
        ["1>2", "2>3 valid == false"],
    ),
    (
        folder,
        "Check './my photos' for duplicates, and if duplicates = 0 archive it",
        ["check_files@desk", "archive@nas"],
        ["1>2 duplicates == 0"],
    ),
    (folder, "While counting the files in /data, check the files in /data", ["count_files@desk", "check_files@desk"], []),
    (
        folder,
        "archive ./photos on the nas. If it fails, check the folder ./photos on my desk",
        ["archive@nas", "check_files@desk"],
        ['1>2 status == "FAILED"'],
    ),
]


@pytest.mark.parametrize(("fleet", "request_text", "tasks", "lines"), PLACED)
def test_a_request_that_can_be_placed_is_placed(fleet: Callable[[], Fleet], request_text: str, tasks: list[str], lines: list[str]) -> None:
    assert told(plan_offline(request_text, fleet())) == (tasks, lines)


REFUSED: list[tuple[Callable[[], Fleet], str, str, str]] = [
    (digits, "Download MNIST on laptop, brew coffee, train CNN on GPU server", "no_match", "brew"),
    (digits, "Download MNIST on the toaster, train CNN", "unknown_device", "toaster"),
    (digits, "Download ImageNet on laptop, train CNN", "unknown_words", "ImageNet"),
    (digits, "Download MNIST on the GPU server", "wrong_device", "laptop"),
    (digits, "Download MNIST, train CNN, evaluate, deploy to staging if accuracy > 95%", "unknown_device", "staging"),
    (digits, "Download MNIST, train CNN, evaluate, deploy if f1 > 0.9", "bad_condition", "f1"),
    (digits, "Download MNIST with 200 samples and 7 workers", "unknown_words", "workers"),
    (digits, "Download MNIST, train the CNN, do not overfit it", "not_supported", "negation"),
    (digits, "deploy the model to production", "missing_parameter", "model"),
    (digits, "Download MNIST, then train CNN on laptop or gpu server", "ambiguous", "gpu_server"),
    (folder, "archive ./photos and delete the originals", "no_match", "delete"),
    (folder, "archive ./photos ./music", "unplaced_value", "./music"),
    (folder, "count the files, then archive ./photos", "missing_parameter", "folder"),
    (folder, "count files in ./photos every hour", "unknown_words", "every"),
    (folder, "count the files in ./a, check the files in ./b and archive ./c in parallel", "bad_structure", "parallel"),
    (folder, "archive ./photos before noon", "not_supported", "before"),
    (folder, "archive ./photos, then the folder ./music", "no_match", "what to do"),
    (folder, "archive ./photos, then folder ./music", "no_match", "folder"),
    (folder, "otherwise archive ./photos", "bad_structure", "otherwise"),
]


@pytest.mark.parametrize(("fleet", "request_text", "code", "named"), REFUSED)
def test_a_request_with_an_unplaceable_clause_is_refused_with_the_clause(
    fleet: Callable[[], Fleet], request_text: str, code: str, named: str
) -> None:
    error = refused(request_text, fleet())
    assert [refusal.code for refusal in error.refusals] == [code]
    assert named in f"{error.refusals[0].clause} {error.refusals[0].why}"
    assert error.refusals[0].clause in str(error).replace('"', "'") or repr(error.refusals[0].clause) in str(error)


def test_every_unplaceable_clause_is_named_with_the_nearest_skills() -> None:
    error = refused("Download MNIST, brew coffee, train the CNN, evaluate it on the toaster", digits())
    assert [refusal.clause for refusal in error.refusals] == ["brew coffee", "evaluate it on the toaster"]
    assert error.refusals[1].nearest[0] == "test_server.evaluate"
    assert all(0 < len(refusal.nearest) <= 3 for refusal in error.refusals)


def test_values_fill_parameters_by_name_and_by_type() -> None:
    plan = plan_offline(
        "Download MNIST with 1,200 samples and noise 0.5, train CNN for 5 epochs, learning rate = 1e-3, then count files in './my photos'",
        {**digits(), **folder()},
    )
    assert inputs(plan) == [{"samples": 1200, "noise": 0.5}, {"epochs": 5, "learning_rate": 0.001}, {"folder": "./my photos"}]


def test_a_destination_and_a_source_are_distinguished() -> None:
    plan = plan_offline("archive ./photos into out.tgz", folder())
    assert inputs(plan) == [{"folder": "./photos", "target": "out.tgz"}]
    plan = plan_offline("archive the folder ./photos to the file 'out.tgz'", folder())
    assert inputs(plan) == [{"folder": "./photos", "target": "out.tgz"}]


def test_the_runtime_passes_direct_results_and_references_pass_farther_ones() -> None:
    fleet = digits()
    bare = Skill(
        name="evaluate", description="Evaluate a model.", parameters=make_schema({"model": str}), output=make_schema({"accuracy": float})
    )
    fleet["test_server"] = AgentProfile(device_id="test_server", skills=(bare,))
    plan = plan_offline("download mnist, train cnn, evaluate, deploy to production", fleet)
    assert inputs(plan) == [{}, {}, {}, {"model": "${task_002.model}"}]


def test_a_value_given_once_is_carried_over_with_a_tip() -> None:
    plan = plan_offline("count and check the files in ./photos in parallel, then archive it", folder())
    assert inputs(plan) == [{"folder": "./photos"}] * 3
    assert plan["tasks"][2]["tips"] == ["folder './photos' is carried over from an earlier clause"]


def test_two_earlier_values_are_ambiguous() -> None:
    error = refused("count files in ./a and meanwhile count files in ./b, then archive it", folder())
    assert [refusal.code for refusal in error.refusals] == ["missing_parameter"]


def test_of_devices_that_share_a_skill_the_first_is_chosen_with_a_tip() -> None:
    fleet = digits()
    spare = AgentProfile(device_id="spare", capabilities=("training",), skills=fleet["gpu_server"].skills)
    plan = plan_offline("download mnist, train cnn", {**fleet, "spare": spare})
    assert plan["tasks"][1]["device"] == "gpu_server"
    assert "spare" in plan["tasks"][1]["tips"][0]


def test_two_skills_that_fit_equally_are_ambiguous() -> None:
    pair = tuple(Skill(name=f"report_{which}", description="Report something.") for which in ("sales", "stock"))
    fleet = {"desk": AgentProfile(device_id="desk", skills=pair)}
    assert [refusal.code for refusal in refused("report something", fleet).refusals] == ["ambiguous"]
    assert told(plan_offline("report stock", fleet))[0] == ["report_stock@desk"]


def test_an_agent_receives_the_text_itself() -> None:
    fleet = {**folder(), "clerk": AgentProfile(device_id="clerk", natural_language=True)}
    plan = plan_offline("count files in ./photos, then have the clerk write a letter about it", fleet)
    assert plan["tasks"][1]["device"] == "clerk"
    assert "skill" not in plan["tasks"][1]
    assert plan["tasks"][1]["description"] == "have the clerk write a letter about it"


@pytest.mark.parametrize(
    ("condition", "cel"),
    [
        ("accuracy is not above 95%", "accuracy <= 0.95"),
        ("the measured accuracy of the model is more than 99.5 %", "accuracy > 0.995"),
        ("accuracy is between 1 and 2", None),
        ("errors are fewer than 20 or accuracy >= 0.9", "errors < 20 || accuracy >= 0.9"),
        ("accuracy > 0.9 and < 0.99", "accuracy > 0.9 && accuracy < 0.99"),
        ("training accuracy beats expectations", None),
        ("accuracy is good", None),
        ("accuracy", None),
        ("model equals 'best'", 'model == "best"'),
        ("accuracy > 1 and errors < 2 or errors > 5", None),
    ],
)
def test_a_condition_becomes_cel_or_is_refused(condition: str, cel: str | None) -> None:
    request = f"Download MNIST, train CNN, evaluate, deploy it if {condition}"
    if cel is None:
        assert [refusal.code for refusal in refused(request, digits()).refusals] == ["bad_condition"]
    else:
        assert told(plan_offline(request, digits()))[1][-1] == f"3>4 {cel}"


def test_a_condition_depends_on_the_task_that_has_the_field() -> None:
    plan = plan_offline("download mnist, train cnn, evaluate, deploy it if train accuracy > 99%", digits())
    assert told(plan)[1] == ["1>2", "2>3", "3>4", "2>4 train_accuracy > 0.99"]
    assert inputs(plan)[3] == {"model": "${task_003.model}"}  # two dependencies return one, so the reference names the task


def test_a_new_sentence_after_alternatives_is_refused() -> None:
    error = refused("download mnist, train cnn, evaluate, deploy if accuracy > 95%, otherwise train again. Evaluate it.", digits())
    assert [refusal.code for refusal in error.refusals] == ["bad_structure"]


@pytest.mark.parametrize("request_text", ["", "  \n ", "please", ", then; and"])
def test_an_empty_request_is_refused(request_text: str) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        plan_offline(request_text, digits())


def test_requests_are_bounded() -> None:
    with pytest.raises(InvalidInput, match=str(MAX_REQUEST_LENGTH)):
        plan_offline("x" * (MAX_REQUEST_LENGTH + 1), digits())
    with pytest.raises(InvalidInput, match=str(MAX_CLAUSES)):
        plan_offline("evaluate;" * (MAX_CLAUSES + 1), digits())
    with pytest.raises(InvalidInput, match="no devices"):
        plan_offline("evaluate", {})


_PIECES = st.sampled_from(
    f"""{SEED} , , ; . then and or in parallel meanwhile while otherwise unless is not above below equals 5 0.5 95% ./a 'b' " ' = > on the
    count check archive verify valid it fails box folder files without duplicates ${{task_001.x}} 🙂 \x00""".split()
)


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=40).map(" ".join)))
def test_any_text_is_planned_or_refused(text: str) -> None:
    fleet = {**digits(), **folder()}
    try:
        plan = plan_offline(text, fleet)
    except InvalidInput:
        return
    order = [task["task_id"] for task in plan["tasks"]]
    assert all(fleet[task["device"]].skill(task["skill"]) for task in plan["tasks"])
    assert all(order.index(line["from"]) < order.index(line["to"]) for line in plan["dependencies"])
    assert all(Condition(line["condition"]) for line in plan["dependencies"] if line["type"] == "CONDITIONAL")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["a", ".", "a.", "a/", "'", "1,", "1", "if ", "on the ", "and ", "count x, ", "in parallel ", "-", "a_", "evaluate then "]
)
def test_the_longest_requests_end_soon(piece: str) -> None:
    text = (piece * MAX_REQUEST_LENGTH)[:MAX_REQUEST_LENGTH]
    with pytest.raises(InvalidInput):
        plan_offline(text, {**digits(), **folder()})


SPOKEN: list[tuple[Callable[[], Fleet], str, list[str], list[str]]] = [
    (folder, "before archiving ./photos, check it", ["check_files@desk", "archive@nas"], ["1>2"]),
    (folder, "Once ./photos is checked, archive ./photos", ["check_files@desk", "archive@nas"], ["1>2"]),
    (folder, "The folder ./photos should be archived on the nas", ["archive@nas"], []),
    (folder, "count the files in ./a, ./b and ./c", ["count_files@desk"] * 3, []),
    (
        folder,
        "For each of './a' and './b': archive it and verify it. Then count the files in ./c",
        ["archive@nas", "verify@box", "archive@nas", "verify@box", "count_files@desk"],
        ["1>2", "3>4", "2>5", "4>5"],
    ),
    (folder, "archive ./photos, but don't verify it", ["archive@nas"], []),
    (folder, "archive ./photos and if it fails let me know", ["archive@nas"], []),
    (digits, "dowload MNIST, trian the CNN", ["download_mnist@laptop", "train_cnn@gpu_server"], ["1>2"]),
]


@pytest.mark.parametrize(("fleet", "request_text", "tasks", "lines"), SPOKEN)
def test_spoken_forms_are_placed_like_their_imperatives(
    fleet: Callable[[], Fleet], request_text: str, tasks: list[str], lines: list[str]
) -> None:
    assert told(plan_offline(request_text, fleet())) == (tasks, lines)


def test_a_step_that_another_part_excludes_is_refused_as_a_contradiction() -> None:
    assert "another part of the request asks for archive" in str(refused("archive ./photos but do not archive ./photos", folder()))


def test_a_request_that_only_excludes_has_nothing_to_run() -> None:
    with pytest.raises(InvalidInput, match="only says what not to do"):
        plan_offline("don't archive anything", folder())
