"""Every way to write a duration or an instant, read into whole milliseconds and back."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, tzinfo

from weftjobs.errors import InvalidScheduleError, shown

Duration = int | float | timedelta | str
"""Milliseconds, a `timedelta`, or text such as `'1h30m'`."""

Instant = int | float | datetime | str
"""Milliseconds since the epoch, an aware `datetime`, or ISO 8601 text with an offset."""

MIN_INSTANT = -62_135_596_800_000
"""0001-01-01T00:00:00.000Z in milliseconds since the epoch."""

MAX_INSTANT = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z in milliseconds since the epoch, and the longest duration."""

MAX_TEXT = 1_000
"""The most characters that a duration, an instant, or a rule may be written with."""

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"([0-9]+)(?:\.([0-9]+))?(ms|[smhd])")
_DURATION = re.compile(rf" *(?:{_PART.pattern} *)+")
_BARE_NUMBER = re.compile(r" *[0-9]+(?:\.[0-9]+)? *")
_ISO_TEXT = re.compile(r"[0-9TtWZz:., +-]+")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)

_DURATION_FIX = "Use a number of milliseconds, a timedelta, or text such as '30s' or '1h30m'."
_LENGTH_FIX = "Use a duration of at least 1 millisecond that ends before the year 10000."
_INSTANT_FIX = (
    "Use ISO 8601 text with an offset such as '2026-09-05T15:00:00Z', an aware datetime, "
    "or a number of milliseconds since the epoch."
)
_OFFSET_FIX = (
    "Say which zone it is in: end the text in 'Z' or '+02:00', or give the datetime a tzinfo."
)
_CALENDAR_FIX = "Use an instant in the years 1 to 9999, in milliseconds since the epoch."


def parse_duration(text: str) -> int:
    """Return the whole milliseconds that a text such as `'1h30m'` stands for.

    The text is one or more numbers, each with its unit (`d h m s ms`) right behind it; they
    add up. Numbers may have decimals, and spaces may stand between the parts.

    Args:
        text: The duration, at most 1,000 characters.

    Returns:
        Milliseconds, at least 1; halves round up.

    Raises:
        InvalidScheduleError: The text is not a duration, is less than 1 ms, or is more than
            the calendar holds.

    Example:
        >>> parse_duration("1h30m")
        5400000
        >>> parse_duration("1.5s 20ms")
        1520
    """
    if not isinstance(text, str):
        raise InvalidScheduleError(
            f"duration: {shown(text)} is not text", fix="Use text such as '30s' or '1h30m'."
        )
    return _parse(text, "duration")


def format_duration(milliseconds: Duration) -> str:
    """Return a duration in its shortest text, largest unit first.

    `parse_duration` reads it back to the same number.

    Args:
        milliseconds: The duration; whatever else stands for one works too.

    Raises:
        InvalidScheduleError: It is not a duration of at least 1 ms.

    Example:
        >>> format_duration(5_400_000)
        '1h30m'
    """
    rest = to_duration(milliseconds, "duration")
    parts = []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def to_duration(value: Duration, field: str) -> int:
    """Return a duration in whole milliseconds, at least 1; halves round up.

    Args:
        value: Milliseconds, a `timedelta`, or text that `parse_duration` reads.
        field: The name that an error gives to the value.

    Raises:
        InvalidScheduleError: It is not a duration, is less than 1 ms, or is more than the
            calendar holds.
    """
    if type(value) is int:
        milliseconds: int = value
    elif isinstance(value, str):
        return _parse(value, field)
    elif isinstance(value, timedelta):
        milliseconds = (value // _MICROSECOND + 500) // 1_000
    else:
        number = _number(value, field, _DURATION_FIX)
        whole = math.floor(number)
        milliseconds = whole + (number - whole >= 0.5)
    return _checked_duration(milliseconds, value, field)


def to_instant(value: Instant, field: str) -> int:
    """Return an instant in whole milliseconds since the epoch, rounded down.

    Args:
        value: Milliseconds since the epoch, an aware `datetime`, or ISO 8601 text with an
            offset.
        field: The name that an error gives to the value.

    Raises:
        InvalidScheduleError: It is not an instant, has no offset, or lies outside the years
            1 to 9999 in UTC.
    """
    if type(value) is int:
        milliseconds: int = value
    elif isinstance(value, str):
        milliseconds = _from_datetime(_read_iso(value, field), value, field)
    elif isinstance(value, datetime):
        milliseconds = _from_datetime(value, value, field)
    else:
        milliseconds = math.floor(_number(value, field, _INSTANT_FIX))
    if not MIN_INSTANT <= milliseconds <= MAX_INSTANT:
        raise InvalidScheduleError(
            f"{field}: {shown(value)} lies outside the calendar", fix=_CALENDAR_FIX
        )
    return milliseconds


def to_datetime(milliseconds: int, zone: tzinfo = UTC, field: str = "instant") -> datetime:
    """Return the aware datetime of an instant in milliseconds since the epoch.

    Raises:
        InvalidScheduleError: It lies outside the years 1 to 9999 in that zone.
    """
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).astimezone(zone)
    except OverflowError:
        raise InvalidScheduleError(
            f"{field}: {shown(milliseconds)} lies outside the calendar", fix=_CALENDAR_FIX
        ) from None


def check_text(text: str, field: str) -> None:
    """Refuse a text that is too long to read, or that is not plain ASCII.

    Raises:
        InvalidScheduleError: It has more than 1,000 characters, or others than ASCII.
    """
    check_length(text, field)
    if not text.isascii():
        raise InvalidScheduleError(
            f"{field}: {shown(text)} has characters that are not ASCII",
            fix="Use plain ASCII letters, digits and spaces.",
        )


def check_length(text: str, field: str) -> None:
    """Refuse a text of more than 1,000 characters.

    Raises:
        InvalidScheduleError: It has more than that.
    """
    if len(text) > MAX_TEXT:
        raise InvalidScheduleError(
            f"{field}: {shown(text)} has {len(text)} characters, more than {MAX_TEXT}",
            fix=f"Write it in at most {MAX_TEXT} characters.",
        )


def _parse(text: str, field: str) -> int:
    check_text(text, field)
    if not _DURATION.fullmatch(text):
        raise _not_a_duration(text, field)
    parts = _PART.findall(text)
    places = max(len(decimals) for _, decimals, _ in parts)
    scale = 10**places
    total = sum(
        int(whole + decimals.ljust(places, "0")) * _UNITS[unit] for whole, decimals, unit in parts
    )
    return _checked_duration((2 * total + scale) // (2 * scale), text, field)


def _not_a_duration(text: str, field: str) -> InvalidScheduleError:
    if _BARE_NUMBER.fullmatch(text):
        number = shown(text.strip()).strip("'")
        return InvalidScheduleError(
            f"{field}: {shown(text)} is a number without a unit",
            fix=f"Write '{number}s' for seconds, or the number {number} for milliseconds.",
        )
    return InvalidScheduleError(f"{field}: {shown(text)} is not a duration", fix=_DURATION_FIX)


def _checked_duration(milliseconds: int, value: object, field: str) -> int:
    if 1 <= milliseconds <= MAX_INSTANT:
        return milliseconds
    wrong = "less than 1 millisecond" if milliseconds < 1 else "more than the calendar holds"
    raise InvalidScheduleError(f"{field}: {shown(value)} is {wrong}", fix=_LENGTH_FIX)


def _number(value: object, field: str, fix: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = type(value).__name__
        raise InvalidScheduleError(f"{field}: {shown(value)} is of type {kind}", fix=fix)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidScheduleError(f"{field}: {shown(value)} is not a finite number", fix=fix)
    return value


def _read_iso(text: str, field: str) -> datetime:
    check_text(text, field)
    from dateutil.parser import isoparse  # slow to import, and seldom needed

    try:
        if not _ISO_TEXT.fullmatch(text):
            raise ValueError
        return isoparse(text)
    except (ValueError, OverflowError):
        raise InvalidScheduleError(
            f"{field}: {shown(text)} is not an ISO 8601 time", fix=_INSTANT_FIX
        ) from None


def _from_datetime(moment: datetime, value: object, field: str) -> int:
    try:
        offset = moment.utcoffset()
    except Exception:
        raise InvalidScheduleError(
            f"{field}: {shown(value)} has an offset that cannot be read", fix=_OFFSET_FIX
        ) from None
    if offset is None:
        raise InvalidScheduleError(f"{field}: {shown(value)} has no offset", fix=_OFFSET_FIX)
    return (moment.replace(tzinfo=None) - _NAIVE_EPOCH - offset) // _MILLISECOND
