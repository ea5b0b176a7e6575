"""The socket of a server."""

from __future__ import annotations

import contextlib
import socket

from asterism.servers.listener import listening_socket


def test_the_body_of_a_response_does_not_wait_until_its_head_is_acknowledged() -> None:
    with contextlib.closing(listening_socket("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
