from __future__ import annotations

import pytest

from asterism.app.settings import model_choice
from asterism.constellation.planner.model_choice import MODEL_VARIABLES, ModelChoice, choose_by_name, choose_model, split_model
from asterism.errors import InvalidInput


@pytest.mark.parametrize("named", ["openai:gpt-4o", "anthropic:claude-sonnet-4-5", "google:gemini-2.5-pro", "ollama:qwen3:8b"])
def test_a_model_is_a_provider_and_a_name(named: str) -> None:
    assert ":".join(split_model(named)) == named


@pytest.mark.parametrize("named", ["gpt-4o", "openai:", "openai: ", "nobody:x", "", ":x"])
def test_anything_else_is_refused_with_the_providers(named: str) -> None:
    with pytest.raises(InvalidInput, match="openai, anthropic, google, ollama"):
        choose_model(model=named)


def test_a_backup_is_checked_like_the_model() -> None:
    with pytest.raises(InvalidInput, match="nobody"):
        choose_model(model="openai:x", backup="nobody:x")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:8000", "must begin with http"),
        ("http://", "name a host"),
        ("http://[::1/v1", "not a valid URL"),
        ("https://me:hush@host/v1", "the journal records it"),
        ("https://host/v1?key=hush", "the journal records it"),
    ],
)
def test_a_base_url_that_cannot_be_journaled_is_refused_and_not_repeated(url: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        choose_model(model="openai:x", base_url=url)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(("field", "value"), [("timeout_s", "0"), ("timeout_s", "soon"), ("attempts", "0"), ("attempts", "1000")])
def test_a_number_out_of_bounds_is_refused_by_name(field: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        choose_model(**{"model": "openai:x", field: value})


def test_a_backup_of_the_same_provider_has_the_same_base_url() -> None:
    assert ModelChoice(model="openai:x", backup="openai:y", base_url="http://a").url_of_backup() == "http://a"
    assert ModelChoice(model="openai:x", backup="anthropic:y", base_url="http://a").url_of_backup() == ""
    assert ModelChoice(model="openai:x", backup="anthropic:y", backup_base_url="http://b").url_of_backup() == "http://b"


# -- settings ----------------------------------------------------------------------------------------


def test_given_settings_override_the_environment() -> None:
    environment = {
        "ASTERISM_MODEL": "openai:x",
        "ASTERISM_BACKUP_MODEL": "anthropic:y",
        "ASTERISM_MODEL_BASE_URL": "http://a/v1",
        "ASTERISM_MODEL_TIMEOUT_S": "30",
        "ASTERISM_MODEL_ATTEMPTS": "2",
    }
    found = model_choice(environment=environment)
    assert found == ModelChoice(model="openai:x", backup="anthropic:y", base_url="http://a/v1", timeout_s=30.0, attempts=2)
    given = model_choice("google:z", environment=environment)
    assert given is not None
    assert (given.model, given.backup) == ("google:z", "anthropic:y")
    assert set(MODEL_VARIABLES) <= set(ModelChoice.__struct_fields__)


def test_a_named_model_takes_its_other_settings_from_the_environment() -> None:
    environment = {"ASTERISM_MODEL_BASE_URL": "http://a/v1", "ASTERISM_MODEL_TIMEOUT_S": "30", "ASTERISM_BACKUP_MODEL": "anthropic:y"}
    expected = ModelChoice(model="openai:x", base_url="http://a/v1", timeout_s=30.0, backup="anthropic:y")
    assert choose_by_name("openai:x", environment) == expected
    assert choose_by_name("openai:x", {**environment, "ASTERISM_MODEL": "openai:z"}) == expected
    assert choose_by_name("openai:x", {**environment, "ASTERISM_MODEL": "ollama:z"}).base_url == "", "the URL is for another provider"
    assert choose_by_name("replay:file", environment) == ModelChoice(model="replay:file")


def test_without_a_model_there_is_no_choice() -> None:
    assert model_choice(environment={}) is None
    assert model_choice(environment={"ASTERISM_MODEL": "", "ASTERISM_BACKUP_MODEL": "openai:x"}) is None


def test_a_backup_alone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--model"):
        model_choice(None, "openai:x", environment={})


@pytest.mark.parametrize(
    ("name", "value"), [("ASTERISM_MODEL_TIMEOUT_S", "soon"), ("ASTERISM_MODEL_BASE_URL", "here"), ("ASTERISM_BACKUP_MODEL", "y")]
)
def test_an_invalid_setting_is_reported_with_its_variable(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=rf"\(set in the environment: {name}\)"):
        model_choice("openai:x", environment={name: value})


def test_a_given_model_is_not_read_from_the_environment() -> None:
    with pytest.raises(InvalidInput) as refused:
        model_choice("nobody:x", environment={"ASTERISM_MODEL": "openai:y"})
    assert "environment" not in str(refused.value)
