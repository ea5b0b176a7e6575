"""Models for tests of whatever asks one: they answer from a list, and keep what they were asked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from asterism.planner.model import ModelAccess, PatientModel, Secrets
from asterism.planner.model_choice import ModelChoice

Answer = str | dict[str, Any] | Exception | ModelResponse
"""Text, a JSON object, an error that is raised, or a whole response."""


class Told:
    """A model that answers in order, 100 tokens in and 20 out each time.

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
        """All that was said in a request, oldest first."""
        return "\n".join(_content(part) for message in self.asked[request] for part in message.parts)

    def last(self, request: int = -1) -> str:
        """What was said last in a request."""
        return _content(self.asked[request][-1].parts[-1])


def _content(part: Any) -> str:
    return str(getattr(part, "content", part))


def access(*models: Told, keys: Iterable[str] = (), **choice: Any) -> ModelAccess:
    """The first is the model, the second its backup."""
    names = ["openai:first", "openai:backup"][: len(models)]
    chosen = ModelChoice(model=names[0], backup=names[1] if len(models) > 1 else "", **choice)
    secrets = Secrets(list(keys))
    patient = [PatientModel(FunctionModel(model), name, chosen, secrets) for model, name in zip(models, names, strict=True)]
    return ModelAccess(patient, chosen, secrets)


def request(text: str) -> list[ModelMessage]:
    """One question in words."""
    return [ModelRequest.user_text_prompt(text)]
