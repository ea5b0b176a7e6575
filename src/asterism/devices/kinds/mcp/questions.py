"""Questions of MCP servers (elicitation) as questions of a device, and the replies to them.

The state of a question has everything that the next leg needs, so that another process can continue.
"""

from __future__ import annotations

import hashlib
from typing import Any

import mcp_types
import msgspec

from asterism.devices.port import DeviceQuestion, DeviceReply
from asterism.engine.kernel.data import one_line
from asterism.errors import InvalidInput

MAX_PROMPT_CHARS = 2000
MAX_URL_CHARS = 2000
MAX_STATE_BYTES = 64 * 1024
MAX_LEGS = 20
"""Questions of one attempt, and requests without a question in one leg."""


class LegState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of an attempt between two legs.

    Attributes:
        requests: requests of the server, by the names that it gave them.
        responses: the responses to them so far.
        request_state: state of the server, to be sent back as it is.
        held: True if the server holds the call open until it gets the response.
        answers: all responses of this attempt, oldest first, each with the digest of its request.
        task: id of the task that the call has become; then ``responses`` are all that it was sent.
    """

    requests: dict[str, dict[str, Any]] = {}
    responses: dict[str, dict[str, Any]] = {}
    request_state: str | None = None
    held: bool = False
    answers: tuple[tuple[str, dict[str, Any]], ...] = ()
    task: str = ""

    def pending(self) -> str | None:
        """Return the name of the first request without a response; None if all have one."""
        return next((name for name in self.requests if name not in self.responses), None)

    def replied(self, reply: DeviceReply) -> LegState:
        """Return the state with a person's reply to the pending request.

        Raises:
            InvalidInput: there is no pending request, or the answer is not an object of simple values.
        """
        name = self.pending()
        if name is None:
            raise InvalidInput("there is no question for this answer")
        request = self.requests[name]
        response = _response(request, reply)
        return msgspec.structs.replace(
            self, responses={**self.responses, name: response}, answers=(*self.answers, (digest_of(request), response))
        )

    def question(self) -> DeviceQuestion:
        """Return the question for the pending request.

        Raises:
            InvalidInput: the server asks for something else than a form or a visit to a URL, or for too much.
        """
        name = self.pending()
        if name is None:
            raise InvalidInput("the server asks for input and does not say what")
        state = msgspec.to_builtins(self)
        if len(msgspec.json.encode(state)) > MAX_STATE_BYTES:
            raise InvalidInput(f"the state of its question has more than {MAX_STATE_BYTES:,} bytes")
        if self.requests[name].get("method") != "elicitation/create":
            raise InvalidInput(f"the server asks for {one_line(str(self.requests[name].get('method')), 80)}, which a device cannot give")
        params = self.requests[name].get("params", {})
        prompt = one_line(str(params.get("message", "")), MAX_PROMPT_CHARS)
        if params.get("mode") == "url":
            url = str(params.get("url", ""))
            if len(url) > MAX_URL_CHARS or not url.isprintable() or not url.startswith(("https://", "http://")):
                raise InvalidInput("the server asks for a visit to an address that is no URL")
            return DeviceQuestion(
                prompt=f"{prompt} Open this link and approve when it is done: {url}", verbs=("approve", "reject"), state=state
            )
        schema = params.get("requestedSchema", {})
        if not schema.get("properties"):
            return DeviceQuestion(prompt=prompt, verbs=("approve", "reject"), state=state)
        return DeviceQuestion(prompt=prompt, schema=schema, state=state)


def digest_of(request: dict[str, Any]) -> str:
    """Return a digest by which the same request is found again."""
    params = {name: value for name, value in request.get("params", {}).items() if name not in ("_meta", "elicitationId")}
    return hashlib.sha256(msgspec.json.encode([request.get("method"), params], order="sorted")).hexdigest()


def url_requests(data: Any) -> dict[str, dict[str, Any]]:
    """Return the visits that a server of an older protocol requires before a call, as requests.

    Raises:
        InvalidInput: the error of the server names none.
    """
    try:
        required = mcp_types.ElicitationRequiredErrorData.model_validate(data).elicitations
    except ValueError:
        raise InvalidInput("the server asks for visits to links and names none") from None
    return {str(index): {"method": "elicitation/create", "params": on_the_wire(each)} for index, each in enumerate(required)}


def on_the_wire(model: Any) -> dict[str, Any]:
    """Return a message of the SDK as JSON."""
    found: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def response_of(sent: dict[str, Any]) -> mcp_types.ElicitResult:
    """Return a recorded response as the SDK has it."""
    return mcp_types.ElicitResult.model_validate(sent)


def _response(request: dict[str, Any], reply: DeviceReply) -> dict[str, Any]:
    if reply.verb == "reject":
        return {"action": "decline"}
    if request.get("params", {}).get("mode") == "url":
        return {"action": "accept"}
    value = {} if reply.verb == "approve" and reply.value is None else reply.value
    try:
        return on_the_wire(mcp_types.ElicitResult(action="accept", content=value))
    except ValueError:
        raise InvalidInput("the answer is not an object whose values are texts, numbers, booleans or lists of texts") from None
