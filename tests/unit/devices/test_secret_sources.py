"""Where secrets come from, and which are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.requirements import check_secrets_set, missing_for_tasks, missing_secrets
from asterism.devices.attempts.secrets import known_secrets, secret, with_values
from asterism.devices.port import Attempt
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput, MissingExtra
from asterism.testing.device import FakeDevice, PerformanceLog


def place(folder: Path, text: str, *, mode: int = 0o600) -> dict[str, str]:
    file = folder / "secrets.env"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return {"ASTERISM_SECRETS": str(file)}


def test_the_environment_comes_before_a_file(tmp_path: Path) -> None:
    there = place(tmp_path, "# comment\n\nexport TOKEN='from a file'\nOTHER = \"quoted # value\"\n")
    assert secret("TOKEN", there) == "from a file"
    assert secret("OTHER", there) == "quoted # value"
    assert secret("TOKEN", {**there, "ASTERISM_SECRET_TOKEN": "from the environment"}) == "from the environment"


def test_a_folder_has_a_file_for_each_secret(tmp_path: Path) -> None:
    (tmp_path / "TOKEN").write_text("one line of it\n", encoding="utf-8")
    (tmp_path / "TOKEN").chmod(0o400)
    assert secret("TOKEN", {"ASTERISM_SECRETS": str(tmp_path)}) == "one line of it"
    with pytest.raises(InvalidInput, match="secret OTHER is not set"):
        secret("OTHER", {"ASTERISM_SECRETS": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("TOKEN=long enough", 0o640, "chmod 600"),
        ("TOKEN=short", 0o600, "has 5 characters, and a shorter one than 8 cannot be masked"),
        ("TOKEN=long enough\nnot a line", 0o600, "line 2: not NAME=value"),
        ("", 0o600, "secret TOKEN is not set; set ASTERISM_SECRET_TOKEN"),
        ("TOKEN=" + "x" * 9000, 0o600, "more than 8192 bytes"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_fix_and_without_the_value(tmp_path: Path, text: str, mode: int, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        secret("TOKEN", place(tmp_path, text, mode=mode))
    assert "long enough" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=f"there is no file or folder {tmp_path}/none"):
        secret("TOKEN", {"ASTERISM_SECRETS": str(tmp_path / "none")})


def test_the_keyring_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(MissingExtra, match=r"asterism-engine\[keyring\]"):
        secret("TOKEN", {"ASTERISM_SECRETS": "keyring:mine"})


def test_the_keyring_is_asked_by_service_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class KeyringError(Exception):
        pass

    def get_password(service: str, name: str) -> str | None:
        if service == "locked":
            raise KeyringError("locked")
        return f"{service}/{name}" if name == "TOKEN" else None

    keyring, errors = ModuleType("keyring"), ModuleType("keyring.errors")
    vars(keyring).update(get_password=get_password, errors=errors)
    vars(errors).update(KeyringError=KeyringError)
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    assert secret("TOKEN", {"ASTERISM_SECRETS": "keyring:mine"}) == "mine/TOKEN"
    with pytest.raises(InvalidInput, match="secret OTHER is not set"):
        secret("OTHER", {"ASTERISM_SECRETS": "keyring:mine"})
    with pytest.raises(InvalidInput, match="the keyring cannot be read: locked"):
        secret("TOKEN", {"ASTERISM_SECRETS": "keyring:locked"})


def test_only_the_references_of_the_plan_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTERISM_SECRET_TOKEN", "hunter2-and-more")
    attempt = Attempt(
        key="r:1.0",
        run_id="r",
        task_id="a",
        device_id="d",
        skill="s",
        arguments={"headers": ["Bearer ${secret.TOKEN}"], "text": "a page that says ${secret.TOKEN}"},
        env={"T": "${secret.TOKEN}"},
        secrets=(("headers", 0),),
    )
    resolved, values = with_values(attempt)
    assert resolved.arguments == {"headers": ["Bearer hunter2-and-more"], "text": "a page that says ${secret.TOKEN}"}
    assert resolved.env == {"T": "hunter2-and-more"}
    assert values == {"TOKEN": "hunter2-and-more"}
    assert attempt.arguments["headers"] == ["Bearer ${secret.TOKEN}"]


def test_all_secrets_of_the_environment_are_masked_but_short_ones() -> None:
    assert known_secrets({"ASTERISM_SECRET_A": "long enough", "ASTERISM_SECRET_B": "short", "OTHER": "long enough"}) == {"A": "long enough"}


def test_missing_secrets_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTERISM_SECRET_THERE", "long enough")
    inputs = {"a": "${secret.NONE} ${secret.THERE}", "b": ["${secret.NONE}", "${u.field}"]}
    inner = parse_plan({"tasks": [{"task_id": "i", "device": "d", "env": {"KEY": "${secret.INNER}"}}]})
    tasks = [{"task_id": "t", "device": "d", "inputs": inputs}, {"task_id": "u", "constellation": round_trip(inner)}]
    there, inside = missing_secrets(parse_plan({"tasks": tasks}))
    assert there.startswith("secret NONE is not set")
    assert inside.startswith("secret INNER is not set")
    with pytest.raises(InvalidInput, match=r"secret NONE is not set; .*; secret INNER is not set; "):
        check_secrets_set(parse_plan({"tasks": tasks}), {})


def test_a_device_may_set_the_place_of_its_secrets(tmp_path: Path) -> None:
    tasks = [{"task_id": name, "device": name, "inputs": {"x": "${secret.KEY}"}} for name in ("d", "e")]
    file = tmp_path / "secrets.env"
    file.write_text("KEY=long enough")
    file.chmod(0o600)
    device = FakeDevice(AgentProfile(device_id="d"), PerformanceLog(lambda: 0.0))
    device.environment = {"ASTERISM_SECRETS": str(file)}
    devices = {"d": device}
    assert missing_secrets(parse_plan({"tasks": tasks[:1]}), devices) == []
    assert len(missing_secrets(parse_plan({"tasks": tasks}), devices)) == 1


def test_a_task_may_have_the_id_secret() -> None:
    tasks = [{"task_id": "secret", "device": "d"}, {"task_id": "t", "device": "d", "inputs": {"x": "${secret.field}"}}]
    assert missing_secrets(parse_plan({"tasks": tasks})) == []


def test_settled_tasks_need_no_secret_any_more() -> None:
    tasks = [TaskStar(task_id=name, device="d", env={"KEY": f"${{secret.{name}}}"}) for name in ("DONE", "OPEN")]
    tasks[0].status = TaskStatus.COMPLETED
    (reason,) = missing_for_tasks(tasks)
    assert reason.startswith("secret OPEN is not set")
