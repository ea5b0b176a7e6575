"""Fake models for tests: they reply from a list, and record their requests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from asterism.constellation.planner.model import ModelAccess, PatientModel, Secrets
from asterism.constellation.planner.model_choice import ModelChoice

Answer = str | dict[str, Any] | Exception | ModelResponse
"""Text, a JSON object, an error to raise, or a whole response."""


class FakeModel:
    """A model that replies in order, with 100 input and 20 output tokens each time.

    Attributes:
        asked: the messages of each request.
        offered: the names of the tools it could call.
        keys: the idempotency key of each request.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[list[ModelMessage]] = []
        self.offered: list[list[str]] = []
        self.keys: list[str] = []

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append(list(messages))
        self.offered.append([tool.name for tool in info.function_tools])
        self.keys.append((info.model_settings or {}).get("extra_headers", {}).get("Idempotency-Key", ""))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ModelResponse):
            return answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return ModelResponse(parts=[TextPart(text)], usage=RequestUsage(input_tokens=100, output_tokens=20))

    def text(self, request: int = -1) -> str:
        """Return the text of a request, oldest message first."""
        return "\n".join(_content(part) for message in self.asked[request] for part in message.parts)

    def last(self, request: int = -1) -> str:
        """Return the last text of a request."""
        return _content(self.asked[request][-1].parts[-1])


def _content(part: Any) -> str:
    return str(getattr(part, "content", part))


def access(*models: FakeModel, keys: Iterable[str] = (), **choice: Any) -> ModelAccess:
    """Return access to a model and its backups, in this order."""
    names = ["openai:first", "openai:backup"][: len(models)]
    chosen = ModelChoice(model=names[0], backup=names[1] if len(models) > 1 else "", **choice)
    secrets = Secrets(list(keys))
    patient = [PatientModel(FunctionModel(model), name, chosen, secrets) for model, name in zip(models, names, strict=True)]
    return ModelAccess(patient, chosen, secrets)


def request(text: str) -> list[ModelMessage]:
    """One question in words."""
    return [ModelRequest.user_text_prompt(text)]
