"""Send a message to a channel: by Apprise, or as a webhook signed by Standard Webhooks."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from asterism.devices.model.references import with_secrets
from asterism.engine.ports.notices import Channel
from asterism.engine.runtime.task_group import DAEMON_THREADS
from asterism.errors import AsterismError, InvalidInput, MissingExtra
from asterism.service.notifications.message import SENDING_S, NoticeMessage

if TYPE_CHECKING:
    from apprise import Apprise
    from standardwebhooks import Webhook

KEY_BYTES = 24
"""Bytes of the shortest key, by the specification of Standard Webhooks."""

SecretValue = Callable[[str], str]
"""Returns the value of a secret by its name. Raises InvalidInput if there is none."""


def check_channel(channel: Channel, secret: SecretValue) -> None:
    """Check that a channel can be used.

    Raises:
        InvalidInput: its URL is of no known service, a secret is missing, or its key is invalid.
        MissingExtra: the libraries are not installed.
    """
    if channel.signing_key:
        _webhook(channel, secret)
    else:
        _service(channel, secret)


async def send(channel: Channel, message: NoticeMessage, secret: SecretValue, now: float) -> str:
    """Send a message at an epoch second.

    Returns:
        An empty text, or why it could not be sent; without the URL, which may be secret.
    """
    try:
        async with asyncio.timeout(SENDING_S):
            return await (_post(channel, message, secret, now) if channel.signing_key else _notify(channel, message, secret))
    except TimeoutError:
        return f"no answer within {SENDING_S:.0f} s"
    except AsterismError as error:
        return str(error)
    except Exception as error:  # boundary: whatever a library makes of a receiver, the server goes on
        return f"{type(error).__name__}: it cannot be sent"


async def _notify(channel: Channel, message: NoticeMessage, secret: SecretValue) -> str:
    service = _service(channel, secret)
    text = f"{message.text}\n{message.link}" if message.link else message.text
    call = functools.partial(service.notify, title=message.title, body=text, body_format="text")
    done = await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, call)  # its own pool would outlive our timeout
    return "" if done else "the service refused it, or cannot be reached"


def _service(channel: Channel, secret: SecretValue) -> Apprise:
    try:
        from apprise import Apprise, AppriseAsset  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("notify", f"channel {channel.name}") from error
    service = Apprise(asset=AppriseAsset(service_timeout=0))  # ours holds; its own would need threads that outlive the process
    if not service.add(with_secrets(channel.url, secret)):
        scheme = channel.url.partition(":")[0] if ":" in channel.url else "no scheme"
        raise InvalidInput(
            f"channel {channel.name}: Apprise knows no such URL ({scheme}); see its list of services, or give a signing_key for a webhook"
        )
    return service


async def _post(channel: Channel, message: NoticeMessage, secret: SecretValue, now: float) -> str:
    webhook, url = _webhook(channel, secret)
    import httpx2  # noqa: PLC0415 - an extra, which _webhook has found

    body = msgspec.json.encode(message).decode()
    headers = {
        "content-type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": webhook.sign(message.id, dt.datetime.fromtimestamp(now, tz=dt.UTC), body),
    }
    try:
        # The body of the answer is not read: it may be of any size, also when it is unpacked.
        async with (
            httpx2.AsyncClient(follow_redirects=False, timeout=SENDING_S) as client,
            client.stream("POST", url, content=body, headers=headers) as answer,
        ):
            return "" if answer.is_success else f"it answered with status {answer.status_code}"
    except httpx2.HTTPError as error:
        return f"{type(error).__name__}: it cannot be reached"


def _webhook(channel: Channel, secret: SecretValue) -> tuple[Webhook, str]:
    try:
        import httpx2  # noqa: PLC0415 - an extra
        from standardwebhooks import Webhook  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("notify", f"channel {channel.name}") from error
    url = with_secrets(channel.url, secret)
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"channel {channel.name}: a webhook's URL begins with https:// or http://")
    try:
        host = httpx2.URL(url).host
    except httpx2.InvalidURL:
        host = ""
    if not host:
        raise InvalidInput(f"channel {channel.name}: its URL is invalid; look for a space, a line break or a port that is no number")
    key = with_secrets(channel.signing_key, secret)
    try:
        size = len(base64.b64decode(key.removeprefix("whsec_"), validate=True))
    except ValueError:
        size = 0
    if size < KEY_BYTES:
        raise InvalidInput(f"channel {channel.name}: signing_key is no key; write whsec_ and the base64 of at least {KEY_BYTES} bytes")
    return Webhook(key), url
