"""The production planner over a scripted model, without a socket: prompts, client, retries, parsing and editor are the real ones.

The replies of a ``ScriptedModel`` reach the providers' clients in virtual time, so a world with this planner is reproducible too.
Needs the ``llm`` extra. Not here: the replies themselves, which are a script of yours.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import httpx2
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from asterism.constellation.planner.model import ModelAccess, PatientModel, Secrets
from asterism.constellation.planner.model_choice import ModelChoice, split_model
from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal
from asterism.constellation.planner.processor import ConstellationAgentProcessor
from asterism.testing.scripted_model import KEY, Answering, HttpReply, ScriptedModel

HOST = "http://model.invalid"
MAX_SHOWN = 1_000
"""Characters shown of a text that contains the key."""


class PipelinePlanner:
    """``Planner`` with the four real phases and a scripted model.

    Args:
        script: replies of the model and of its backup, which is the same service.
        choice: wire format (``openai`` or ``anthropic``), timeouts and retries.

    Attributes:
        failures: planning errors that no reply may cause, and texts that contain the key.
    """

    def __init__(self, script: Answering, choice: ModelChoice) -> None:
        self.script = script
        self.choice = choice
        self.failures: list[str] = []
        client = httpx2.AsyncClient(transport=_Transport(ScriptedModel(script)))
        secrets = Secrets([KEY])
        names = [name for name in (choice.model, choice.backup) if name]
        models = [PatientModel(_open_model(name, client), name, choice, secrets) for name in names]
        self._processor = ConstellationAgentProcessor(ModelAccess(models, choice, secrets))

    async def propose(self, question: PlannerRequest) -> Proposal:
        """See ``Planner``."""
        try:
            proposal = await self._processor.propose(question)
        except PlanningUnavailable as unavailable:
            if unavailable.code == "broken":
                self.failures.append(str(unavailable))
            self._look_for_key(str(unavailable), *unavailable.notes)
            raise
        self._look_for_key(repr(proposal))
        return proposal

    def _look_for_key(self, *texts: str) -> None:
        self.failures += [f"the key is shown: {text[:MAX_SHOWN]}" for text in texts if KEY in text]


def _open_model(named: str, client: httpx2.AsyncClient) -> Model:
    provider, name = split_model(named)
    if provider == "anthropic":
        return AnthropicModel(name, provider=AnthropicProvider(base_url=HOST, api_key=KEY, http_client=client))
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{HOST}/v1", api_key=KEY, http_client=client))


class _Transport(httpx2.AsyncBaseTransport):
    """Carries a request to the model and its reply back, after the delay of the reply."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = await self._model.reply(request.url.path, await request.aread())
        if reply.after_s == math.inf:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(reply.after_s)
        if reply.drop_at == 0:
            raise httpx2.RemoteProtocolError("simulated: the connection was closed before the reply", request=request)
        return httpx2.Response(reply.status, headers=reply.head, stream=_Sent(reply, request), request=request)


class _Sent(httpx2.AsyncByteStream):
    """The body of a reply, up to the point where it is dropped."""

    def __init__(self, reply: HttpReply, request: httpx2.Request) -> None:
        self._reply = reply
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        drop_at = self._reply.drop_at
        left = math.inf if drop_at is None else int(sum(map(len, self._reply.parts)) * drop_at)
        for part in self._reply.parts:
            yield part[: int(min(left, len(part)))]
            left -= len(part)
            if left < 0:
                raise httpx2.ReadError("simulated: the connection was closed within the reply", request=self._request)
