"""The kind ``a2a``: agents that speak A2A 1.0 or 0.3, by their cards.

The SDK is an extra, and is imported when such a device is opened.
"""

from __future__ import annotations

import contextlib
import string
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from asterism.devices.fleet.fleet_file import DeviceEntry, DeviceKind, FleetContext
from asterism.devices.kinds.remote import SENT_FILE_BYTES
from asterism.devices.model.references import with_secrets
from asterism.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from asterism.devices.kinds.a2a.device import A2aDevice


class A2aEntry(DeviceEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of kind ``a2a``.

    Attributes:
        url: address of the agent, or of its card if it ends in ``.json``.
        headers: headers of each request. ``$NAME`` in a value is an environment variable; ``$$`` is
            a dollar.
        bearer: environment variable with a bearer token, as ``$NAME``.
        certificate: PEM file of the client's certificate, relative to the fleet file.
        key: PEM file of its key, if it is not in the same file.
        authority: PEM file of the authorities that may have issued the certificate of the agent.
        card_key: public key, a PEM or JWK file, that must have signed the card.
        hosts: other hosts that may have private addresses, and that receive the credentials.
        allow_private: True if any other host may have a private address.
        grace_s: seconds that an attempt waits for an agent which cannot be reached.
    """

    url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    bearer: Annotated[str, Meta(pattern=r"^(\$[A-Za-z_][A-Za-z0-9_]*)?$")] = ""
    certificate: str = ""
    key: str = ""
    authority: str = ""
    card_key: str = ""
    hosts: tuple[str, ...] = ()
    allow_private: bool = False
    grace_s: Annotated[float, Meta(ge=0, le=86400)] = 60.0


@contextlib.asynccontextmanager
async def _open(entry: A2aEntry, context: FleetContext) -> AsyncIterator[A2aDevice]:
    try:
        from asterism.devices.kinds.a2a.client import verifier  # noqa: PLC0415 - slow, and an extra
        from asterism.devices.kinds.a2a.device import A2aConnection, A2aDevice  # noqa: PLC0415 - as above
        from asterism.devices.kinds.a2a.http import tls_of  # noqa: PLC0415 - as above
        from asterism.devices.kinds.addresses import Addresses  # noqa: PLC0415 - as above
    except ImportError as error:
        raise MissingExtra("a2a", f"device {entry.id} of kind a2a") from error
    host = _host(entry.url)
    for name, value in entry.headers.items():
        if not string.Template(with_secrets(value, lambda _: "")).is_valid():
            raise InvalidInput(f"headers.{name}: write $NAME for a variable and $$ for a dollar sign")
    if entry.key and not entry.certificate:
        raise InvalidInput("key: set certificate, too")
    files = {
        key: context.folder / name if (name := getattr(entry, key)) else None for key in ("authority", "certificate", "key", "card_key")
    }
    for key, file in files.items():
        if file and not file.is_file():
            raise InvalidInput(f"{key}: there is no file {file}")
    try:
        tls = tls_of(files["authority"], files["certificate"], files["key"])
    except OSError as error:
        raise InvalidInput(f"certificate, key or authority: cannot be used: {error}") from error
    try:
        verify = verifier(files["card_key"]) if files["card_key"] else None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"card_key: {error}") from error
    addresses = Addresses.of((host, *entry.hosts), allow_private=entry.allow_private)
    headers = {**entry.headers, **({"Authorization": f"Bearer {entry.bearer}"} if entry.bearer else {})}
    connection = A2aConnection(entry.url, addresses, headers, tls, verify)
    try:
        device = A2aDevice(
            entry.profile(natural_language=True, reattach=True, grace_s=entry.grace_s, file_bytes=SENT_FILE_BYTES), connection
        )
        await device.reach()
        yield device
    finally:
        await connection.close()


A2A = DeviceKind(A2aEntry, _open, is_remote=True)
"""The device kind ``a2a``."""


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"url: {error}") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise InvalidInput(f"url: {url!r} is not an address; write https://host or https://host/path")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("url: contains a user or password; put credentials into bearer or headers, as $NAME")
    return host
