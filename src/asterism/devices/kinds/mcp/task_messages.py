"""Messages of the extension ``io.modelcontextprotocol/tasks``.

The SDK has the mechanism of extensions, and not the types of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import mcp_types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import ConfigDict, Field

MAX_ID_CHARS = 1024


class CreatedTask(mcp_types.Result):
    """The result of a call that has become a task."""

    model_config = ConfigDict(populate_by_name=True)
    result_type: Literal["task"] = Field("task", alias="resultType")
    task_id: str = Field(alias="taskId", min_length=1, max_length=MAX_ID_CHARS, pattern="^[!-~]+$")
    poll_interval_ms: float | None = Field(None, alias="pollIntervalMs")


class ServerTask(mcp_types.Result):
    """A task as it is now."""

    model_config = ConfigDict(populate_by_name=True)
    task_id: str = Field(alias="taskId")
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = Field(None, alias="statusMessage")
    poll_interval_ms: float | None = Field(None, alias="pollIntervalMs")
    input_requests: dict[str, dict[str, Any]] = Field(default_factory=dict, alias="inputRequests")
    result: dict[str, Any] = Field(default_factory=dict)
    error: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """True if nothing of it runs any more."""
        return self.status in ("completed", "failed", "cancelled")


class TaskParams(mcp_types.RequestParams):
    """The task that a request is about."""

    model_config = ConfigDict(populate_by_name=True)
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    """Responses to the questions of a task."""

    input_responses: dict[str, dict[str, Any]] = Field(alias="inputResponses")


class TaskQuery(mcp_types.Request[TaskParams, Literal["tasks/get"]]):
    """Asks for a task as it is now."""

    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class TaskReply(mcp_types.Request[UpdateParams, Literal["tasks/update"]]):
    """Answers questions of a task."""

    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateParams
    name_param = "taskId"


class TaskCancel(mcp_types.Request[TaskParams, Literal["tasks/cancel"]]):
    """Asks the server to end a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class TasksExtension(ClientExtension):
    """Declares to a server that a call may become a task."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=_unresolved)]


async def _unresolved(_task: CreatedTask, _context: ClaimContext) -> mcp_types.CallToolResult:
    raise NotImplementedError  # calls are made with ``allow_claimed``
