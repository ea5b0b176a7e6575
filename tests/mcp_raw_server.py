"""An MCP server for tests that breaks the protocol: ``python tests/mcp_raw_server.py BEHAVIOR``.

It speaks 2025-06-18 and has the tool ``act``. A call of it writes the bytes of the behavior in place
of an answer; ``deaf`` also ignores SIGTERM and the end of its input, and ``silent`` answers nothing
after the list of tools.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

BEHAVIOR = sys.argv[1]
VISITS: list[str] = []
HUGE = 100 * 1024 * 1024


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def endless() -> None:
    sys.stdout.write('{"jsonrpc": "2.0", "result": "')
    for _ in range(HUGE // 65536):
        sys.stdout.write("x" * 65536)
    sys.stdout.flush()


def noise() -> None:
    sys.stdout.write("Starting up…\n1234\n[]\n")
    sys.stdout.flush()


def act(request: int) -> None:
    text = {"content": [{"type": "text", "text": "done"}]}
    if BEHAVIOR == "invalid":
        print("{oops", flush=True)
    elif BEHAVIOR == "endless":
        endless()
    elif BEHAVIOR == "closed":
        os.close(1)
    elif BEHAVIOR == "shapeless":
        send(id=request, result={"content": 3})
    elif BEHAVIOR == "wrong":
        send(id=request, result={"content": [], "structuredContent": {"n": "three"}})
    elif BEHAVIOR == "pattern":
        send(id=request, result={"content": [], "structuredContent": {"n": "a" * 40 + "!"}})
    elif BEHAVIOR == "noise":
        noise()
        send(id=request, result=text)
    elif BEHAVIOR == "visit" and not VISITS:
        link = {"mode": "url", "message": "Sign in.", "url": "https://example.org/sign-in", "elicitationId": "one"}
        VISITS.append(link["url"])
        send(id=request, error={"code": -32042, "message": "sign in first", "data": {"elicitations": [link]}})
    elif BEHAVIOR == "visit":
        send(id=request, result=text)
    elif BEHAVIOR == "foreign":
        for answered in (request + 7, request, request):
            send(id=answered, result=text)


def main() -> None:
    if BEHAVIOR == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    slow = {"type": "object", "properties": {"n": {"type": "string", "pattern": "^(a+)+$"}}}
    output = (
        {"outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}} if BEHAVIOR == "wrong" else {}
    )
    if BEHAVIOR == "pattern":
        output = {"outputSchema": slow, "inputSchema": slow}
    listed = False
    for line in sys.stdin:
        message = json.loads(line)
        method, request = message.get("method"), message.get("id")
        if request is None or (listed and BEHAVIOR == "silent"):
            continue
        if method == "initialize":
            version = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
            send(id=request, result=version)
        elif method == "tools/list":
            send(id=request, result={"tools": [{"name": "act", "inputSchema": {"type": "object"}, **output}]})
            listed = True
        elif method == "tools/call":
            act(request)
        elif method == "ping":
            send(id=request, result={})
        else:
            send(id=request, error={"code": -32601, "message": "no such method"})
    while BEHAVIOR == "deaf":
        time.sleep(60)


if __name__ == "__main__":
    main()
