"""The scripted model, read by the real client libraries of the providers it stands for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from asterism.testing.model_wire import ModelRequest, Say
from asterism.testing.scripted_model import DROP, HANG, Fault, ModelAnswer, ScriptedModel

KEY = "sk-never-to-be-kept"
WIRES = ("chat", "responses", "messages")
LONG = "observe, think, act; " * 40


class Verdict(BaseModel):
    word: str
    sure: bool


@asynccontextmanager
async def client(wire: str, model: ScriptedModel) -> AsyncIterator[Model]:
    """The real client for a wire, which does not try again by itself."""
    if wire == "messages":
        async with AsyncAnthropic(base_url=model.anthropic_url, api_key=KEY, max_retries=0) as anthropic:
            yield AnthropicModel("claude-test", provider=AnthropicProvider(anthropic_client=anthropic))
        return
    async with AsyncOpenAI(base_url=model.openai_url, api_key=KEY, max_retries=0) as openai:
        kind = OpenAIChatModel if wire == "chat" else OpenAIResponsesModel
        yield kind("gpt-4o", provider=OpenAIProvider(openai_client=openai))


def served(
    wire: str, script: list[ModelAnswer] | Callable[[ModelRequest], ModelAnswer], use: Callable[[Model], Coroutine[Any, Any, Any]]
) -> tuple[Any, list[ModelRequest]]:
    """What a client makes of a script, and what the model was asked."""

    async def story() -> Any:
        async with ScriptedModel(script) as model, client(wire, model) as it:
            return await use(it), model.requests

    answer: tuple[Any, list[ModelRequest]] = asyncio.run(story())
    return answer


async def ask(model: Model) -> str:
    return (await Agent(model, instructions="Be brief.").run("How much is two and two?", model_settings={"request_timeout": 5})).output


@pytest.mark.parametrize("wire", WIRES)
def test_it_says_what_the_script_says_and_remembers_what_it_was_asked(wire: str) -> None:
    answer, requests = served(wire, ["four"], ask)
    assert answer == "four"
    (request,) = requests
    assert (request.number, request.wire, request.streams) == (1, wire, False)
    assert request.model in ("gpt-4o", "claude-test")
    assert request.messages == ["Be brief.", "How much is two and two?"]
    assert KEY not in json.dumps(request.body)


@pytest.mark.parametrize("wire", WIRES)
def test_a_structured_answer_comes_in_the_form_the_client_insists_on(wire: str) -> None:
    async def judge(model: Model) -> Any:
        return (await Agent(model, output_type=Verdict).run("judge")).output

    answer, requests = served(wire, [{"word": "yes", "sure": True}], judge)
    assert answer == Verdict(word="yes", sure=True)
    assert requests[0].forced_tool == requests[0].tools[0]


@pytest.mark.parametrize("wire", WIRES)
def test_where_no_tool_is_forced_a_structured_answer_is_json_text(wire: str) -> None:
    answer, requests = served(wire, [{"word": "yes", "sure": True}], ask)
    assert json.loads(answer) == {"word": "yes", "sure": True}
    assert not requests[0].forced_tool


@pytest.mark.parametrize("wire", WIRES)
def test_the_tokens_it_says_it_used_arrive_whole_and_streamed(wire: str) -> None:
    async def both(model: Model) -> list[Any]:
        whole = await Agent(model).run("go")
        async with Agent(model).run_stream("go") as stream:
            text = await stream.get_output()
            streamed = stream.usage
        return [(it.input_tokens, it.output_tokens) for it in (whole.usage, streamed)] + [text]

    said = Say(text=LONG, input_tokens=1234, output_tokens=56)
    answer, requests = served(wire, [said, said], both)
    assert answer == [(1234, 56), (1234, 56), LONG]
    assert [request.streams for request in requests] == [False, True]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_it_calls_tools_and_hears_what_they_returned(wire: str, *, streams: bool) -> None:
    async def listen(_: Any, events: AsyncIterable[Any]) -> None:
        async for _event in events:
            pass

    async def use(model: Model) -> str:
        agent = Agent(model)

        @agent.tool_plain
        def weigh(what: str) -> str:
            return f"{what}: 7 kg"

        return (await agent.run("go", event_stream_handler=listen if streams else None)).output

    def script(request: ModelRequest) -> ModelAnswer:
        if request.number == 1:
            return Say(text="I weigh both", calls=(("weigh", {"what": "stone"}), ("weigh", {"what": "feather"})))
        return f"heard {[what in request.text for what in ('stone: 7 kg', 'feather: 7 kg')]}"

    answer, requests = served(wire, script, use)
    assert answer == "heard [True, True]"
    assert [request.streams for request in requests] == [streams, streams]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (Fault(status=500), ModelServerError),
        (Fault(status=401), ModelAuthenticationError),
        (Fault(status=429, headers={"retry-after": "7"}), ModelRateLimitError),
        (Fault(status=200, body=b""), (ModelAPIError, UnexpectedModelBehavior)),
        (Fault(status=200, body=b'{"id": "x", "choi'), (ModelAPIError, UnexpectedModelBehavior)),
        (Fault(status=200, body=b"<html>"), (ModelAPIError, UnexpectedModelBehavior)),
        (DROP, ModelConnectionError),
        (Say(text=LONG, drop_at=0.5), ModelConnectionError),
    ],
    ids=["500", "401", "429", "empty body", "truncated JSON", "rubbish", "drop", "drop within"],
)
def test_its_faults_are_what_the_clients_take_them_for(
    wire: str, answer: ModelAnswer, raised: type[Exception] | tuple[type[Exception], ...]
) -> None:
    with pytest.raises(raised) as told:
        served(wire, [answer], ask)
    if isinstance(told.value, ModelRateLimitError):
        assert told.value.retry_after == 7


@pytest.mark.parametrize("wire", WIRES)
def test_it_drops_a_stream_in_its_midst(wire: str) -> None:
    heard: list[str] = []

    async def listen(model: Model) -> None:
        async with Agent(model).run_stream("go") as stream:
            async for piece in stream.stream_text(delta=True, debounce_by=None):
                heard.append(piece)  # noqa: PERF401 - what came before the drop is kept

    with pytest.raises(ModelAPIError):
        served(wire, [Say(text=LONG, drop_at=0.6)], listen)
    assert heard
    assert LONG.startswith("".join(heard))


@pytest.mark.parametrize("wire", WIRES)
def test_it_hangs_until_the_client_gives_up_and_ends_with_its_context_all_the_same(wire: str) -> None:
    async def impatient(model: Model) -> None:
        with pytest.raises(ModelRequestTimeout):
            await Agent(model).run("go", model_settings={"request_timeout": 1.0})

    assert len(served(wire, [HANG], impatient)[1]) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_that_was_cut_off_says_so(wire: str) -> None:
    async def reason(model: Model) -> Any:
        result = await Agent(model).run("go")
        return result.response.finish_reason

    assert served(wire, [Say(text="to be contin", cut_off=True)], reason)[0] == "length"


def test_a_script_may_wait_for_what_the_test_waits_for() -> None:
    async def story() -> None:
        asked, told = asyncio.Event(), asyncio.Event()

        async def script(request: ModelRequest) -> ModelAnswer:
            asked.set()
            await told.wait()
            return "at last"

        async with ScriptedModel(script) as model, client("chat", model) as it, asyncio.TaskGroup() as group:
            answer = group.create_task(ask(it))
            await asked.wait()
            assert not answer.done()
            told.set()
            assert await answer == "at last"

    asyncio.run(story())


def test_a_request_past_the_end_of_the_script_is_refused_for_good() -> None:
    with pytest.raises(ModelAPIError, match="the script has no answer to request 1"):
        served("chat", [], ask)


def test_a_script_that_raises_ends_the_context_with_its_error() -> None:
    def script(request: ModelRequest) -> ModelAnswer:
        raise KeyError(request.number)

    with pytest.raises(ExceptionGroup) as told:
        served("chat", script, ask)
    assert told.group_contains(KeyError)


def test_a_connection_is_kept_for_the_next_request_and_strangers_are_told_what_there_is() -> None:
    async def story() -> None:
        async with ScriptedModel(["one", "two"]) as model, httpx2.AsyncClient(base_url=model.anthropic_url) as http:
            lost = await http.post("/v1/embeddings", json={})
            assert (lost.status_code, "/v1/responses" in lost.text) == (404, True)
            assert (await http.post("/v1/messages", content=b"[]")).status_code == 400
            texts = [(await http.post("/v1/messages", json={"messages": []})).json()["content"][0]["text"] for _ in range(2)]
            assert texts == ["one", "two"]
            assert len(model.requests) == 2

    asyncio.run(story())
