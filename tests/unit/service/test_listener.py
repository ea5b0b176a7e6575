"""The socket of a server."""

from __future__ import annotations

import contextlib
import resource
import socket

import pytest

from asterism.service import listener
from asterism.service.listener import listening_socket


def test_the_body_of_a_response_does_not_wait_until_its_head_is_acknowledged() -> None:
    with contextlib.closing(listening_socket("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(("files", "connections"), [(64, 16), (200, 72), (1024, 512)])
def test_connections_leave_most_files_to_the_workers_where_there_are_few(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int
) -> None:
    """H6: with 64 open files, 60 idle connections left none for the workers."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert listener._most_connections() == connections
