"""The conversation with models about one question: attempts, backup and usage.

Needs the ``llm`` extra.

A model may correct an unusable reply a bounded number of times; then the backup is asked from the
beginning; then planning is unavailable. The caller decides whether a reply is usable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, TextPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from asterism.constellation.planner.excerpt import cut
from asterism.constellation.planner.model import ModelAccess, ModelUnavailable, PatientModel, usage_of
from asterism.constellation.planner.port import PlanningUnavailable
from asterism.engine.control.usage import Usage

MAX_ECHO = 20_000
"""Maximum characters of a refused reply that the model sees again."""
MAX_READS = 20
"""Maximum calls of ``read_tasks`` before a reply."""
MAX_PROBLEM = 2_000
"""Maximum characters of the reason for which a reply is refused."""
MAX_NOTES = 50

Page = Callable[[int], str]
"""Function of an offset that returns the tasks from there on, as text."""

_READ_TASKS = ToolDefinition(
    name="read_tasks",
    description="The tasks of the constellation from a place on, one a line, and where the next page begins.",
    parameters_json_schema={
        "type": "object",
        "properties": {"offset": {"type": "integer", "minimum": 0, "description": "How many tasks to leave out at the beginning."}},
        "additionalProperties": False,
    },
)


class ModelConversation:
    """One question to a model and, if necessary, to its backup.

    Args:
        access: the models to ask.
        key: the question's idempotency key. Each request sends it with a number, so that a provider
            can recognize a repeated one.
        budget: the tokens and cost that the question may use; None for no limit.

    Attributes:
        usage: the usage so far.
        notes: the problems so far, as sentences.
        prompt: the user prompt without keys; empty before ``begin``.
    """

    def __init__(self, access: ModelAccess, key: str, budget: Usage | None = None) -> None:
        self.usage = Usage()
        self.notes: list[str] = []
        self.prompt = ""
        self._access = access
        self._key = key
        self._budget = budget
        self._at = 0
        self._asked = 0
        self._reads = 0
        self._left = access.choice.reprompts
        self._page: Page | None = None
        self._opening: list[ModelMessage] = []
        self._messages: list[ModelMessage] = []
        self._failed: list[str] = []

    def begin(self, system: str, user: str, page: Page | None = None) -> None:
        """Set the prompt; ``page`` reads more of the constellation than it shows, if there is more."""
        hide = self._access.secrets.hide
        self.prompt = hide(user)
        self._opening = [ModelRequest(parts=[SystemPromptPart(hide(system)), UserPromptPart(self.prompt)])]
        self._messages = list(self._opening)
        self._page = page

    async def reply(self) -> str:
        """Return the text of the next reply.

        Raises:
            PlanningUnavailable: no model replies, or the budget is exhausted.
        """
        for _ in self._access.models:
            try:
                return await self._reply(self._model)
            except ModelUnavailable as unavailable:
                self.usage = self.usage.plus(Usage(model=self._model.name, requests=unavailable.requests))
                self.note(*unavailable.waits)
                self._give_up_on_model(str(unavailable), unavailable.code)
        raise AssertionError("giving up on the last model raises")

    def refuse(self, why: str, code: str, example: str) -> None:
        """Report to the model that its last reply is unusable.

        Raises:
            PlanningUnavailable: the model and its backup have used all their corrections.
        """
        problem = cut(self._access.secrets.hide(why), MAX_PROBLEM)
        if not self._left:
            self._give_up_on_model(f"{self._model.name}: no usable reply in {self._access.choice.reprompts + 1} attempts: {problem}", code)
            return
        self._left -= 1
        self.note(f"{self._model.name}: reply refused: {problem}")
        words = f"Your reply cannot be used, and nothing was done: {problem}\n\nReply again, with one JSON object, such as:\n{example}"
        self._messages.append(ModelRequest(parts=[UserPromptPart(words)]))

    def unavailable(self, why: str, code: str) -> PlanningUnavailable:
        """Return the error for planning that is unavailable, with the usage and notes so far."""
        return PlanningUnavailable(self._access.secrets.hide(why), code, self.usage, tuple(self.notes))

    def note(self, *notes: str) -> None:
        """Add notes, up to ``MAX_NOTES``."""
        self.notes = [*self.notes, *notes][:MAX_NOTES]

    # -- one reply ---------------------------------------------------------------------------------

    @property
    def _model(self) -> PatientModel:
        return self._access.models[self._at]

    async def _reply(self, model: PatientModel) -> str:
        parameters = ModelRequestParameters(function_tools=[_READ_TASKS] if self._page else [])
        for _ in range(MAX_READS + 1):
            self._check_budget()
            self._asked += 1
            settings = ModelSettings(extra_headers={"Idempotency-Key": f"{self._key}/{self._asked}"})
            response = await model_request(model, self._messages, model_settings=settings, model_request_parameters=parameters)
            self.usage = self.usage.plus(usage_of(model.name, response))
            self.note(*(response.metadata or {}).get("waits", ()))
            if not response.tool_calls or not self._page:
                text = self._access.secrets.hide(response.text or "")
                self._messages.append(ModelResponse(parts=[TextPart(cut(text, MAX_ECHO) or "(nothing)")]))
                return text
            self._messages += [response, ModelRequest(parts=self._read(response, self._page))]
        raise ModelUnavailable(f"{model.name}: it read tasks {MAX_READS} times without replying", "bad_answer")

    def _read(self, response: ModelResponse, page: Page) -> Sequence[ToolReturnPart]:
        parts = []
        for call in response.tool_calls:
            arguments: object = call.args_as_dict()  # under python -O any JSON, since only an assertion requires an object
            offset = arguments.get("offset", 0) if isinstance(arguments, dict) else 0
            self._reads += 1
            content = page(offset) if isinstance(offset, int) else "offset is a number"
            if self._reads > MAX_READS:
                content = "you have read enough; reply now"
            if call.tool_name != _READ_TASKS.name:
                content = f"there is no tool {call.tool_name!r} to call; write edits into your reply"
            content = self._access.secrets.hide(content)
            parts.append(ToolReturnPart(tool_name=call.tool_name, content=content, tool_call_id=call.tool_call_id))
        return parts

    def _check_budget(self) -> None:
        budget = self._budget
        if budget and (self.usage.tokens >= budget.tokens or self.usage.cost_usd >= budget.cost_usd):
            used = f"{self.usage.tokens} tokens and {self.usage.cost_usd:.4f} USD"
            raise self.unavailable(f"the budget is exhausted: this question has used {used}", "budget")

    def _give_up_on_model(self, why: str, code: str) -> None:
        self._failed.append(why)
        self._at += 1
        if self._at == len(self._access.models):
            raise self.unavailable("; ".join(self._failed), code)
        self.note(why, f"asking {self._model.name} instead")
        self._left = self._access.choice.reprompts
        self._messages = list(self._opening)
