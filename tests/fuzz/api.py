"""Send requests made from the OpenAPI that the server states: each answer must be one that it documents.

``python -m tests.fuzz.api SECONDS [FIRST_SEED]`` does so until the time is over, or an answer is another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import hypothesis
import msgspec
import schemathesis
from hypothesis.errors import Unsatisfiable
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from asterism.constellation.model.documents import parse_plan
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent
from tests.support.api_server import ASKS, DEVICE, Server, serving

SHARED = msgspec.structs.replace(DEVICE, fleet="shop")
EXAMPLES = 10
"""Requests for each operation in a round."""


class Taxi(StandardAgent):
    to: str = InputField("Where to?")
    pin: str = InputField("PIN?", secret=True)

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, "It comes.")


class Served:
    """A server in a thread of its own; schemathesis asks from this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self.url = self.token = ""
        self.ids: dict[str, str] = {}

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def renew(self) -> None:
        """Make new runs, schedules and tokens: requests have ended those before."""
        assert self._loop
        assert self._server
        asyncio.run_coroutine_threadsafe(self._prepare(self._server), self._loop).result(60)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with serving(self._folder, agents={"Taxi": Taxi}, fleet=(SHARED,)) as server:
            self._server = server
            self.url, self.token = server.url, await server.token("admin")
            for rate in (server.context.limits.submissions, server.context.limits.logins):
                rate._limit = 10**9  # the limits are tested elsewhere
            await self._prepare(server)
            self._ready.set()
            await self._stop.wait()

    async def _prepare(self, server: Server) -> None:
        http = await server.client("admin")
        run_id = (await server.runtime.start(parse_plan(ASKS))).run_id
        token = (await http.post("/api/tokens", json={"name": f"t{server.runtime.clock.new_id()}", "roles": ["viewer"]})).json()
        talk = (await http.post("/api/conversations", json={"agent": "Taxi"})).json()
        await http.delete("/api/schedules/nightly")
        made = await http.post("/api/schedules", json={"name": "nightly", "cron": "0 2 * * *", "request": "tidy up"})
        assert made.status_code == 201, made.text
        inquiry_id = await server.waiting(run_id)
        self.ids = {
            "run_id": run_id,
            "inquiry_id": inquiry_id,
            "token_id": token["id"],
            "name": "nightly",
            "device_id": "d",
            "talk": talk["run_id"],
        }


OF_HTTP = {"connection", "content-length", "expect", "transfer-encoding", "upgrade"}
"""Headers that the HTTP library reads: it refuses wrong ones with a text, before any of our code."""


def ask_all(served: Served, operations: Sequence[Any], *, examples: int = EXAMPLES, seed: int | None = None) -> None:
    """Send requests of each operation, and check each answer."""
    served.renew()
    modes = schemathesis.GenerationMode
    for operation in operations:
        if not operation.path.endswith("/stream"):  # it does not end
            _ask(served, operation, modes.POSITIVE, examples, seed)
            _ask(served, operation, modes.NEGATIVE, examples // 3 + 1, seed)


def operations_of(served: Served) -> list[Any]:
    """Return the operations that the server states."""
    schema = schemathesis.openapi.from_url(f"{served.url}/api/openapi.json", headers=served.headers)
    found: list[Any] = list(schema.get_all_operations())
    return [it.ok() for it in found]


def _ask(served: Served, operation: Any, mode: schemathesis.GenerationMode, examples: int, seed: int | None) -> None:
    ids = {**served.ids, **({"run_id": served.ids["talk"]} if "/conversations/" in operation.path else {})}

    def ask(case: Any) -> None:
        for name in [it for it in case.headers or {} if it.lower() in OF_HTTP]:
            del case.headers[name]
        path = case.meta.components.get(ParameterLocation.PATH)
        if path is None or not path.mode.is_negative:
            for name in (case.path_parameters or {}).keys() & ids:
                case.path_parameters[name] = ids[name]
        body = case.meta.components.get(ParameterLocation.BODY)
        excluded = [positive_data_acceptance]  # a plan may fit the schema and still be impossible on these devices
        if body is None or not body.mode.is_negative:
            excluded.append(negative_data_rejection)  # a text in a URL has no type: "0.0" is a whole number, too
        case.call_and_validate(headers=served.headers, timeout=60, excluded_checks=excluded)

    how: Any = hypothesis.settings(
        max_examples=examples, deadline=None, derandomize=seed is None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    given: Any = hypothesis.given
    asked = given(operation.as_strategy(generation_mode=mode))(ask)
    seeded: Any = hypothesis.seed
    with contextlib.suppress(Unsatisfiable):  # this operation has nothing that can be wrong
        how(asked if seed is None else seeded(seed)(asked))()


def search(seconds: float, first: int) -> int:
    """Ask in rounds until the time is over; return the number of rounds."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as served:
        operations = operations_of(served)
        for seed in itertools.count(first):
            try:
                ask_all(served, operations, seed=seed)
            except BaseException:
                print(f"seed {seed}; again with: python -m tests.fuzz.api 0 {seed}", flush=True)
                raise
            if time.monotonic() >= end:
                return seed - first + 1
    raise AssertionError


if __name__ == "__main__":
    started = int(sys.argv[2]) if sys.argv[2:] else int(time.time())
    print(f"{search(float(sys.argv[1]), started)} rounds from seed {started} on, and nothing found")
