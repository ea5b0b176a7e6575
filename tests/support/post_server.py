"""A local HTTP server that remembers the requests it gets, for what sends them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class PostServer:
    """The server.

    Attributes:
        received: path, headers with names in lower case, and body of each request.
        status: what it answers with.
        length: bytes that its answer announces; it sends none.
        delay_s: seconds after which it answers.
        port: where it listens.
    """

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        self.length = 0
        self.delay_s = 0.0
        place = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(length := int(self.headers["content-length"]))
                if len(body) < length:  # its sender was killed
                    return
                place.received.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                time.sleep(place.delay_s)
                with contextlib.suppress(OSError):  # the sender may be gone
                    self.answer()

            def answer(self) -> None:
                self.send_response(place.status)
                self.send_header("location", "http://127.0.0.1:1/elsewhere")
                self.send_header("content-length", str(place.length))
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]


@contextlib.contextmanager
def post_server() -> Iterator[PostServer]:
    """Serve until the end of the block."""
    it = PostServer()
    thread = threading.Thread(target=it.server.serve_forever)
    thread.start()
    try:
        yield it
    finally:
        it.server.shutdown()
        thread.join()
        it.server.server_close()
