"""The setting of a message: its language, its time zone, and its time."""

from __future__ import annotations

import datetime as dt

import msgspec

from asterism.engine.runtime.clock import zone_of
from asterism.words.reading.words import Words, words_of

DEFAULT_LANGUAGE = "en"
DEFAULT_ZONE = "UTC"


class Setting(msgspec.Struct, frozen=True):
    """The setting in which a message is read.

    Attributes:
        language: code of a language of this package, or the path of a language file.
        zone: name of the time zone, as "Europe/Berlin".
        at: time of the message, in seconds since the epoch.
    """

    language: str = DEFAULT_LANGUAGE
    zone: str = DEFAULT_ZONE
    at: float = 0.0

    @property
    def words(self) -> Words:
        """Return the words of the language."""
        return words_of(self.language)

    @property
    def now(self) -> dt.datetime:
        """Return the time of the message in its time zone."""
        return dt.datetime.fromtimestamp(self.at, tz=zone_of(self.zone))

    @property
    def today(self) -> dt.date:
        """Return the day of the message in its time zone."""
        return self.now.date()
