"""The wall times of a recurrence rule, found without walking from its start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import MAXYEAR, date, datetime
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from weftjobs._recurrence_rules import RecurrenceRule
from weftjobs.zones import LAST_SECOND

_DAY = 86_400
_DAY_ZERO = date(1970, 1, 1).toordinal()

_LOOK_AHEAD = 50
"""Years that are searched for a match; the rarest date, a 29 February on one weekday, takes 40."""

_STEPS = 5_000
"""Tries to fit an interval of hours, minutes or seconds to the times of day of a rule."""

_LONGEST_COUNT = 100 * 366 * _DAY
"""Seconds from the start in which times are counted, so that counting stays short."""

_SLOTS = {"HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}
"""Seconds of the slots that a frequency steps through; a day for the others."""

_EACH_MONTH = tuple(range(1, 13))
_EACH_DAY = tuple(range(1, 32))


class _Days(NamedTuple):
    """Which days of a year match: the arguments of dateutil's rule for them."""

    months: tuple[int, ...]
    monthdays: tuple[int, ...]
    yeardays: tuple[int, ...]
    weeks: tuple[int, ...]
    weekdays: tuple[tuple[int, int | None], ...]
    week_start: int


@lru_cache(maxsize=512)
def _days_of(year: int, days: _Days) -> tuple[int, ...]:
    """Return the days of a year that match, as numbers since the epoch.

    One year is all that dateutil is asked: left to itself, it walks from the start of a rule
    to the time wanted, and on to the end of the calendar when nothing matches.
    """
    from dateutil.rrule import YEARLY, rrule, weekday

    if year == 1 and days.weeks:
        return ()  # its first week is counted from the year before, which there is not
    found = rrule(
        YEARLY,
        dtstart=datetime(year, 1, 1),
        interval=MAXYEAR,
        wkst=days.week_start,
        bymonth=days.months or None,
        bymonthday=days.monthdays or None,
        byyearday=days.yeardays or None,
        byweekno=days.weeks or None,
        byweekday=[weekday(*each) for each in days.weekdays] or None,
        byhour=0,
        byminute=0,
        bysecond=0,
    )
    return tuple(moment.toordinal() - _DAY_ZERO for moment in found)


def _days_meant(rule: RecurrenceRule, start: date) -> _Days:
    """Return which days a rule allows, completed from its start."""
    months, monthdays, weekdays = rule.months, rule.monthdays, rule.weekdays
    if not (monthdays or rule.yeardays or rule.weeks or weekdays):
        if rule.frequency == "WEEKLY":
            weekdays = ((start.weekday(), None),)
        else:
            monthdays = (start.day,) if rule.frequency in ("YEARLY", "MONTHLY") else _EACH_DAY
        if rule.frequency == "YEARLY":
            months = months or (start.month,)
    if rule.frequency == "MONTHLY":
        # Without months, the nth weekday would be that of the year.
        months = months or _EACH_MONTH
    return _Days(months, monthdays, rule.yeardays, rule.weeks, weekdays, rule.week_start)


class RecurrenceTimes(ABC):
    """The wall times (seconds) that a rule names from a start on."""

    def __init__(self, rule: RecurrenceRule, start: int) -> None:
        self.rule = rule
        self.start = start
        self.days = _days_meant(rule, _date(start // _DAY))
        self.slot = _SLOTS.get(rule.frequency, _DAY)
        self.times = _times_of_slot(rule, start, self.slot)
        every_hour = not rule.hours and self.slot * rule.interval <= 3600
        self.all_hours = every_hour or len(rule.hours) == 24
        self.last = rule.last_wall

    def next_wall(self, wall: int) -> int | None:
        """Return the first wall time of the rule strictly after another."""
        if wall >= self.last:
            return None
        found = self._search(max(wall, self.start - 1))
        return found if found is not None and found <= self.last else None

    def end_after(self, count: int) -> None:
        """Let the rule end with its time of that number, or after a hundred years."""
        last = self.start - 1
        for _ in range(count):
            found = self.next_wall(last)
            if found is None or found > self.start + _LONGEST_COUNT:
                break
            last = found
        self.last = last

    @abstractmethod
    def _search(self, wall: int) -> int | None:
        """Return the first wall time strictly after one that is not before the start."""

    def _days_from(self, day: int) -> Iterator[int]:
        """Yield the days that match from one on, as far as rules are looked for."""
        looked = 0
        for year in range(_date(day).year, MAXYEAR + 1):
            if self._visits(year):
                found = _days_of(year, self.days)
                yield from found[bisect_left(found, day) :]
                looked += 1
            if looked > _LOOK_AHEAD:
                return

    def _visits(self, year: int) -> bool:
        return True


class _SlotTimes(RecurrenceTimes):
    """Times of a rule that steps from day to day, or by hours, minutes or seconds."""

    def __init__(self, rule: RecurrenceRule, start: int) -> None:
        super().__init__(rule, start)
        if rule.positions:
            indexes = _indexes(rule.positions, len(self.times))
            self.times = tuple(self.times[index] for index in indexes)
        self.every_day = self.days[:5] == ((), _EACH_DAY, (), (), ())

    def _search(self, wall: int) -> int | None:
        slot = wall + 1 - (wall + 1) % self.slot
        if not self.times:
            return None
        horizon = self.last if self.every_day else wall + _LOOK_AHEAD * 366 * _DAY
        for _ in range(_STEPS):
            slot = self._on_grid(slot)
            if slot > min(horizon, self.last):
                return None
            opens = self._opens(slot)
            if opens > slot:
                slot = opens
                continue
            index = bisect_right(self.times, wall - slot)
            if index < len(self.times):
                return slot + self.times[index]
            slot += self.slot
        return None

    def _on_grid(self, slot: int) -> int:
        """Return the first slot from one on that the interval names."""
        step = self.slot * self.rule.interval
        return slot + (self.start // self.slot * self.slot - slot) % step

    def _opens(self, slot: int) -> int:
        """Return a slot that may match, or where to look further."""
        rule = self.rule
        if not self.every_day:
            day = next(self._days_from(slot // _DAY), LAST_SECOND)
            if day > slot // _DAY:
                return day * _DAY
        wait = _until_next(rule.hours, slot // 3600 % 24, 24) if self.slot < _DAY else 0
        if wait:
            return slot - slot % 3600 + wait * 3600
        wait = _until_next(rule.minutes, slot // 60 % 60, 60) if self.slot < 3600 else 0
        if wait:
            return slot - slot % 60 + wait * 60
        return slot + (_until_next(rule.seconds, slot % 60, 60) if self.slot == 1 else 0)


class _PeriodTimes(RecurrenceTimes):
    """Times of a rule that steps by weeks, months or years."""

    def _search(self, wall: int) -> int | None:
        today = (wall + 1) // _DAY
        if self.rule.positions:
            return self._search_positions(wall, today)
        for day in self._days_from(today):
            index = bisect_right(self.times, wall - day * _DAY)
            if index < len(self.times) and self._on_grid(self._period(day)):
                return day * _DAY + self.times[index]
        return None

    def _search_positions(self, wall: int, today: int) -> int | None:
        # A week may have begun in the year before.
        new_year = _date(max(today - 6, 1 - _DAY_ZERO)).replace(month=1, day=1)
        days = self._days_from(new_year.toordinal() - _DAY_ZERO)
        for period, members in groupby(days, self._period):
            if self._on_grid(period):
                found = self._at_positions_of(tuple(members))
                index = bisect_right(found, wall)
                if index < len(found):
                    return found[index]
        return None

    def _at_positions_of(self, days: tuple[int, ...]) -> list[int]:
        many = len(self.times)
        indexes = _indexes(self.rule.positions, len(days) * many)
        return [days[index // many] * _DAY + self.times[index % many] for index in indexes]

    def _period(self, day: int) -> int:
        """Return the number of the period that a day lies in."""
        if self.rule.frequency == "WEEKLY":
            return (day + _DAY_ZERO - 1 - self.rule.week_start) // 7
        shown_date = _date(day)
        if self.rule.frequency == "MONTHLY":
            return shown_date.year * 12 + shown_date.month
        return shown_date.year

    def _on_grid(self, period: int) -> bool:
        return (period - self._period(self.start // _DAY)) % self.rule.interval == 0

    def _visits(self, year: int) -> bool:
        """Return whether a period that the interval names lies in a year."""
        first = self._period(date(year, 1, 1).toordinal() - _DAY_ZERO)
        last = self._period(date(year, 12, 31).toordinal() - _DAY_ZERO)
        ahead = (self._period(self.start // _DAY) - first) % self.rule.interval
        return first + ahead <= last


def times_of(rule: RecurrenceRule, start: int) -> RecurrenceTimes:
    if rule.frequency in ("YEARLY", "MONTHLY", "WEEKLY"):
        times: RecurrenceTimes = _PeriodTimes(rule, start)
    else:
        times = _SlotTimes(rule, start)
    if rule.count is not None:
        times.end_after(rule.count)
    return times


def _times_of_slot(rule: RecurrenceRule, start: int, slot: int) -> tuple[int, ...]:
    """Return the seconds of a slot that match, where the slot itself does."""
    hours = rule.hours or (start // 3600 % 24,)
    minutes = rule.minutes or (start // 60 % 60,)
    seconds = rule.seconds or (start % 60,)
    return tuple(
        hour * 3600 + minute * 60 + second
        for hour in (hours if slot == _DAY else (0,))
        for minute in (minutes if slot > 60 else (0,))
        for second in (seconds if slot > 1 else (0,))
    )


def _indexes(positions: tuple[int, ...], length: int) -> list[int]:
    """Return the indexes of positions, which count from 1, or from -1 at the end."""
    indexes = {position - 1 if position > 0 else length + position for position in positions}
    return sorted(index for index in indexes if 0 <= index < length)


def _until_next(values: tuple[int, ...], value: int, size: int) -> int:
    """Return how far it is to the next of the values, on a dial of that size."""
    if not values:
        return 0
    index = bisect_left(values, value)
    return values[index] - value if index < len(values) else values[0] + size - value


def _date(day: int) -> date:
    return date.fromordinal(day + _DAY_ZERO)
