"""The errors that weftjobs raises on its own behalf, and how values are shown in them."""

from __future__ import annotations

import copyreg
import reprlib
from typing import Any

MESSAGE_LIMIT = 500
"""The most characters that a message, or the text of an error on a row, may have."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: object) -> str:
    """Return a short `repr` of a value for a message, whatever the value is.

    It stays short and quick for a string of a megabyte, and does not raise for a value
    whose own `repr` does.
    """
    try:
        return _short.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def cut(text: str) -> str:
    """Return the text, cut to what a message may have."""
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


class JobsError(Exception):
    """Something that weftjobs refuses to do, and what to do instead.

    Attributes:
        reason: A short code to branch on: `missing`, `not-a-list`, `invalid`, …
        fix: One sentence: what to do.

    The traceback shows the fix below the message.
    """

    reason: str
    fix: str

    def __init__(self, message: str, *, reason: str, fix: str) -> None:
        super().__init__(cut(message))
        self.reason = reason
        self.fix = fix
        self.add_note(f"Fix: {fix}")

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InvalidScheduleError(JobsError, ValueError):
    """A schedule that cannot be kept: it has reason `invalid`.

    A planner of yours may raise it too:

        raise InvalidScheduleError("plan: no tariff 'night'", fix="Name a tariff of the table.")
    """

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message, reason="invalid", fix=fix)


class UnknownTimeZoneError(InvalidScheduleError):
    """A time zone that this machine does not know.

    Attributes:
        timezone: The value that was given.
    """

    timezone: object

    def __init__(self, timezone: object, field: str = "timezone") -> None:
        super().__init__(
            f"{field}: {shown(timezone)} is not a known time zone",
            fix="Use an IANA name such as 'Europe/Berlin', or a zoneinfo.ZoneInfo.",
        )
        self.timezone = timezone
