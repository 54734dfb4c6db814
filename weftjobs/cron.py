"""`Cron`: the times at which the wall clock of a zone matches an expression."""

from __future__ import annotations

from calendar import isleap
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Literal
from zoneinfo import ZoneInfo

from weftjobs._cron_fields import ALL_HOURS, MONTH_DAYS, CronFields, check_text, parse_fields
from weftjobs.errors import InvalidScheduleError, shown
from weftjobs.zones import (
    EPOCH,
    FIRST_SECOND,
    LAST_SECOND,
    ONE_SECOND,
    find_zone,
    next_instant,
    previous_instant,
)

_DAY = 86_400
_DAY_ZERO = date(1970, 1, 1).toordinal()
_FEBRUARY_29 = 1 << 29
_SIX_WEEKS = sum(1 << 7 * week for week in range(6))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Cron:
    """The times at which the wall clock of a time zone matches a cron expression.

    An expression has five fields (minute, hour, day of month, month, day of week) or six
    (second first), or is a macro such as `@daily`. When both day fields are restricted, a day
    that matches either one matches. Two crons are equal when they match the same fields in the
    same zone by the same rule, however they are written.

    A wall time that does not exist, because the clocks go forward over it, does not match.
    So **a daily midnight job skips the day on which its zone skips midnight** (Cairo, Havana):
    this is the opposite of Vixie cron, which runs such a job right after the gap.

    A wall time that occurs twice, because the clocks go back, matches at its first occurrence
    with `repeated="once"`, and at both with `repeated="twice"`. An expression that matches in
    all 24 hours names no hour, and keeps its beat through both occurrences either way.

    Compare the answers by their `timestamp()`: Python compares two datetimes of one zone by
    their wall clocks, and finds one in a fold equal to none of another zone.

    A cron is a trigger too: `first` and `after` work in milliseconds since the epoch.

    Args:
        expression: The cron expression.
        timezone: An IANA name or a `ZoneInfo`. Default: the zone of the process.
        repeated: What becomes of a wall time that occurs twice: `once` or `twice`.

    Raises:
        InvalidScheduleError: When the expression does not parse, or no date matches it.
        UnknownTimeZoneError: When this machine knows no such zone.

    Example:
        >>> from datetime import UTC, datetime
        >>> cron = Cron("30 9 * * mon-fri", "Asia/Shanghai")
        >>> cron.next(datetime(2026, 10, 16, 12, tzinfo=UTC)).isoformat()
        '2026-10-19T09:30:00+08:00'
    """

    expression: str = field(compare=False)
    timezone: ZoneInfo
    repeated: Literal["once", "twice"]
    _fields: CronFields
    _calendar: _Calendar = field(compare=False)

    def __init__(
        self,
        expression: str,
        timezone: str | ZoneInfo | None = None,
        *,
        repeated: Literal["once", "twice"] = "once",
    ) -> None:
        check_text(expression)
        calendar = _calendar_of(expression)
        _check_repeated(repeated)
        fill = partial(object.__setattr__, self)
        fill("expression", expression)
        fill("timezone", find_zone(timezone))
        fill("repeated", repeated)
        fill("_fields", calendar.fields)
        fill("_calendar", calendar)

    def next(self, after: datetime) -> datetime | None:
        """Return the first match strictly after an aware datetime, in the cron's zone.

        Returns:
            None when the calendar ends, with the year 9999, before a match.

        Raises:
            InvalidScheduleError: When `after` is not a datetime with a time zone.
        """
        return self._shown(self._next(_since_epoch("after", after) // ONE_SECOND))

    def previous(self, before: datetime) -> datetime | None:
        """Return the last match strictly before an aware datetime, in the cron's zone.

        Returns:
            None when the calendar begins, with the year 1, after every match.

        Raises:
            InvalidScheduleError: When `before` is not a datetime with a time zone.
        """
        end = -(-_since_epoch("before", before) // ONE_SECOND)
        walls = self._calendar.previous_wall
        return self._shown(previous_instant(walls, self.timezone, end, repeats=self._repeats))

    def upcoming(self, after: datetime, n: int) -> list[datetime]:
        """Return the first `n` matches strictly after an aware datetime, in the cron's zone.

        They are fewer when the calendar ends first.

        Raises:
            InvalidScheduleError: When `after` is not a datetime with a time zone, or `n` not a
                count.
        """
        _check_count(n)
        found: list[datetime] = []
        second: int | None = _since_epoch("after", after) // ONE_SECOND
        while len(found) < n and second is not None:
            second = self._next(second)
            if second is not None:
                found.append(self._aware(second))
        return found

    def first(self, now: int) -> int | None:
        """Return the first match strictly after `now`, in milliseconds since the epoch."""
        second = self._next(now // 1000)
        return None if second is None else second * 1000

    def after(self, previous: int, now: int) -> int | None:
        """Return the first match past both `previous` and `now` (milliseconds)."""
        return self.first(max(previous, now))

    def __repr__(self) -> str:
        arguments = [repr(self.expression), repr(self.timezone.key or self.timezone)]
        if self.repeated != "once":
            arguments.append(f"repeated={self.repeated!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew where it is unpickled, so that crons go on sharing their calendars.
        return partial(type(self), repeated=self.repeated), (self.expression, self.timezone)

    @property
    def _repeats(self) -> bool:
        return self.repeated == "twice" or self._fields.hours == ALL_HOURS

    def _next(self, after: int) -> int | None:
        walls = self._calendar.next_wall
        return next_instant(walls, self.timezone, after, repeats=self._repeats)

    def _shown(self, instant: int | None) -> datetime | None:
        return None if instant is None else self._aware(instant)

    def _aware(self, instant: int) -> datetime:
        return (EPOCH + timedelta(seconds=instant)).astimezone(self.timezone)


class _Calendar:
    """The wall times that an expression matches, whatever the zone.

    `patterns` has, for each weekday (from Sunday) that the first of a month may be, the mask
    of the days that match in such a month.
    """

    __slots__ = ("fields", "first_time", "last_time", "patterns")

    def __init__(self, fields: CronFields) -> None:
        self.fields = fields
        self.patterns = tuple(_month_pattern(fields, weekday) for weekday in range(7))
        second, minute, hour = map(_lowest, fields[:3])
        self.first_time = hour * 3600 + minute * 60 + second
        second, minute, hour = map(_highest, fields[:3])
        self.last_time = hour * 3600 + minute * 60 + second

    def next_wall(self, wall: int) -> int | None:
        """Return the first matching wall time strictly after another."""
        if wall >= LAST_SECOND:
            return None
        number, second = divmod(wall + 1, _DAY)
        today = date.fromordinal(number + _DAY_ZERO)
        left = self._days(today) >> today.day
        if left & 1:
            time = self._time_from(second)
            if time >= 0:
                return number * _DAY + time
        left >>= 1
        later = number + 1 + _lowest(left) if left else self._day_after_month(today)
        return None if later is None else later * _DAY + self.first_time

    def previous_wall(self, wall: int) -> int | None:
        """Return the last matching wall time strictly before another."""
        if wall <= FIRST_SECOND:
            return None
        number, second = divmod(wall - 1, _DAY)
        today = date.fromordinal(number + _DAY_ZERO)
        days = self._days(today)
        if days >> today.day & 1:
            time = self._time_until(second)
            if time >= 0:
                return number * _DAY + time
        left = days & (1 << today.day) - 1
        earlier = number - today.day + _highest(left) if left else self._day_before_month(today)
        return None if earlier is None else earlier * _DAY + self.last_time

    def _days(self, day: date) -> int:
        """Return the mask of the days that match in the month of a date."""
        month = day.month
        if not self.fields.months >> month & 1:
            return 0
        pattern = self.patterns[(day.toordinal() - day.day + 1) % 7] & MONTH_DAYS[month]
        if month == 2 and pattern & _FEBRUARY_29 and not isleap(day.year):
            return pattern ^ _FEBRUARY_29
        return pattern

    def _day_after_month(self, day: date) -> int | None:
        """Return the number of the first matching day in the months after that of a date."""
        year, month = day.year, day.month
        while True:
            later = self.fields.months >> month + 1
            if later:
                month += 1 + _lowest(later)
            elif year == 9999:
                return None
            else:
                year, month = year + 1, _lowest(self.fields.months)
            start = date(year, month, 1)
            days = self._days(start)
            if days:
                return start.toordinal() - _DAY_ZERO + _lowest(days) - 1

    def _day_before_month(self, day: date) -> int | None:
        """Return the number of the last matching day in the months before that of a date."""
        year, month = day.year, day.month
        while True:
            earlier = self.fields.months & (1 << month) - 1
            if earlier:
                month = _highest(earlier)
            elif year == 1:
                return None
            else:
                year, month = year - 1, _highest(self.fields.months)
            start = date(year, month, 1)
            days = self._days(start)
            if days:
                return start.toordinal() - _DAY_ZERO + _highest(days) - 1

    def _time_from(self, second_of_day: int) -> int:
        """Return the first matching second of a day from one on, or -1."""
        seconds, minutes, hours = self.fields[:3]
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        if hours >> hour & 1:
            left = seconds >> second
            if left and minutes >> minute & 1:
                return second_of_day + _lowest(left)
            left = minutes >> minute + 1
            if left:
                minute += 1 + _lowest(left)
                return hour * 3600 + minute * 60 + _lowest(seconds)
        left = hours >> hour + 1
        return (hour + 1 + _lowest(left)) * 3600 + self.first_time % 3600 if left else -1

    def _time_until(self, second_of_day: int) -> int:
        """Return the last matching second of a day up to one, or -1."""
        seconds, minutes, hours = self.fields[:3]
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        if hours >> hour & 1:
            left = seconds & (2 << second) - 1
            if left and minutes >> minute & 1:
                return second_of_day - second + _highest(left)
            left = minutes & (1 << minute) - 1
            if left:
                return hour * 3600 + _highest(left) * 60 + _highest(seconds)
        left = hours & (1 << hour) - 1
        return _highest(left) * 3600 + self.last_time % 3600 if left else -1


@lru_cache(maxsize=1024)
def _calendar_of(expression: str) -> _Calendar:
    return _Calendar(parse_fields(expression))


def _month_pattern(fields: CronFields, first_weekday: int) -> int:
    """Return the mask of the days that match in a month that begins on a weekday."""
    by_weekday = fields.weekdays * _SIX_WEEKS >> first_weekday << 1
    return fields.days | by_weekday if fields.either_day else fields.days & by_weekday


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1


def _check_repeated(repeated: object) -> None:
    if not isinstance(repeated, str) or repeated not in ("once", "twice"):
        raise InvalidScheduleError(
            f"repeated: {shown(repeated)} is neither 'once' nor 'twice'",
            fix="Choose what becomes of a wall time that occurs twice: 'once' or 'twice'.",
        )


def _check_count(n: object) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise InvalidScheduleError(
            f"n: {shown(n)} is not a count", fix="Give a whole number, 0 or more."
        )


def _since_epoch(name: str, instant: datetime) -> timedelta:
    if not isinstance(instant, datetime):
        raise InvalidScheduleError(
            f"{name}: {shown(instant)} is not a datetime",
            fix="Give a datetime with a time zone, such as datetime(2026, 9, 5, tzinfo=UTC).",
        )
    if instant.utcoffset() is None:
        raise InvalidScheduleError(
            f"{name}: {shown(instant)} is a datetime without a time zone",
            fix="Give it one, such as datetime(2026, 9, 5, tzinfo=UTC).",
        )
    return instant - EPOCH
