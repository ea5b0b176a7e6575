"""Hooks: what other systems post becomes events. Each is verified in the way in which its sender can sign."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from asterism.devices.model.references import with_secrets
from asterism.engine.ports.events import Hook
from asterism.errors import InvalidInput

TOLERANCE_S = 300.0
"""Seconds between the time in a signature of Standard Webhooks and ours."""
KEY_BYTES = 24
"""Bytes of the shortest key, by the specification of Standard Webhooks."""

_EPOCH_SECOND = re.compile("[0-9]{1,12}")


def with_keys(hooks: Iterable[Hook], secret: Callable[[str], str]) -> dict[str, Hook]:
    """Return hooks by name, with the values of their keys.

    Raises:
        InvalidInput: a secret is missing, or a key is invalid.
    """
    found = {hook.name: msgspec.structs.replace(hook, key=with_secrets(hook.key, secret)) for hook in hooks}
    for hook in found.values():
        try:
            size = len(_standard_key(hook) if hook.signed == "standard" else hook.key.encode())
        except ValueError:
            size = 0
        if size < KEY_BYTES:
            words = "whsec_ and the base64 of" if hook.signed == "standard" else "a random text of"
            raise InvalidInput(f"hook {hook.name}: key is too weak or none; write {words} at least {KEY_BYTES} bytes")
    return found


def is_genuine(hook: Hook, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Return True if a request is signed with the key of its hook, compared in constant time; ``now`` is in epoch seconds."""
    if hook.signed == "standard":
        message_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not (message_id and _EPOCH_SECOND.fullmatch(sent_at) and abs(now - int(sent_at)) <= TOLERANCE_S):
            return False
        signature = hmac.digest(_standard_key(hook), f"{message_id}.{sent_at}.".encode() + body, "sha256")
        expected, given = f"v1,{base64.b64encode(signature).decode()}", headers.get("webhook-signature", "").split(" ")
    elif hook.signed == "github":
        expected = f"sha256={hmac.digest(hook.key.encode(), body, 'sha256').hex()}"
        given = [headers.get("x-hub-signature-256", "")]
    else:
        expected, given = f"Bearer {hook.key}", [headers.get("authorization", "")]
    return any(hmac.compare_digest(it.encode(), expected.encode()) for it in given)


def event_id(hook: Hook, headers: Mapping[str, str], data: Any) -> str:
    """Return the id of the event that a request sends, the same when it is sent again; empty if its sender gives none."""
    given = headers.get({"standard": "webhook-id", "github": "x-github-delivery"}.get(hook.signed, ""), "")
    if hook.signed == "bearer" and isinstance(data, dict) and "groupKey" in data:  # of Alertmanager, which repeats while an alert lasts
        alerts = data.get("alerts")
        prints = sorted(str(it.get("fingerprint")) for it in alerts if isinstance(it, dict)) if isinstance(alerts, list) else []
        alert = [data.get("receiver"), data["groupKey"], data.get("status"), prints]
        given = hashlib.sha256(msgspec.json.encode(alert)).hexdigest()
    return given and f"{hook.name}:{given}"


def _standard_key(hook: Hook) -> bytes:
    return base64.b64decode(hook.key.removeprefix("whsec_"), validate=True)
