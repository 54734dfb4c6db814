"""`Cron` against a scan of the calendar by other means, and against croniter and cronsim."""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise, product
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weftjobs.cron import Cron
from weftjobs.errors import InvalidScheduleError

HOUR = 3600
DAY = 24 * HOUR
YEARS = (1880, 2040)


@dataclass(frozen=True)
class Field:
    """One field as text, and the values that the text names."""

    text: str
    values: frozenset[int]

    @property
    def restricted(self) -> bool:
        return self.text not in ("*", "?")


MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


@st.composite
def items(draw: st.DrawFn, low: int, high: int, names: list[str]) -> Field:
    """One item of a field's list."""
    step = draw(st.none() | st.integers(1, high))
    tail = "" if step is None else f"/{step}"
    kind = draw(st.sampled_from(["*", "a", "a-b"]))
    if kind == "*":
        return Field("*" + tail, frozenset(range(low, high + 1, step or 1)))
    first = draw(st.integers(low, high))
    start = spelled(draw, first, low, names)
    if kind == "a":
        last = first if step is None else high
        return Field(start + tail, frozenset(range(first, last + 1, step or 1)))
    last = draw(st.integers(first, high))
    end = spelled(draw, last, low, names)
    return Field(f"{start}-{end}{tail}", frozenset(range(first, last + 1, step or 1)))


def spelled(draw: st.DrawFn, value: int, low: int, names: list[str]) -> str:
    if names and value - low < len(names) and draw(st.booleans()):
        name = names[value - low]
        return draw(st.sampled_from([name, name.upper(), name.title()]))
    return draw(st.sampled_from([f"{value}", f"{value:02}"]))


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, names: list[str] | None = None) -> Field:
    if draw(st.integers(0, 2)) == 0:
        return Field(draw(st.sampled_from("*?")), frozenset(range(low, high + 1)))
    found = draw(st.lists(items(low, high, names or []), min_size=1, max_size=3))
    text = ",".join(item.text for item in found)
    return Field(text, frozenset().union(*(item.values for item in found)))


@dataclass(frozen=True)
class Expression:
    """An expression as text, and what it matches."""

    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        parts = [self.minute, self.hour, self.day, self.month, self.weekday]
        if self.second.text != "0":
            parts.insert(0, self.second)
        return " ".join(part.text for part in parts)

    def matches(self, day: date) -> bool:
        by_day = day.day in self.day.values
        by_weekday = bool({day.isoweekday(), day.isoweekday() % 7} & self.weekday.values)
        if self.day.restricted and self.weekday.restricted:
            return day.month in self.month.values and (by_day or by_weekday)
        return day.month in self.month.values and by_day and by_weekday

    def times(self) -> list[time]:
        values = product(self.hour.values, self.minute.values, self.second.values)
        return sorted(time(*parts) for parts in values)


NOUGHT = Field("0", frozenset([0]))

expressions = st.builds(
    Expression,
    st.just(NOUGHT) | fields(0, 59),
    fields(0, 59),
    fields(0, 23),
    fields(1, 31),
    fields(1, 12, MONTHS),
    fields(0, 7, WEEKDAYS),
)

zones = st.sampled_from(sorted(zoneinfo.available_timezones() - {"localtime"})).map(ZoneInfo)


def offset_at(zone: ZoneInfo, instant: int) -> timedelta:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return offset


@cache
def changes(zone: ZoneInfo, year: int) -> list[int]:
    """The instants of a year at which the zone changes its offset."""
    begin = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    found = []
    for low, high in pairwise(range(begin, begin + 367 * DAY, DAY)):
        if offset_at(zone, low) != offset_at(zone, high):
            found.append(bisected(zone, low, high))
    return found


def bisected(zone: ZoneInfo, low: int, high: int) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(zone, middle) == offset_at(zone, low):
            low = middle
        else:
            high = middle
    return high


@st.composite
def moments(draw: st.DrawFn, zone: ZoneInfo) -> int:
    """An instant, near a change of the zone's clocks where the year has one."""
    year = draw(st.integers(*YEARS))
    found = changes(zone, year)
    if not found:
        return int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) + draw(st.integers(0, 365 * DAY))
    near = st.sampled_from([-3600, -1800, -1, 0, 1, 1800, 3600])
    return draw(st.sampled_from(found)) + draw(near | st.integers(-3 * HOUR, 3 * HOUR))


def scan(expression: Expression, zone: ZoneInfo, begin: int, end: int, once: bool) -> list[int]:
    """The instants of [begin, end) that match: each wall time is looked up in the zone."""
    around = [offset_at(zone, begin + near) for near in (-DAY, 0, end - begin, end - begin + DAY)]
    epoch = datetime(1970, 1, 1)
    lowest = epoch + timedelta(seconds=begin) + min(around)
    highest = epoch + timedelta(seconds=end) + max(around)
    folds = (0,) if once and len(expression.hour.values) < 24 else (0, 1)
    times = expression.times()
    found = set()
    day = lowest.date()
    while day <= highest.date():
        if expression.matches(day):
            walls = [datetime.combine(day, moment) for moment in times]
            near = [wall for wall in walls if lowest <= wall <= highest]
            found |= {known for wall in near for known in occurrences(wall, zone, folds)}
        day += timedelta(days=1)
    return sorted(instant for instant in found if begin <= instant < end)


def occurrences(wall: datetime, zone: ZoneInfo, folds: tuple[int, ...]) -> set[int]:
    """The instants at which a clock of the zone shows a wall time."""
    found = set()
    for fold in folds:
        instant = int(wall.replace(tzinfo=zone, fold=fold).timestamp())
        if datetime.fromtimestamp(instant, zone).replace(tzinfo=None) == wall:
            found.add(instant)
    return found


def made(expression: Expression, zone: ZoneInfo, repeated: Literal["once", "twice"]) -> Cron:
    try:
        return Cron(expression.text, zone, repeated=repeated)
    except InvalidScheduleError as error:
        # Nothing but a date that never comes is wrong with a drawn expression.
        assert "no date has" in str(error)  # noqa: PT017
        whole_cycle = (date(2000, 1, 1) + timedelta(days=n) for n in range(4 * 366))
        assert not any(map(expression.matches, whole_cycle))
        assume(False)
        raise


def window(expression: Expression) -> int:
    """How many seconds to scan: some hundred matches, two hours to five days."""
    per_day = len(expression.times())
    return max(2 * HOUR, min(5 * DAY, 200 * DAY // per_day))


def aware(instant: int) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


@settings(max_examples=250)
@given(st.data(), zones, expressions, st.sampled_from(["once", "twice"]))
def test_next_against_a_scan(
    data: st.DataObject,
    zone: ZoneInfo,
    expression: Expression,
    repeated: Literal["once", "twice"],
) -> None:
    """C1 to C5: from an instant on, exactly the matches that a scan of wall times finds."""
    cron = made(expression, zone, repeated)
    begin = data.draw(moments(zone))
    end = begin + window(expression)
    expected = scan(expression, zone, begin, end, repeated == "once")
    found = cron.upcoming(aware(begin - 1), len(expected) + 1)
    assert [int(moment.timestamp()) for moment in found[: len(expected)]] == expected
    assert found[len(expected)].timestamp() >= end


@settings(max_examples=250)
@given(st.data(), zones, expressions, st.sampled_from(["once", "twice"]))
def test_previous_against_a_scan(
    data: st.DataObject,
    zone: ZoneInfo,
    expression: Expression,
    repeated: Literal["once", "twice"],
) -> None:
    """C4, C5: back from an instant, exactly the matches that a scan of wall times finds."""
    cron = made(expression, zone, repeated)
    end = data.draw(moments(zone))
    begin = end - window(expression)
    expected = scan(expression, zone, begin, end, repeated == "once")
    found: list[int] = []
    moment = cron.previous(aware(end))
    while moment is not None and moment.timestamp() >= begin:
        found.append(int(moment.timestamp()))
        moment = cron.previous(moment)
    assert found[::-1] == expected


SCANNED = [
    ("Australia/Lord_Howe", 2026),
    ("Antarctica/Troll", 2026),
    ("Africa/Cairo", 2026),
    ("America/Havana", 2026),
    ("America/Toronto", 2026),
    ("Pacific/Apia", 2011),
    ("Pacific/Kwajalein", 1969),
    ("Pacific/Kwajalein", 1993),
    ("Europe/Amsterdam", 1937),
    ("Africa/Monrovia", 1972),
]


@pytest.mark.parametrize(("name", "year"), SCANNED)
def test_every_second_around_a_change(name: str, year: int) -> None:
    """C5: second by second, what matches is what the wall clock shows, fold by fold."""
    zone = ZoneInfo(name)
    for change in changes(zone, year):
        shown = [
            (instant, datetime.fromtimestamp(instant, zone))
            for instant in range(change - 2 * HOUR, change + 2 * HOUR)
        ]
        for repeated in ("once", "twice"):
            cron = Cron("*/45 */10 0-22 * * *", zone, repeated=repeated)
            expected = [
                instant
                for instant, wall in shown
                if wall.second in (0, 45) and wall.minute % 10 == 0 and wall.hour != 23
                if repeated == "twice" or not wall.fold
            ]
            found = cron.upcoming(aware(shown[0][0] - 1), len(expected))
            assert [int(moment.timestamp()) for moment in found] == expected


@settings(max_examples=150)
@given(
    expressions,
    st.dates(date(1, 1, 1), date(9990, 12, 31)),
)
def test_days_against_a_scan(expression: Expression, day: date) -> None:
    """C2, C3: the next and the previous day are those that a scan of the calendar finds."""
    cron = made(expression, ZoneInfo("UTC"), "once")
    begin = datetime.combine(day, time(), UTC)
    found = cron.next(begin + timedelta(days=1, seconds=-1))
    expected = day + timedelta(days=1)
    while not expression.matches(expected):
        expected += timedelta(days=1)
    assert found == datetime.combine(expected, expression.times()[0], UTC)
    back = cron.previous(found)
    assert back is None or back < begin + timedelta(days=1)


@settings(max_examples=300)
@given(st.data(), zones, expressions, st.sampled_from(["once", "twice"]))
def test_next_and_previous_mirror_each_other(
    data: st.DataObject,
    zone: ZoneInfo,
    expression: Expression,
    repeated: Literal["once", "twice"],
) -> None:
    """C4: there is no match between a match and the one before it."""
    cron = made(expression, zone, repeated)
    now = aware(data.draw(moments(zone)))
    later, earlier = cron.next(now), cron.previous(now)
    assert later is not None
    assert earlier is not None
    assert earlier.timestamp() < now.timestamp() < later.timestamp()
    back = cron.previous(later)
    forth = cron.next(earlier)
    assert back is not None
    assert forth is not None
    assert back.timestamp() in (earlier.timestamp(), now.timestamp())
    assert forth.timestamp() in (later.timestamp(), now.timestamp())
    assert cron.first(int(now.timestamp()) * 1000) == later.timestamp() * 1000


@st.composite
def common_fields(draw: st.DrawFn, low: int, high: int, steps: bool) -> str:
    """A field that croniter, cronsim and we read alike.

    Left out are croniter 7's faults: `9-9` and `0-23` are read as `*`, and the step of `5/2` is
    lost. So are days as `*/n`, which cronsim does not count as restricted.
    """
    kinds = ["*", "list", "a-b", "a-b/n", *(["*/n"] if steps else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "*":
        return "*"
    if kind == "*/n":
        return f"*/{draw(st.integers(2, (high - low) // 2))}"
    if kind == "list":
        values = draw(st.sets(st.integers(low, high), min_size=1, max_size=4))
        return ",".join(map(str, sorted(values)))
    first = draw(st.integers(low + 1, high - 1))
    last = draw(st.integers(first + 1, high))
    return f"{first}-{last}" + (f"/{draw(st.integers(2, 5))}" if kind == "a-b/n" else "")


common_expressions = st.tuples(
    common_fields(0, 59, True),
    common_fields(0, 23, True),
    common_fields(1, 28, False),
    common_fields(1, 12, True),
    common_fields(0, 6, False),
).map(" ".join)


@settings(max_examples=150)
@given(common_expressions, st.datetimes(datetime(1990, 1, 1), datetime(2080, 1, 1)))
def test_against_other_libraries(expression: str, naive: datetime) -> None:
    """C1: in the common dialect, in UTC, the times are those of croniter and of cronsim."""
    now = naive.replace(tzinfo=UTC)
    found = Cron(expression, "UTC").upcoming(now, 3)
    theirs = croniter(expression, now)
    assert [theirs.get_next(datetime) for _ in found] == found
    assert [moment for moment, _ in zip(CronSim(expression, now), found, strict=False)] == found
    assert Cron(expression, "UTC").previous(now) == croniter(expression, now).get_prev(datetime)
