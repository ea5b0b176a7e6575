"""Addresses: hosts that nobody named must not be private, at the moment of the connection."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import httpx2
import pytest

from asterism.devices.kinds.addresses import Addresses, ForbiddenAddress, is_private, pinned


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 - not bound to
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::1",
    ],
)
def test_an_address_inside_a_network_is_private(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"])
def test_an_address_of_the_internet_is_not_private(address: str) -> None:
    assert not is_private(address)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Addresses by name, instead of those of the DNS; each question takes the first one."""
    known: dict[str, list[str]] = {}

    async def resolve(self: object, host: str, port: int, **_: Any) -> list[Any]:
        found = known[host]
        address = found.pop(0) if len(found) > 1 else found[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    return known


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_a_request_goes_to_the_address_that_was_checked(names: dict[str, list[str]], library: Any) -> None:
    names["agent.example"] = ["93.184.216.34", "127.0.0.1"]

    async def scenario() -> None:
        request = library.Request("POST", "https://agent.example:8443/rpc?a=1", content=b"x")
        sent = await pinned(request, Addresses.of(["elsewhere.example"]))
        assert str(sent.url) == "https://93.184.216.34:8443/rpc?a=1"
        assert sent.headers["host"] == "agent.example:8443"
        assert sent.extensions["sni_hostname"] == "agent.example"
        with pytest.raises(ForbiddenAddress, match=r"agent\.example has the address 127\.0\.0\.1"):
            await pinned(request, Addresses.of(["elsewhere.example"]))

    asyncio.run(scenario())


def test_allow_private_permits_any_address(names: dict[str, list[str]]) -> None:
    names["agent.example"] = ["10.0.0.1"]
    assert asyncio.run(Addresses.of([], allow_private=True).permitted("agent.example", 80)) == "10.0.0.1"


@pytest.mark.parametrize("host", ["Agent.Example", "agent.example.", "AGENT.example"])
def test_a_host_is_named_in_any_spelling(host: str) -> None:
    assert Addresses.of(["agent.example"]).names(host)
    assert not Addresses.of(["agent.example"]).names(f"evil.{host}")
