"""The text of an iCalendar recurrence rule to its parts, strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from weftjobs.errors import InvalidScheduleError, shown
from weftjobs.units import check_text
from weftjobs.zones import EPOCH, LAST_SECOND, ONE_SECOND

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")

_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY = re.compile(rf"([+-]?[0-9]{{1,2}})?({'|'.join(_WEEKDAYS)})")
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_UNTIL = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z?))?")

_RANGES = {
    "INTERVAL": (1, 999_999_999),
    "COUNT": (1, 1_000),
    "BYSECOND": (0, 59),
    "BYMINUTE": (0, 59),
    "BYHOUR": (0, 23),
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (1, 31),
    "BYYEARDAY": (1, 366),
    "BYWEEKNO": (1, 53),
    "BYSETPOS": (1, 366),
}
_FROM_THE_END = ("BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS")
_PARTS = {*_RANGES, "FREQ", "UNTIL", "BYDAY", "WKST"}
_OTHER_LINES = ("DTSTART", "RDATE", "EXDATE", "EXRULE")

_FIX = "Write one iCalendar rule, such as 'FREQ=MONTHLY;BYDAY=-1FR'."
_ONE_RULE_FIX = "Give one rule alone, and when it starts as `start`."


@dataclass(frozen=True, slots=True)
class RecurrenceRule:
    """What a rule says; an empty tuple where it says nothing.

    Weekdays count from Monday (0), with which one of the month or year is meant, or None for
    each. The rule ends with `last_wall` on the wall clock, and with `last_instant` (seconds).
    """

    frequency: str
    interval: int
    count: int | None
    last_wall: int
    last_instant: int
    week_start: int
    months: tuple[int, ...]
    monthdays: tuple[int, ...]
    yeardays: tuple[int, ...]
    weeks: tuple[int, ...]
    weekdays: tuple[tuple[int, int | None], ...]
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    positions: tuple[int, ...]


def parse_rule(text: str) -> RecurrenceRule:
    """Return what the text of one rule says.

    Raises:
        InvalidScheduleError: It is not a rule, or says what no rule may say.
    """
    check_text(text, "rule")
    parts = _split(text)
    try:
        return _read(parts)
    except InvalidScheduleError:
        raise
    except ValueError as error:
        raise InvalidScheduleError(f"rule: {shown(text)}: {error}", fix=_FIX) from None


def _split(text: str) -> dict[str, str]:
    upper = text.strip(" ").upper()
    if "\n" in upper or "\r" in upper or any(line in upper for line in _OTHER_LINES):
        raise InvalidScheduleError(
            f"rule: {shown(text)} has more than one rule in it", fix=_ONE_RULE_FIX
        )
    parts: dict[str, str] = {}
    for part in upper.removeprefix("RRULE:").split(";"):
        name, _, value = part.partition("=")
        if name not in _PARTS or name in parts or not value:
            wrong = "comes twice" if name in parts else "is not a part of a rule"
            raise InvalidScheduleError(f"rule: {shown(text)}: {shown(part)} {wrong}", fix=_FIX)
        parts[name] = value
    return parts


def _read(parts: dict[str, str]) -> RecurrenceRule:
    _check_together(parts)
    last_wall, last_instant = _until(parts.get("UNTIL"))
    return RecurrenceRule(
        frequency=parts["FREQ"],
        interval=_one(parts, "INTERVAL") or 1,
        count=_one(parts, "COUNT"),
        last_wall=last_wall,
        last_instant=last_instant,
        week_start=_WEEKDAYS.index(parts.get("WKST", "MO")),
        months=_numbers(parts, "BYMONTH"),
        monthdays=_numbers(parts, "BYMONTHDAY"),
        yeardays=_numbers(parts, "BYYEARDAY"),
        weeks=_numbers(parts, "BYWEEKNO"),
        weekdays=_weekdays(parts),
        hours=_numbers(parts, "BYHOUR"),
        minutes=_numbers(parts, "BYMINUTE"),
        seconds=_numbers(parts, "BYSECOND"),
        positions=_numbers(parts, "BYSETPOS"),
    )


def _check_together(parts: dict[str, str]) -> None:
    frequency = parts.get("FREQ")
    if frequency not in FREQUENCIES:
        raise ValueError(f"FREQ is not one of {', '.join(FREQUENCIES)}")
    if parts.get("WKST", "MO") not in _WEEKDAYS:
        raise ValueError(f"WKST is not one of {', '.join(_WEEKDAYS)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise ValueError("COUNT and UNTIL exclude each other")
    if "BYWEEKNO" in parts and frequency != "YEARLY":
        raise ValueError("BYWEEKNO goes with FREQ=YEARLY alone")


def _one(parts: dict[str, str], name: str) -> int | None:
    numbers = _numbers(parts, name)
    if len(numbers) > 1:
        raise ValueError(f"{name} is one number")
    return numbers[0] if numbers else None


def _numbers(parts: dict[str, str], name: str) -> tuple[int, ...]:
    if name not in parts:
        return ()
    low, high = _RANGES[name]
    numbers = set()
    for text in parts[name].split(","):
        number = int(text) if _NUMBER.fullmatch(text) else high + 1
        size = abs(number) if name in _FROM_THE_END else number
        if not low <= size <= high:
            sign = "-" if name in _FROM_THE_END else ""
            raise ValueError(f"{name} has {shown(text)}, not a number of {sign}{low} to {high}")
        numbers.add(number)
    return tuple(sorted(numbers))


def _weekdays(parts: dict[str, str]) -> tuple[tuple[int, int | None], ...]:
    if "BYDAY" not in parts:
        return ()
    most = _most_weekdays(parts)
    found = {_weekday(text, most) for text in parts["BYDAY"].split(",")}
    if any(nth for _, nth in found):
        # dateutil reads a list with both kinds as days that are of both kinds.
        plain = {day for day, nth in found if nth is None}
        found = {each for each in found if each[1]}
        found |= {(day, nth) for day in plain for nth in range(1, most + 1)}
    return tuple(sorted(found, key=str))


def _most_weekdays(parts: dict[str, str]) -> int:
    """Return how often a weekday can come in what the rule counts weekdays of, 0 for nothing."""
    if parts["FREQ"] not in ("MONTHLY", "YEARLY"):
        return 0
    return 53 if parts["FREQ"] == "YEARLY" and "BYMONTH" not in parts else 5


def _weekday(text: str, most: int) -> tuple[int, int | None]:
    match = _WEEKDAY.fullmatch(text)
    if match is None:
        raise ValueError(f"BYDAY has {shown(text)}, not a weekday such as FR or -1FR")
    day = _WEEKDAYS.index(match[2])
    if match[1] is None:
        return day, None
    nth = int(match[1])
    if not 1 <= abs(nth) <= most:
        raise ValueError(f"BYDAY has {shown(text)}, but there is no such weekday in a period")
    return day, nth


def _until(text: str | None) -> tuple[int, int]:
    """Return the last second on the wall clock, and the last instant."""
    if text is None:
        return LAST_SECOND, LAST_SECOND
    match = _UNTIL.fullmatch(text)
    if match is None:
        raise ValueError("UNTIL is not like 20261231, 20261231T170000 or 20261231T170000Z")
    *numbers, zulu = match.groups()
    fields = [int(number) for number in numbers if number] + [23, 59, 59]
    year, month, day, hour, minute, second = fields[:6]
    last = (datetime(year, month, day, hour, minute, second, tzinfo=UTC) - EPOCH) // ONE_SECOND
    return (LAST_SECOND, last) if zulu else (last, LAST_SECOND)
