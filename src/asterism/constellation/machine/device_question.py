"""The question of a device to a person, which ends one leg of its attempt, and the reply to it."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.engine.control.run_control import Risk, Verb


class DeviceQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question of a device. It ends a leg of the attempt; the reply to it begins the next leg.

    Attributes:
        prompt: the question, in words.
        schema: JSON Schema of the answer; empty for any value.
        verbs: the answers it accepts in addition to ``cancel``; ``reject`` declines.
        risk: ``low``, ``medium`` or ``high``.
        state: JSON object that the device needs to continue, 64 KiB at most: ids and sealed tokens,
            never a secret.
        may_go_on: True if the attempt may go on without an answer; its device is asked from time to time.
    """

    prompt: str
    schema: dict[str, Any] = msgspec.field(default_factory=dict)
    verbs: tuple[Verb, ...] = ("respond", "reject")
    risk: Risk = "low"
    state: dict[str, Any] = msgspec.field(default_factory=dict)
    may_go_on: bool = False


class DeviceReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's reply to the question of a device.

    Attributes:
        verb: ``respond`` with a value, ``approve``, or ``reject``, which declines.
        reason: reason of a reject, in words.
    """

    verb: Verb
    value: Any = None
    reason: str = ""
