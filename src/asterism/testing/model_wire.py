"""Requests and replies of a model in the three wire formats of ``ScriptedModel``.

- ``chat``: OpenAI's chat completions, also the format of every "OpenAI-compatible" server;
- ``responses``: OpenAI's responses;
- ``messages``: Anthropic's messages.

Each format has a whole reply, a stream of server-sent events, and an error. They follow the providers' public
references; the real client libraries parse them in ``tests/unit/testing/test_scripted_model.py``.
Not here: sockets, scripts, faults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

WireName = Literal["chat", "responses", "messages"]
PIECES = 20
"""Approximate number of pieces of a streamed reply."""


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a model.

    Attributes:
        text: text of the reply, valid or not.
        calls: tool calls as (name, arguments); arguments given as a string are sent unchanged, JSON or not.
        input_tokens, output_tokens: reported usage.
        cut_off: True if the reply stopped at its token limit.
        after_s: seconds until the reply; ``math.inf`` to wait until the client gives up.
        drop_at: fraction of the reply after which the connection is closed, 0 for at once; None for never.
    """

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any] | str], ...] = ()
    input_tokens: int = 100
    output_tokens: int = 20
    cut_off: bool = False
    after_s: float = 0.0
    drop_at: float | None = None


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One received request. Headers are not stored, because they contain the key.

    Attributes:
        number: number of the request, from 1.
        wire: wire format.
        body: the JSON object that was sent.
    """

    number: int
    wire: WireName
    body: dict[str, Any]

    @property
    def model(self) -> str:
        """Return the name of the requested model."""
        return str(self.body.get("model", ""))

    @property
    def streams(self) -> bool:
        """Return True if a stream was requested."""
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> list[str]:
        """Return the text of each message, oldest first, the system prompt in front."""
        said = [self.body.get(name) for name in ("system", "instructions")]
        listed = self.body.get("input" if self.wire == "responses" else "messages", [])
        said += listed if isinstance(listed, list) else [listed]
        return ["\n".join(_texts(message)) for message in said if message]

    @property
    def text(self) -> str:
        """Return the text of all messages."""
        return "\n".join(self.messages)

    @property
    def tools(self) -> list[str]:
        """Return the names of the offered tools."""
        return [str(tool.get("function", tool).get("name", "")) for tool in self.body.get("tools") or []]

    @property
    def forced_tool(self) -> str:
        """Return the tool that must be called (the first if any will do); empty if text is allowed."""
        choice = self.body.get("tool_choice") or "auto"
        if isinstance(choice, str):
            return self.tools[0] if choice == "required" and self.tools else ""
        named = str(choice.get("function", choice).get("name", ""))
        return named or (self.tools[0] if choice.get("type") in ("any", "allowed_tools") and self.tools else "")


def _texts(value: Any) -> list[str]:
    """Return the texts within a part of a prompt, in any of the formats."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    if isinstance(value, dict):
        return [text for name in ("content", "text", "output", "arguments") for text in _texts(value.get(name))]
    return []


def _json(value: dict[str, Any] | str) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pieces(text: str) -> Iterator[str]:
    step = max(8, len(text) // PIECES)
    return (text[start : start + step] for start in range(0, len(text), step))


def _event(data: dict[str, Any], name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


# -- OpenAI, chat completions ----------------------------------------------------------------------


def _chat_calls(request: ModelRequest, say: Say) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{request.number}_{at}", "type": "function", "function": {"name": name, "arguments": _json(arguments)}}
        for at, (name, arguments) in enumerate(say.calls)
    ]


def _chat_usage(say: Say) -> dict[str, int]:
    return {
        "prompt_tokens": say.input_tokens,
        "completion_tokens": say.output_tokens,
        "total_tokens": say.input_tokens + say.output_tokens,
    }


def _chat_reason(say: Say) -> str:
    return "length" if say.cut_off else "tool_calls" if say.calls else "stop"


def _chat(request: ModelRequest, say: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
    if say.calls:
        message["tool_calls"] = _chat_calls(request, say)
    return {
        "id": f"chatcmpl-{request.number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": _chat_reason(say), "logprobs": None}],
        "usage": _chat_usage(say),
    }


def _chat_stream(request: ModelRequest, say: Say) -> Iterator[bytes]:
    base = {"id": f"chatcmpl-{request.number}", "object": "chat.completion.chunk", "created": 0, "model": request.model}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(say.text):
        yield chunk({"content": piece})
    for at, call in enumerate(_chat_calls(request, say)):
        yield chunk({"tool_calls": [{**call, "index": at, "function": {"name": call["function"]["name"], "arguments": ""}}]})
        for piece in _pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield chunk({}, _chat_reason(say))
    if (request.body.get("stream_options") or {}).get("include_usage"):
        yield _event({**base, "choices": [], "usage": _chat_usage(say)})
    yield b"data: [DONE]\n\n"


# -- OpenAI, responses -----------------------------------------------------------------------------


def _responses_items(request: ModelRequest, say: Say) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if say.text or not say.calls:
        part = {"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}
        items.append({"type": "message", "id": f"msg_{request.number}", "role": "assistant", "status": "completed", "content": [part]})
    for at, (name, arguments) in enumerate(say.calls):
        ids = {"id": f"fc_{request.number}_{at}", "call_id": f"call_{request.number}_{at}"}
        items.append({"type": "function_call", **ids, "name": name, "arguments": _json(arguments), "status": "completed"})
    return items


def _responses(request: ModelRequest, say: Say) -> dict[str, Any]:
    return {
        "id": f"resp_{request.number}",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if say.cut_off else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if say.cut_off else None,
        "error": None,
        "model": request.model,
        "output": _responses_items(request, say),
        "parallel_tool_calls": True,
        "tool_choice": request.body.get("tool_choice", "auto"),
        "tools": [],
        "usage": {
            "input_tokens": say.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": say.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": say.input_tokens + say.output_tokens,
        },
    }


def _responses_stream(request: ModelRequest, say: Say) -> Iterator[bytes]:
    whole = _responses(request, say)
    started = {**whole, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    written = 0

    def event(kind: str, **data: Any) -> bytes:
        nonlocal written
        written += 1
        return _event({"type": kind, "sequence_number": written - 1, **data}, kind)

    yield event("response.created", response=started)
    yield event("response.in_progress", response=started)
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        if item["type"] == "message":
            part = item["content"][0]
            yield event("response.output_item.added", output_index=at, item={**item, "status": "in_progress", "content": []})
            yield event("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
            for piece in _pieces(part["text"]):
                yield event("response.output_text.delta", **place, content_index=0, delta=piece, logprobs=[])
            yield event("response.output_text.done", **place, content_index=0, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **place, content_index=0, part=part)
        else:
            yield event("response.output_item.added", output_index=at, item={**item, "status": "in_progress", "arguments": ""})
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            yield event("response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"])
        yield event("response.output_item.done", output_index=at, item=item)
    yield event("response.incomplete" if say.cut_off else "response.completed", response=whole)


# -- Anthropic, messages ---------------------------------------------------------------------------


def _messages(request: ModelRequest, say: Say) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text or not say.calls else []
    for at, (name, arguments) in enumerate(say.calls):
        inputs = arguments if isinstance(arguments, dict) else {"raw": arguments}  # this format has no arguments as text
        content.append({"type": "tool_use", "id": f"toolu_{request.number}_{at}", "name": name, "input": inputs})
    return {
        "id": f"msg_{request.number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": "max_tokens" if say.cut_off else "tool_use" if say.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": say.input_tokens, "output_tokens": say.output_tokens},
    }


def _messages_stream(request: ModelRequest, say: Say) -> Iterator[bytes]:
    whole = _messages(request, say)

    def event(kind: str, **data: Any) -> bytes:
        return _event({"type": kind, **data}, kind)

    started = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield event("message_start", message=started)
    for at, block in enumerate(whole["content"]):
        if block["type"] == "text":
            yield event("content_block_start", index=at, content_block={"type": "text", "text": ""})
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        else:
            yield event("content_block_start", index=at, content_block={**block, "input": {}})
            arguments = _json(say.calls[at - (len(whole["content"]) - len(say.calls))][1])
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(arguments)]
        for delta in deltas:
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={"output_tokens": say.output_tokens})
    yield event("message_stop")


# -- all three -------------------------------------------------------------------------------------

_WHOLE = {"chat": _chat, "responses": _responses, "messages": _messages}
_STREAM = {"chat": _chat_stream, "responses": _responses_stream, "messages": _messages_stream}


def whole_reply(request: ModelRequest, say: Say) -> bytes:
    """Return the body of a whole reply."""
    return json.dumps(_WHOLE[request.wire](request, say), ensure_ascii=False).encode(errors="backslashreplace")  # escapes lone surrogates


def streamed_reply(request: ModelRequest, say: Say) -> list[bytes]:
    """Return a reply as a list of server-sent events."""
    return list(_STREAM[request.wire](request, say))


def error_reply(wire: WireName, status: int, message: str) -> bytes:
    """Return the body of an error in the format of the provider."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    error = {"type": kinds.get(status, "api_error"), "message": message}
    document: dict[str, Any] = (
        {"type": "error", "error": error} if wire == "messages" else {"error": {**error, "param": None, "code": None}}
    )
    return json.dumps(document).encode()
