"""The floor of a server: a bare Starlette application that appends one row for each request, and sends rows to streams.

A row is durable before its request is answered, with group commit, as in ``floors``. It checks no token and no plan,
and drives nothing. ``python -m benchmarks.bare_server PORT DATABASE`` serves it.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from benchmarks.floors import Row, write_all

DELTA = b"id: %d\nevent: delta\ndata: %s\n\n"


class BareServer:
    """The application, and its table."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._rows: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._streams: set[asyncio.Queue[bytes]] = set()
        self._writer: threading.Thread | None = None
        routes = [
            Route("/append", self.append, methods=["POST"]),
            Route("/deltas/{count:int}", self.send_deltas, methods=["POST"]),
            Route("/stream", self.stream),
        ]
        self.app = Starlette(routes=routes)

    async def append(self, request: Request) -> Response:
        """Append the body of a request."""
        await self._append((await request.body()).decode())
        return JSONResponse({"accepted": True}, 201)

    async def send_deltas(self, request: Request) -> Response:
        """Append so many rows, one after the other, and send each to all streams once it is durable."""
        text = (await request.body()).decode()
        for number in range(request.path_params["count"]):
            await self._append(text)
            for stream in self._streams:
                stream.put_nowait(DELTA % (number, text.encode()))
        return JSONResponse({"accepted": True}, 201)

    async def stream(self, _: Request) -> Response:
        """Follow the rows."""

        async def deltas() -> AsyncIterator[bytes]:
            mine: asyncio.Queue[bytes] = asyncio.Queue()
            self._streams.add(mine)
            try:
                yield b": \n\n"
                while True:
                    parts = [await mine.get()]
                    while not mine.empty():
                        parts.append(mine.get_nowait())
                    yield b"".join(parts)
            finally:
                self._streams.discard(mine)

        return StreamingResponse(deltas(), media_type="text/event-stream")

    async def _append(self, text: str) -> None:
        loop = asyncio.get_running_loop()
        if self._writer is None:
            self._writer = threading.Thread(target=write_all, args=(self._database, self._rows, loop), daemon=True)
            self._writer.start()
        written: asyncio.Future[None] = loop.create_future()
        self._rows.put(((str(next(self._numbers)), text), written))
        await written


if __name__ == "__main__":
    uvicorn.run(BareServer(Path(sys.argv[2])).app, port=int(sys.argv[1]), log_level="error", access_log=False)
