"""Addresses that a device may connect to.

A host that the fleet file names is used as written. A host that comes from elsewhere (an agent's
card, a redirect, a link) must not be private, link-local or loopback, unless ``allow_private`` says
so. The check is made on the address that is connected to, so a name that resolves to another
address a moment later changes nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

import msgspec

NAT64 = ipaddress.ip_network("64:ff9b::/96")


class ForbiddenAddress(Exception):
    """A host that nobody named has a private address, or none."""


class Addresses(msgspec.Struct, frozen=True):
    """The hosts that a connection may use.

    Attributes:
        named: hosts that the fleet file, the settings or the command line names, in lower case.
        allow_private: True if any other host may have a private address.
    """

    named: frozenset[str] = frozenset()
    allow_private: bool = False

    @classmethod
    def of(cls, hosts: Iterable[str], *, allow_private: bool = False) -> Addresses:
        """Return the rule for hosts as they are written."""
        return cls(frozenset(host.lower().strip("[]").rstrip(".") for host in hosts), allow_private)

    def names(self, host: str) -> bool:
        """Return whether the host is named, and so is used as written."""
        return host.lower().strip("[]").rstrip(".") in self.named

    async def permitted(self, host: str, port: int) -> str:
        """Resolve a host that is not named, and return the address to connect to.

        Raises:
            ForbiddenAddress: every address of the host is private.
            OSError: the host has no address.
        """
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        for address in addresses:
            if self.allow_private or not is_private(address):
                return address
        where = f"{host} has the address {addresses[0]}" if addresses and addresses[0] != host else host
        raise ForbiddenAddress(f"{where}, which is private; name the host in the fleet file, or set allow_private")


def is_private(address: str) -> bool:
    """Return whether an IP address is anything but a public one: private, loopback, link-local, reserved or multicast."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if ip in NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner:
            return is_private(str(inner))
    return not ip.is_global or ip.is_multicast


async def pinned(request: Any, addresses: Addresses) -> Any:
    """Return an HTTP request to a host that is not named, with its permitted address in place of the host.

    Certificates are still checked for the host. A pool must not keep the connection: it knows the
    connection by its address, and would use it for another host with the same address.

    Args:
        request: a ``Request`` of httpx or httpx2.
        addresses: the rule.

    Raises:
        ForbiddenAddress: as ``Addresses.permitted``.
        OSError: as ``Addresses.permitted``.
    """
    url = request.url
    address = await addresses.permitted(url.host, url.port or (443 if url.scheme == "https" else 80))
    return type(request)(
        request.method,
        url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": url.host},
    )
