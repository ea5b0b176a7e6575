"""Models: retries, error texts, and no key in any text."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Any

import httpx2
import pytest
from pydantic_ai import exceptions as trouble
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from asterism.constellation.planner.model import ModelUnavailable, PatientModel, Secrets, open_model, usage_of
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.errors import InvalidInput
from asterism.testing import loop
from tests.support.fake_models import FakeModel, access, request

KEY = "sk-proj-hush1234567890"


def rate_limited(after_s: float | None) -> Exception:
    return trouble.ModelHTTPError.for_category(
        trouble.ModelRateLimitError, status_code=429, model_name="m", headers={} if after_s is None else {"retry-after": f"{after_s:g}"}
    )


def http(status: int, message: str, category: Any) -> Exception:
    return trouble.ModelHTTPError.for_category(category, status_code=status, model_name="m", body={"error": {"message": message}})


def ask(*answers: Any, **choice: Any) -> tuple[ModelResponse, float, FakeModel]:
    """Return the result of one question, and the virtual seconds that it took."""
    told = FakeModel(*answers)

    async def main() -> tuple[ModelResponse, float]:
        response = await model_request(access(told, **choice).models[0], request("hello"))
        return response, asyncio.get_running_loop().time()

    response, took_s = loop.run(main())
    return response, took_s, told


def ask_in_vain(*answers: Any, **choice: Any) -> ModelUnavailable:
    with pytest.raises(ModelUnavailable) as caught:
        ask(*answers, **choice)
    return caught.value


class Hanging(FakeModel):
    requests = 0

    async def __call__(self, *args: Any) -> ModelResponse:
        self.requests += 1
        await asyncio.sleep(10_000)
        raise AssertionError


# -- retries -----------------------------------------------------------------------------------------


def test_a_retry_waits_as_long_as_the_provider_asks() -> None:
    response, took_s, _ = ask(rate_limited(7), "hello")
    assert (response.text, took_s) == ("hello", 7.0)
    assert response.metadata == {
        "requests": 2,
        "waits": ("openai:first: too many requests (HTTP 429); retried after 7 s",),
    }


def test_a_retry_waits_for_fractions_of_a_second() -> None:
    response, took_s, _ = ask(rate_limited(7.5), "hello")
    assert (response.text, took_s) == ("hello", 7.5)
    assert "a wait of 3600.5 s" in str(ask_in_vain(rate_limited(3600.5)))


@pytest.mark.parametrize("header", ["-7.5", "7,5", "7.5.1", "nan", "1e1", "9" * 400 + ".5"])
def test_an_invalid_retry_after_is_ignored(header: str) -> None:
    refused = trouble.ModelHTTPError.for_category(
        trouble.ModelRateLimitError, status_code=429, model_name="m", headers={"retry-after": header}
    )
    assert ask(refused, "hello")[1] == 1.0


def test_without_retry_after_waits_double_up_to_a_bound() -> None:
    _, took_s, _ = ask(*[rate_limited(None)] * 5, "hello", attempts=6, max_wait_s=5.0)
    assert took_s == 1 + 2 + 4 + 5 + 5


def test_a_wait_above_the_bound_is_not_retried() -> None:
    found = ask_in_vain(rate_limited(3600))
    assert (found.code, found.requests) == ("rate_limited", 1)
    assert "a wait of 3600 s" in str(found)


def test_a_model_is_given_up_after_its_attempts() -> None:
    found = ask_in_vain(*[trouble.ModelConnectionError("m", "refused")] * 3, attempts=3)
    assert (found.code, found.requests, len(found.waits)) == ("unreachable", 3, 2)
    assert str(found) == "openai:first: the provider is unreachable, or the connection broke; tried 3 times"


def test_a_request_that_hangs_is_cut_off() -> None:
    async def main() -> float:
        with pytest.raises(ModelUnavailable) as caught:
            await model_request(access(Hanging(), attempts=2, timeout_s=30).models[0], request("hello"))
        assert caught.value.code == "timeout"
        assert "no answer in time (30 s)" in str(caught.value)
        return asyncio.get_running_loop().time()

    assert loop.run(main()) == 30 + 1 + 30


def test_a_cancellation_is_not_retried() -> None:
    hanging = Hanging()

    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(model_request(access(hanging).models[0], request("hello")), 3)
        return asyncio.get_running_loop().time()

    assert (loop.run(main()), hanging.requests) == (3.0, 1)


# -- error texts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (http(401, "bad key", trouble.ModelAuthenticationError), "unauthorized"),
        (http(402, "pay", trouble.ModelQuotaExceededError), "quota"),
        (http(404, "what?", trouble.ModelNotFoundError), "unknown_model"),
        (http(400, "too many tokens", trouble.ModelContextWindowExceededError), "too_long"),
        (http(400, "no such parameter", trouble.ModelRequestRejectedError), "rejected"),
        (trouble.ContentFilterError("no"), "filtered"),
    ],
)
def test_permanent_errors_are_not_retried(error: Exception, code: str) -> None:
    found = ask_in_vain(error)
    assert (found.code, found.requests) == (code, 1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (http(500, "oops", trouble.ModelServerError), "server_error"),
        (http(503, "busy", trouble.ModelUnavailableError), "overloaded"),
        (trouble.ModelTimeoutError("m", "slow"), "timeout"),
        (trouble.UnexpectedModelBehavior("empty body"), "bad_answer"),
        (ValueError("a client's own bug"), "bad_answer"),
    ],
)
def test_transient_errors_are_retried(error: Exception, code: str) -> None:
    response, took_s, _ = ask(error, "hello")
    assert (response.text, took_s) == ("hello", 1.0)
    assert ask_in_vain(error, attempts=1).code == code


def test_a_providers_message_is_shown_where_it_helps() -> None:
    assert str(ask_in_vain(http(404, "there is no m", trouble.ModelNotFoundError))) == (
        "openai:first: the provider has no such model (HTTP 404): there is no m"
    )
    long = ask_in_vain(http(400, "x" * 10_000, trouble.ModelRequestRejectedError))
    assert len(str(long)) < 500


# -- over the provider's own client --------------------------------------------------------------------


def over_http(handler: Any, **choice: Any) -> PatientModel:
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    chosen = ModelChoice(model="openai:gpt-4o", **{"attempts": 1, **choice})
    wrapped = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url="http://model.test/v1", api_key=KEY, http_client=client))
    return PatientModel(wrapped, "openai:gpt-4o", chosen, Secrets([KEY]))


def completion(text: str = "hello") -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }


def test_an_answer_has_its_tokens_and_its_price() -> None:
    response = asyncio.run(model_request(over_http(lambda _: httpx2.Response(200, json=completion())), request("hello")))
    usage = usage_of("openai:gpt-4o", response)
    assert (usage.model, usage.requests, usage.input_tokens, usage.output_tokens) == ("openai:gpt-4o", 1, 1000, 100)
    assert 0 < usage.cost_usd < 0.1


@pytest.mark.parametrize("usage", [{}, {"usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}])
def test_uncounted_tokens_are_estimated_so_that_limits_hold(usage: dict[str, Any]) -> None:
    body = {name: it for name, it in completion("x" * 400).items() if name != "usage"} | usage
    model = over_http(lambda _: httpx2.Response(200, json=body))
    used = usage_of("openai:gpt-4o", asyncio.run(model_request(model, request("y" * 2000))))
    assert (used.input_tokens, used.output_tokens) == (500, 100)


def test_a_model_without_a_known_price_costs_nothing() -> None:
    body = {**completion(), "model": "home-made"}
    response = asyncio.run(model_request(over_http(lambda _: httpx2.Response(200, json=body)), request("hello")))
    assert usage_of("openai:home-made", response).cost_usd == 0.0


def test_the_client_does_not_retry_by_itself() -> None:
    seen = []

    def handler(it: httpx2.Request) -> httpx2.Response:
        seen.append(it)
        return httpx2.Response(500, json={"error": {"message": "oops"}})

    with pytest.raises(ModelUnavailable):
        asyncio.run(model_request(over_http(handler), request("hello")))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (
            httpx2.Response(401, json={"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}),
            "unauthorized",
        ),
        (httpx2.Response(400, json={"error": {"message": f"never say {KEY} nor sk-other-9999999"}}), "rejected"),
        (httpx2.Response(500, json={"error": {"message": f"{KEY} crashed"}}), "server_error"),
        (httpx2.Response(429, headers={"retry-after": "1"}, json={"error": {"message": KEY}}), "rate_limited"),
        (httpx2.Response(200, content=b"{nope"), "bad_answer"),
        (httpx2.Response(200, content=b""), "bad_answer"),
        (httpx2.Response(200, json={}), "bad_answer"),
    ],
)
def test_no_key_is_in_an_error_its_repr_its_traceback_or_the_log(
    response: httpx2.Response, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = over_http(lambda _: response)
    with caplog.at_level(logging.DEBUG), pytest.raises(ModelUnavailable) as caught:
        asyncio.run(model_request(model, request("hello")))
    assert caught.value.code == code
    told = [str(caught.value), repr(caught.value), repr(model), *caught.value.waits, caplog.text]
    told += traceback.format_exception(caught.value, chain=not caught.value.__suppress_context__)
    assert "hush" not in "".join(told)
    assert "sk-other" not in str(caught.value)


def test_a_dropped_connection_is_reported_as_unreachable() -> None:
    def handler(it: httpx2.Request) -> httpx2.Response:
        raise httpx2.RemoteProtocolError("peer closed", request=it)

    with pytest.raises(ModelUnavailable) as caught:
        asyncio.run(model_request(over_http(handler), request("hello")))
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_the_url_of_a_model_is_used_as_written_and_a_redirect_from_it_is_not_followed(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, KEY)
    asked: list[str] = []
    port = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).split()[1].decode())
        place = f"Location: http://127.0.0.1:{port}/secret"
        writer.write(f"HTTP/1.1 307 Temporary Redirect\r\n{place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async def main() -> None:
        nonlocal port
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with open_model(ModelChoice(model=f"{provider}:m", base_url=f"http://127.0.0.1:{port}", attempts=1)) as found:
                with pytest.raises(ModelUnavailable):
                    await model_request(found.models[0], request("hello"))

    asyncio.run(main())
    assert asked
    assert "/secret" not in asked


# -- opening -------------------------------------------------------------------------------------------


def opened(**choice: Any) -> list[str]:
    async def main() -> list[str]:
        async with open_model(ModelChoice(**choice)) as found:
            assert "hush" not in repr(found.models) + repr(found.choice) + repr(found.secrets)
            return [f"{type(model.wrapped).__name__} {model.wrapped.base_url}" for model in found.models]

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, KEY)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL", "GEMINI_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("openai:gpt-4o", "OpenAIChatModel http://model.test/v1/"),
        ("anthropic:claude-sonnet-4-5", "AnthropicModel http://model.test/v1/"),
        ("google:gemini-2.5-pro", "GoogleModel http://model.test/v1"),
        ("ollama:qwen3:8b", "OllamaModel http://model.test/v1/"),
    ],
)
def test_each_provider_is_found_at_the_base_url(named: str, found: str) -> None:
    assert [it.rstrip("/") for it in opened(model=named, base_url="http://model.test/v1")] == [found.rstrip("/")]


def test_ollama_is_local_by_default() -> None:
    assert opened(model="ollama:qwen3") == ["OllamaModel http://localhost:11434/v1/"]


def test_a_backup_may_be_of_another_provider() -> None:
    found = opened(
        model="openai:gpt-4o", backup="anthropic:claude-sonnet-4-5", base_url="http://a.test/v1", backup_base_url="http://b.test"
    )
    assert [it.rstrip("/") for it in found] == ["OpenAIChatModel http://a.test/v1", "AnthropicModel http://b.test"]


def test_a_placeholder_key_hides_nothing() -> None:
    assert Secrets(["any", "", KEY]).hide(f"train any cnn with {KEY}") == "train any cnn with [key]"


def test_a_key_that_begins_with_another_key_is_hidden_completely() -> None:
    assert Secrets(["sk-hush-1", "sk-hush-1-more"]).hide("it is sk-hush-1-more") == "it is [key]"


def test_an_invalid_proxy_is_reported_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "nonsense://user:hush@proxy.test")
    with pytest.raises(InvalidInput, match="HTTP_PROXY") as caught:
        opened(model="anthropic:x")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("named", "variable"), [("openai:x", "OPENAI_API_KEY"), ("anthropic:x", "ANTHROPIC_API_KEY"), ("google:x", "GOOGLE_API_KEY")]
)
def test_a_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, named: str, variable: str) -> None:
    monkeypatch.delenv(variable)
    with pytest.raises(InvalidInput, match=variable):
        opened(model=named)


def test_an_agent_of_the_library_has_the_backup_as_fallback() -> None:
    first, backup = FakeModel(http(401, "no", trouble.ModelAuthenticationError)), FakeModel("from the backup")
    response = asyncio.run(model_request(access(first, backup).model, request("hello")))
    assert response.text == "from the backup"
