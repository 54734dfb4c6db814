"""A cron expression, from text to one bit mask per field, strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from weftjobs.errors import InvalidScheduleError, shown

_LONGEST = 1_000

ALL_HOURS = (1 << 24) - 1
_ALL_DAYS = (1 << 32) - 2
_ALL_WEEKDAYS = (1 << 7) - 1

MONTH_DAYS = tuple(
    (2 << length) - 2 for length in (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
)
"""For each month from 1, the mask of the days that it may have: bit 29 is set for February."""

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_WIDER_DIALECT = re.compile(
    r"\w{0,3}#\w{1,2}|l|lw|l-?\d{1,2}|\w{1,3}l|\d{0,2}w|w\d{1,2}|[hr](?:\(\d{1,2})?",
    re.ASCII | re.IGNORECASE,
)
"""What other dialects write for last, nearest weekday, nth weekday, hashed and random."""


class CronFields(NamedTuple):
    """What an expression matches: bit n of a mask is set when the value n matches.

    Sunday is bit 0 of `weekdays`. With `either_day`, a day matches when its day of the month
    or its weekday does; without, one of the two masks is full, and both must.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    either_day: bool


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    values: Mapping[str, int]
    takes: str
    unit: str


def _field(name: str, low: int, high: int, unit: str = "", names: str = "") -> _Field:
    named = {word: low + index for index, word in enumerate(names.split())}
    numbers = {str(value): value for value in range(low, high + 1)}
    padded = {f"{value:02}": value for value in range(low, high + 1)}
    takes = f"{low}-{high}"
    if named:
        takes += f" or {names[:3]}-{names[-3:]}"
    return _Field(name, low, high, {**numbers, **padded, **named}, takes, unit)


_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_WEEKDAYS = "sun mon tue wed thu fri sat"

_SECOND = _field("second", 0, 59, "s")
_MINUTE = _field("minute", 0, 59, "m")
_HOUR = _field("hour", 0, 23, "h")
_DAY = _field("day of month", 1, 31, "d")
_MONTH = _field("month", 1, 12, names=_MONTHS)
_WEEKDAY = _field("day of week", 0, 7, "d", names=_WEEKDAYS)


FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)
"""The fields of an expression, the second first."""


def fields_of(expression: str) -> list[str]:
    """Return the texts of the six fields of an expression, macros and seconds filled in."""
    check_text(expression)
    return _split(expression)


def parse_fields(expression: str) -> CronFields:
    """Return what a cron expression matches.

    Raises:
        InvalidScheduleError: When it is no expression, or no date matches it.
    """
    check_text(expression)
    second, minute, hour, day, month, weekday = _split(expression)
    weekdays = _mask(_WEEKDAY, weekday)
    fields = CronFields(
        _mask(_SECOND, second),
        _mask(_MINUTE, minute),
        _mask(_HOUR, hour),
        _mask(_DAY, day),
        _mask(_MONTH, month),
        # Sunday is 7 as well as 0.
        (weekdays | weekdays >> 7) & _ALL_WEEKDAYS,
        day not in ("*", "?") and weekday not in ("*", "?"),
    )
    if not fields.either_day and fields.days != _ALL_DAYS:
        _check_dates(fields, day, month)
    return fields


def check_text(expression: str) -> None:
    """Refuse what is no text, or too long to look at."""
    if not isinstance(expression, str):
        raise InvalidScheduleError(
            f"cron: {shown(expression)} is not a string",
            fix="Write the expression as text, such as '30 9 * * mon-fri'.",
        )
    if len(expression) > _LONGEST:
        raise InvalidScheduleError(
            f"cron: {shown(expression)} is longer than {_LONGEST:,} characters",
            fix="Shorten the expression, or split it into several schedules.",
        )


def _split(expression: str) -> list[str]:
    """Return the text of the six fields."""
    parts = expression.replace("\t", " ").split(" ")
    if "" in parts:
        parts = [part for part in parts if part]
    if len(parts) == 1:
        parts = _macro(parts[0])
    if len(parts) == 5:
        return ["0", *parts]
    if len(parts) == 6:
        return parts
    raise _wrong_count(expression, len(parts))


def _macro(text: str) -> list[str]:
    """Return the fields that a macro stands for."""
    if text.lower() in _MACROS:
        return _MACROS[text.lower()].split()
    if text.lower() == "@reboot":
        raise InvalidScheduleError(
            f"cron: {shown(text)} names no time",
            fix="Call the job when the program starts, beside its schedule.",
        )
    if text.startswith("@"):
        raise InvalidScheduleError(
            f"cron: {shown(text)} is not a known macro",
            fix=f"Use one of {' '.join(_MACROS)}, or write the fields.",
        )
    return [text]


def _wrong_count(expression: str, count: int) -> InvalidScheduleError:
    text = expression.strip(" \t")
    fix = "Write minute, hour, day of month, month and day of week, such as '30 9 * * mon-fri'."
    if count == 1 and text.isascii() and text.isdigit() and len(text) < 10:
        fix = f"Write '{text}s' for {text} seconds, or an expression such as '*/5 * * * *'."
    elif count == 1:
        fix = "Write five fields, such as '*/5 * * * *', or a duration with a unit, such as '30s'."
    elif count == 7:
        fix = "Take out the year: the fields end with the day of week."
    fields = "1 field" if count == 1 else f"{count} fields"
    why = f"has {fields} where an expression has 5, or 6 with seconds first"
    return InvalidScheduleError(f"cron: {shown(expression)} {why}", fix=fix)


def _mask(field: _Field, text: str) -> int:
    """Return the mask of one field."""
    value = field.values.get(text)
    if value is not None:
        return 1 << value
    if text in ("*", "?"):
        return _stepped(field.low, field.high, 1)
    mask = 0
    for item in text.split(","):
        mask |= _item(field, text, item)
    return mask


def _item(field: _Field, text: str, item: str) -> int:
    """Return the mask of one item of a field's list."""
    if not item:
        raise _refusal(field, text, "has an empty item", "Take out the extra comma.")
    span, slash, step = item.partition("/")
    first, dash, last = span.partition("-")
    if span == "*" or (span == "?" and not slash):
        low, high = field.low, field.high
    else:
        low = high = _value(field, text, first)
        if dash:
            high = _range_end(field, text, low, last)
        elif slash:
            high = field.high
    return _stepped(low, high, _step(field, text, step) if slash else 1)


def _stepped(low: int, high: int, step: int) -> int:
    # The bits are a geometric series.
    count = (high - low) // step + 1
    return ((1 << step * count) - 1) // ((1 << step) - 1) << low


def _value(field: _Field, text: str, word: str) -> int:
    value = field.values.get(word.lower())
    if value is None:
        value = _number(word)
    if value is None and _WIDER_DIALECT.fullmatch(word):
        raise _refusal(
            field,
            text,
            "is written in a wider dialect than plain cron",
            "Use weftjobs.Croniter, which reads L, W, # and hashes.",
        )
    if value is None or not field.low <= value <= field.high:
        fix = f"The field takes {field.takes}, ranges, steps and lists of them."
        raise _refusal(field, text, f"has {shown(word)}, which is not {field.takes}", fix)
    return value


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() else None


def _range_end(field: _Field, text: str, low: int, last: str) -> int:
    high = _value(field, text, last)
    if field is _WEEKDAY and low > 0 and last.lower() == "sun":
        high = 7
    if high < low:
        top = 6 if field is _WEEKDAY else field.high
        fix = f"Write two ranges, such as '{low}-{top},{field.low}-{high}'."
        raise _refusal(field, text, "has a range that runs backwards", fix)
    return high


def _step(field: _Field, text: str, word: str) -> int:
    step = _number(word)
    if not step:
        fix = f"Write a whole number from 1 to {field.high} behind the '/'."
        raise _refusal(field, text, f"has the step {shown(word)}", fix)
    if step > field.high:
        fix = f"A step in this field is at most {field.high}."
        if field.unit and len(word) < 7:
            fix = f"Use every='{step}{field.unit}' instead of cron."
        why = f"has a step larger than {field.high}, the last value of the field"
        raise _refusal(field, text, why, fix)
    return step


def _check_dates(fields: CronFields, day: str, month: str) -> None:
    if any(fields.months >> n & 1 and fields.days & MONTH_DAYS[n] for n in range(1, 13)):
        return
    raise InvalidScheduleError(
        f"cron: no date has day of month {shown(day)} in month {shown(month)}",
        fix="Name a day that one of the months has.",
    )


def _refusal(field: _Field, text: str, why: str, fix: str) -> InvalidScheduleError:
    return InvalidScheduleError(f"cron: {field.name}: {shown(text)} {why}", fix=fix)
