"""One leg of an attempt at an MCP tool: a call, until it ends or asks something that a person has to answer."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types
from mcp import MCPError

from asterism.devices.kinds.mcp.calls import HeldCalls, McpConnection, OpenCall
from asterism.devices.kinds.mcp.questions import MAX_LEGS, LegState, on_the_wire, url_requests
from asterism.devices.kinds.mcp.task_messages import CreatedTask
from asterism.devices.port import Attempt, AttemptResult, Signs
from asterism.engine.kernel.data import one_line
from asterism.engine.kernel.profile import Skill
from asterism.errors import InvalidInput

_MAX_REASON = 300

Ended = mcp_types.CallToolResult | CreatedTask | BaseException
"""The end of a call: its result, the task that it has become, the error of the server, or the reason why there is no connection."""


class Leg:
    """One leg of an attempt.

    Args:
        attempt: the attempt.
        skill: its skill.
        connection: connection to the server.
        signs: receives the progress of the leg.
        state: state between the legs, with the reply that begins this one.
        held: the calls that servers hold open between two legs.
    """

    def __init__(
        self, attempt: Attempt, skill: Skill, connection: McpConnection, signs: Signs, *, state: LegState, held: HeldCalls
    ) -> None:
        self._attempt = attempt
        self._skill = skill
        self._connection = connection
        self._signs = signs
        self._state = state
        self._held = held
        self._replay: list[tuple[str, dict[str, Any]]] = []

    async def run(self) -> AttemptResult | Ended:
        """Carry out the leg; return its question or error, or else the end of the call.

        Raises:
            InvalidInput: the server asks for what a device cannot give.
        """
        call = None
        if self._state.held:
            call = self._held.take(self._attempt.key)
            if call is not None:
                call.signs = self._signs
                call.answer(self._state.answers[-1][1])
            elif not self._start_over():
                return AttemptResult.failed("interrupted", "the server that held the call open for the answer is gone")
        for _ in range(MAX_LEGS):
            call = call or self._call()
            request = await self._until_asked_or_ended(call)
            if request is not None:
                self._state = LegState(requests={"": request}, held=True, answers=self._state.answers)
                return self._hold(call)
            ended = self._held.outcome(self._attempt.key, call)
            if isinstance(ended, mcp_types.InputRequiredResult):
                requests = {name: on_the_wire(request) for name, request in (ended.input_requests or {}).items()}
                self._ask(requests, ended.request_state, call)
            elif isinstance(ended, MCPError) and ended.code == mcp_types.URL_ELICITATION_REQUIRED:
                self._ask(url_requests(ended.error.data), None, call)
            elif isinstance(ended, MCPError) and ended.code == mcp_types.INVALID_PARAMS and self._state.request_state is not None:
                # Another server, which does not know the key of the state; or it has expired.
                if not self._start_over():
                    why = one_line(ended.message, _MAX_REASON)
                    return AttemptResult.failed("interrupted", f"the server does not accept the state of its question: {why}")
            else:
                return ended
            call = None
            if self._state.pending() is not None:
                return self._question()
        return AttemptResult.failed("raised", f"the server has asked for input {MAX_LEGS} times")

    def _call(self) -> OpenCall:
        return self._connection.call(
            self._attempt.skill,
            self._attempt.arguments,
            self._attempt.key,
            signs=self._signs,
            responses=self._state.responses if self._connection.is_modern else {},
            request_state=self._state.request_state,
            replay=self._replay,
        )

    async def _until_asked_or_ended(self, call: OpenCall) -> dict[str, Any] | None:
        try:
            return await call.until_asked_or_ended()
        except asyncio.CancelledError:
            self._held.cancel(self._attempt.key, call)
            raise

    def _start_over(self) -> bool:
        """Begin a call that may be repeated again, with the recorded answers; return False for any other."""
        self._replay = list(self._state.answers)
        self._state = LegState(answers=self._state.answers)
        return self._skill.idempotent

    def _ask(self, requests: dict[str, dict[str, Any]], request_state: str | None, call: OpenCall) -> None:
        """Note what the server asks for, with the responses that are recorded."""
        responses = {name: found for name, request in requests.items() if (found := call.recorded(request)) is not None}
        self._state = LegState(requests=requests, responses=responses, request_state=request_state, answers=self._state.answers)

    def _hold(self, call: OpenCall) -> AttemptResult:
        """Return the question of a call that its server holds open."""
        try:
            end = self._question()
        except InvalidInput:
            self._held.cancel(self._attempt.key, call)
            raise
        if end.question is None:
            self._held.cancel(self._attempt.key, call)
        else:
            self._held.keep(self._attempt.key, call)
        return end

    def _question(self) -> AttemptResult:
        if self._attempt.leg >= MAX_LEGS:
            return AttemptResult.failed("raised", f"the server has asked {MAX_LEGS} questions")
        return AttemptResult(question=self._state.question())
