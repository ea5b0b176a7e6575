from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from asterism import SkillContext
from examples.digits import __main__ as demo
from examples.digits import skills

DIGITS = Path(skills.__file__).parent
THRESHOLD = 0.95


@pytest.fixture(autouse=True)
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASTERISM_DIGITS_DIR", str(tmp_path))
    return tmp_path


def measured(context: SkillContext, noise: float) -> skills.Evaluated:
    data = skills.download_mnist(context, noise=noise)
    trained = skills.train_cnn(context, data["dataset"])
    return skills.evaluate(trained["model"], trained["dataset"])


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", range(3))
def test_plain_digits_are_named_well_above_the_threshold_whatever_the_seed(
    context: SkillContext, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skills, "SEED", seed)
    assert measured(context, noise=0)["accuracy"] > THRESHOLD + 0.01


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [6, 12])
def test_noisy_digits_are_named_well_below_the_threshold_whatever_the_seed(
    context: SkillContext, seed: int, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skills, "SEED", seed)
    assert measured(context, noise)["accuracy"] < THRESHOLD - 0.05


def test_no_held_out_digit_is_among_those_trained_on(context: SkillContext) -> None:
    with np.load(skills.download_mnist(context, noise=6)["dataset"]) as parts:
        train, held_out = ({row.tobytes() for row in parts[name]} for name in ("x_train", "x_held_out"))
    assert len(train) + len(held_out) == skills.ALL_SAMPLES
    assert not train & held_out


def test_evaluation_counts_what_the_model_gets_wrong(context: SkillContext) -> None:
    result = measured(context, noise=6)
    assert result["accuracy"] == pytest.approx(1 - result["errors"] / result["held_out"])


def test_doing_everything_twice_leaves_the_same_files(context: SkillContext, outputs: Path) -> None:
    skills.deploy(context, measured(context, noise=0)["model"])
    once = files_of(outputs)
    skills.deploy(context, measured(context, noise=0)["model"])
    assert files_of(outputs) == once
    assert not [name for name in once if name.endswith(".part")]


def test_a_deployed_model_can_be_loaded_by_its_card_and_asked_again(context: SkillContext, capsys: pytest.CaptureFixture[str]) -> None:
    evaluated = measured(context, noise=0)
    deployed = skills.deploy(SkillContext(results={"task_003": evaluated}), evaluated["model"])
    card = json.loads(Path(deployed["card"]).read_bytes())
    assert card["accuracy"] == evaluated["accuracy"]
    assert deployed["deployed_to"].endswith(card["model"])
    demo._ask(Path(deployed["card"]), Path(evaluated["dataset"]))
    assert "it says" in capsys.readouterr().out


def test_a_retrained_model_is_another_model_and_is_measured_like_any(context: SkillContext) -> None:
    evaluated = measured(context, noise=0)
    retrained = skills.retrain_with_tuning(context, evaluated["dataset"], epochs=10)
    assert retrained["model"] != evaluated["model"]
    assert skills.evaluate(retrained["model"], retrained["dataset"])["accuracy"] > THRESHOLD


def test_training_reports_its_progress_up_to_the_end(context: SkillContext, reported: list[float | None]) -> None:
    data = skills.download_mnist(context, samples=skills.FEWEST_SAMPLES)
    reported.clear()
    skills.train_cnn(context, data["dataset"], epochs=4)
    assert reported == [0.25, 0.5, 0.75, 1.0]


def test_what_cannot_be_used_is_refused_in_words(context: SkillContext, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    np.savez(other, unrelated=np.zeros(3))
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    dataset = skills.download_mnist(context, samples=300)["dataset"]
    with pytest.raises(ValueError, match="samples is 10"):
        skills.download_mnist(context, samples=10)
    with pytest.raises(ValueError, match="noise is -1"):
        skills.download_mnist(context, noise=-1)
    with pytest.raises(ValueError, match="epochs is 0"):
        skills.train_cnn(context, dataset, epochs=0)
    with pytest.raises(ValueError, match="learning_rate is 2"):
        skills.train_cnn(context, dataset, learning_rate=2)
    with pytest.raises(ValueError, match="there is no dataset"):
        skills.train_cnn(context, str(tmp_path / "nothing.npz"))
    for unusable in (other, text):
        with pytest.raises(ValueError, match="is not a dataset"):
            skills.evaluate(skills.train_cnn(context, dataset, epochs=1)["model"], str(unusable))
    with pytest.raises(ValueError, match="there is no model"):
        skills.deploy(context, str(tmp_path / "nothing.joblib"))


def test_a_model_without_notes_is_not_deployed(context: SkillContext, outputs: Path) -> None:
    model = Path(skills.train_cnn(context, skills.download_mnist(context, samples=300)["dataset"], epochs=1)["model"])
    model.with_suffix(".json").unlink()
    with pytest.raises(ValueError, match="only models that train_cnn wrote"):
        skills.deploy(context, str(model))
    assert not (outputs / "production").exists()


def test_the_fleet_names_only_skills_that_are_there() -> None:
    fleet = tomllib.loads((DIGITS / "fleet.toml").read_text(encoding="utf-8"))
    assert [device["id"] for device in fleet["devices"]] == ["laptop", "gpu_server", "test_server", "prod_server"]
    for device in fleet["devices"]:
        for named in device["skills"]:
            assert callable(getattr(skills, named.removeprefix("skills.py:")))


def test_a_skipped_deployment_is_told_with_its_reason_and_the_measured_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    measurement = {"accuracy": 0.8022, "errors": 89, "held_out": 450, "model": "m", "dataset": "d"}
    tasks = {
        "task_003": {"name": "evaluate", "status": "COMPLETED", "result": measurement, "error": None},
        "task_004": {
            "name": "deploy",
            "status": "SKIPPED",
            "result": None,
            "error": {"code": "skipped", "message": "accuracy > 0.95 is false"},
        },
    }
    demo._tell({"tasks": tasks})
    told = capsys.readouterr().out
    assert "0.8022" in told
    assert "SKIPPED: accuracy > 0.95 is false" in told


def test_the_noise_of_the_demo_must_be_a_number_in_range(capsys: pytest.CaptureFixture[str]) -> None:
    for bad in ("-1", "101", "nan", "much"):
        with pytest.raises(SystemExit) as refusal:
            demo.main([f"--noise={bad}"])
        assert refusal.value.code == 2
    assert "argument --noise" in capsys.readouterr().err


def test_the_plan_is_the_seeds_four_tasks_and_three_dependencies() -> None:
    plan = json.loads((DIGITS / "plan.json").read_text(encoding="utf-8"))
    assert [task["name"] for task in plan["tasks"]] == ["download_mnist", "train_cnn", "evaluate", "deploy"]
    assert [line["type"] for line in plan["dependencies"]] == ["SUCCESS_ONLY", "SUCCESS_ONLY", "CONDITIONAL"]


def test_the_demo_asks_the_deployed_model_again_and_returns_the_runs_exit_code(
    context: SkillContext, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def run(request: str, outputs: Path, result_file: Path) -> int:
        asked.append(request)
        evaluated = measured(context, noise=0)
        results = {"evaluate": evaluated, "deploy": skills.deploy(context, evaluated["model"])}
        tasks = {name: {"name": name, "status": "COMPLETED", "result": result, "error": None} for name, result in results.items()}
        result_file.write_text(json.dumps({"run": "r1", "tasks": tasks}))
        return 0

    monkeypatch.setattr(demo, "_run", run)
    assert demo.main([]) == 0
    assert demo.main(["--noise", "6"]) == 0
    assert asked[0].startswith("Download MNIST dataset on laptop, ")
    assert asked[1].startswith("Download MNIST dataset with noise 6 on laptop, ")
    shown = capsys.readouterr().out
    assert "measured accuracy: 0.9" in shown
    assert shown.endswith(" --open r1\n")

    monkeypatch.setattr(demo, "_run", lambda request, outputs, result_file: 130)
    assert demo.main([]) == 130
    assert "measured" not in capsys.readouterr().out
