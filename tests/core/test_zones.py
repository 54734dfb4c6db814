from __future__ import annotations

import io
import struct
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from zoneinfo import ZoneInfo

import pytest
import tzlocal
from hypothesis import example, given
from hypothesis import strategies as st

from weftjobs.errors import InvalidScheduleError, UnknownTimeZoneError
from weftjobs.zones import FIRST_SECOND, LAST_SECOND, find_zone, next_instant, previous_instant

HOUR = 3600
DAY = 24 * HOUR
NAMES = sorted(zoneinfo.available_timezones() - {"localtime"})


def seconds(text: str) -> int:
    """The seconds of an ISO time; one without an offset is a wall time."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp())


class Walls:
    """A list of matching wall times, which remembers what it was asked about."""

    def __init__(self, *walls: str | int) -> None:
        self.walls = sorted(seconds(wall) if isinstance(wall, str) else wall for wall in walls)
        self.asked: list[int] = []

    def next(self, wall: int) -> int | None:
        self.asked.append(wall)
        return next((match for match in self.walls if match > wall), None)

    def previous(self, wall: int) -> int | None:
        self.asked.append(wall)
        return next((match for match in reversed(self.walls) if match < wall), None)


def forwards(walls: Walls, zone: str | ZoneInfo, after: int, *, repeats: bool) -> list[int]:
    found = []
    instant = next_instant(walls.next, find_zone(zone), after, repeats=repeats)
    while instant is not None:
        found.append(instant)
        instant = next_instant(walls.next, find_zone(zone), instant, repeats=repeats)
    return found


def backwards(walls: Walls, zone: str | ZoneInfo, before: int, *, repeats: bool) -> list[int]:
    found = []
    instant = previous_instant(walls.previous, find_zone(zone), before, repeats=repeats)
    while instant is not None:
        found.append(instant)
        instant = previous_instant(walls.previous, find_zone(zone), instant, repeats=repeats)
    return found


# The wall times of a zone around a change, and the instants at which they come.
CHANGES = [
    pytest.param(
        "Europe/Berlin",
        ["2026-03-29T01:59:59", "2026-03-29T02:00", "2026-03-29T02:59:59", "2026-03-29T03:00"],
        ["2026-03-29T00:59:59Z", "2026-03-29T01:00Z"],
        [],
        id="a gap of an hour",
    ),
    pytest.param(
        "Europe/Berlin",
        ["2026-10-25T01:59:59", "2026-10-25T02:00", "2026-10-25T02:59:59", "2026-10-25T03:00"],
        ["2026-10-24T23:59:59Z", "2026-10-25T00:00Z", "2026-10-25T00:59:59Z", "2026-10-25T02:00Z"],
        ["2026-10-25T01:00Z", "2026-10-25T01:59:59Z"],
        id="a fold of an hour",
    ),
    pytest.param(
        "Australia/Lord_Howe",
        ["2026-10-04T02:00", "2026-10-04T02:29:59", "2026-10-04T02:30"],
        ["2026-10-03T15:30Z"],
        [],
        id="a gap of half an hour",
    ),
    pytest.param(
        "Australia/Lord_Howe",
        ["2026-04-05T01:29:59", "2026-04-05T01:30", "2026-04-05T02:00"],
        ["2026-04-04T14:29:59Z", "2026-04-04T14:30Z", "2026-04-04T15:30Z"],
        ["2026-04-04T15:00Z"],
        id="a fold of half an hour",
    ),
    pytest.param(
        "Antarctica/Troll",
        ["2026-03-29T00:59", "2026-03-29T01:00", "2026-03-29T02:59", "2026-03-29T03:00"],
        ["2026-03-29T00:59Z", "2026-03-29T01:00Z"],
        [],
        id="a gap of two hours",
    ),
    pytest.param(
        "Antarctica/Troll",
        ["2026-10-25T01:00", "2026-10-25T02:59", "2026-10-25T03:00"],
        ["2026-10-24T23:00Z", "2026-10-25T00:59Z", "2026-10-25T03:00Z"],
        ["2026-10-25T01:00Z", "2026-10-25T02:59Z"],
        id="a fold of two hours",
    ),
    pytest.param(
        "Pacific/Apia",
        ["2011-12-29T23:59", "2011-12-30T00:00", "2011-12-30T12:00", "2011-12-31T00:00"],
        ["2011-12-30T09:59Z", "2011-12-30T10:00Z"],
        [],
        id="a date that never happens",
    ),
    pytest.param(
        "Pacific/Kwajalein",
        ["1993-08-20T23:59", "1993-08-21T00:00", "1993-08-21T23:59", "1993-08-22T00:00"],
        ["1993-08-21T11:59Z", "1993-08-21T12:00Z"],
        [],
        id="a gap of a whole day",
    ),
    pytest.param(
        "Pacific/Kwajalein",
        ["1969-09-30T00:30", "1969-09-30T01:30", "1969-09-30T23:30", "1969-10-01T00:30"],
        ["1969-09-29T13:30Z", "1969-09-29T14:30Z", "1969-09-30T12:30Z", "1969-10-01T12:30Z"],
        ["1969-09-30T13:30Z", "1969-10-01T11:30Z"],
        id="a fold of 23 hours",
    ),
    pytest.param(
        "Europe/Amsterdam",
        ["1937-06-30T23:59:59", "1937-07-01T00:00:00", "1937-07-01T00:00:28"],
        ["1937-06-30T22:40:27Z", "1937-06-30T22:40:28Z"],
        [],
        id="a gap of 28 seconds",
    ),
    pytest.param(
        "Africa/Monrovia",
        ["1972-01-06T23:59:59", "1972-01-07T00:44:29", "1972-01-07T00:44:30"],
        ["1972-01-07T00:44:29Z", "1972-01-07T00:44:30Z"],
        [],
        id="a gap that ends at an odd second",
    ),
]


@pytest.mark.parametrize(("zone", "walls", "once", "again"), CHANGES)
def test_wall_times_around_a_change(
    zone: str, walls: list[str], once: list[str], again: list[str]
) -> None:
    """C5: a wall time in a gap never comes, one in a fold comes twice or at first only."""
    first = [seconds(instant) for instant in once]
    every = sorted(first + [seconds(instant) for instant in again])
    start, end = every[0] - 30 * DAY, every[-1] + 30 * DAY
    dates = Walls(*walls)
    assert forwards(dates, zone, start, repeats=False) == first
    assert forwards(dates, zone, start, repeats=True) == every
    assert backwards(dates, zone, end, repeats=False) == first[::-1]
    assert backwards(dates, zone, end, repeats=True) == every[::-1]


@pytest.mark.parametrize(("zone", "walls", "once", "again"), CHANGES)
def test_the_ends_are_exclusive(
    zone: str, walls: list[str], once: list[str], again: list[str]
) -> None:
    """C4: from any instant beside a match, the search finds what is strictly past it."""
    every = sorted(map(seconds, once + again))
    dates = Walls(*walls)
    for at in (match + near for match in every for near in (-1, 0, 1)):
        later = [match for match in every if match > at]
        earlier = [match for match in every if match < at]
        assert forwards(dates, zone, at, repeats=True) == later
        assert backwards(dates, zone, at, repeats=True) == earlier[::-1]


def test_a_last_wall_time_comes_again() -> None:
    """C5: the last of the matching wall times still has its second occurrence."""
    fold = Walls("2026-10-25T02:30")
    assert forwards(fold, "Europe/Berlin", seconds("2026-10-25T00:30Z"), repeats=True) == [
        seconds("2026-10-25T01:30Z")
    ]
    assert backwards(fold, "Europe/Berlin", seconds("2026-10-25T01:30Z"), repeats=True) == [
        seconds("2026-10-25T00:30Z")
    ]


def test_a_wall_time_far_away_is_asked_for_a_few_times() -> None:
    """C9: a calendar that is slow to answer is asked a few times, however far it looks."""
    zone, far = ZoneInfo("Europe/Berlin"), seconds("2526-07-01T12:00")
    walls = Walls(far)
    assert next_instant(walls.next, zone, 0, repeats=True) == far - 7200
    assert len(walls.asked) == 1
    assert previous_instant(Walls(0).previous, zone, far, repeats=True) == -3600
    assert next_instant(Walls().next, zone, 0, repeats=True) is None


def folding_zone(fold: int) -> ZoneInfo:
    """A zone that goes from UTC+12 to UTC-11 at an instant, as a file of the database."""
    counts = struct.pack(">6l", 0, 0, 0, 1, 2, 2)
    types = struct.pack(">lbBlbB", 12 * HOUR, 0, 0, -11 * HOUR, 0, 0)
    data = b"TZif" + bytes(16) + counts + struct.pack(">lB", fold, 1) + types + b"A\0"
    return ZoneInfo.from_file(io.BytesIO(data))


def test_a_long_fold_at_any_time() -> None:
    """C5: a fold of 23 hours is told from a first occurrence wherever it lies in the year."""
    for fold in range(seconds("2026-01-01T00:00Z"), seconds("2026-03-15T00:00Z"), 11 * HOUR):
        zone = folding_zone(fold)
        before = list(range(fold - 30 * HOUR, fold, HOUR))
        after = list(range(fold + 23 * HOUR, fold + 60 * HOUR, HOUR))
        walls = Walls(*(at + 12 * HOUR for at in before), *(at - 11 * HOUR for at in after))
        assert forwards(walls, zone, before[0] - 1, repeats=False) == before + after
        assert backwards(walls, zone, after[-1] + 1, repeats=False) == (before + after)[::-1]
        first = Walls(*(at + 12 * HOUR for at in before))
        assert backwards(first, zone, fold + 72 * HOUR, repeats=False) == before[::-1]


def every_second_next(wall: int) -> int | None:
    assert FIRST_SECOND - 1 <= wall <= LAST_SECOND
    return wall + 1


def every_second_previous(wall: int) -> int | None:
    assert FIRST_SECOND <= wall <= LAST_SECOND + 1
    return wall - 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("repeats", [False, True])
def test_the_ends_of_the_calendar(zone: str, repeats: bool) -> None:
    """C4: the search ends where an instant or its wall time would leave years 1 to 9999."""
    here = ZoneInfo(zone)

    def after(instant: int) -> int | None:
        return next_instant(every_second_next, here, instant, repeats=repeats)

    def before(instant: int) -> int | None:
        return previous_instant(every_second_previous, here, instant, repeats=repeats)

    first, last = after(-(10**30)), before(10**30)
    assert first is not None
    assert last is not None
    shown_first, shown_last = (
        datetime.fromtimestamp(end, UTC).astimezone(here).replace(tzinfo=None)
        for end in (first, last)
    )
    assert first == FIRST_SECOND or shown_first == datetime(1, 1, 1)
    assert last == LAST_SECOND or shown_last == datetime(9999, 12, 31, 23, 59, 59)
    assert after(first - 1) == first
    assert before(last + 1) == last
    assert after(last) is after(10**30) is before(first) is before(-(10**30)) is None


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_database(name: str) -> None:
    """C6: every IANA name is a zone."""
    assert find_zone(name) is ZoneInfo(name)


BAD_NAMES = [
    "Mars/Olympus",
    "",
    " ",
    "America",
    "America/",
    "/America/Toronto",
    "./UTC",
    "Europe//Berlin",
    "Europe/Berlin ",
    "../etc/passwd",
    "/etc/passwd",
    "zone.tab",
    "leapseconds",
    "tzdata.zi",
    "posix/Europe/Berlin",
    "right/Europe/Berlin",
    "posixrules",
    "localtime",
    "__init__",
    "__pycache__",
    "UTC\0",
    "UTC\n",
    "\ud800",
    "Europe/Bérlin",
    "EST5EDT,M3.2.0,M11.1.0",
    "+02:00",
    "A/" * 500_000,
    "a" * 1_000_000,
    5,
    5.5,
    True,
    b"UTC",
    ["UTC"],
    UTC,
    object(),
]


@pytest.mark.parametrize("zone", BAD_NAMES, ids=lambda zone: ascii(zone)[:30])
def test_no_zone(zone: str) -> None:
    """C6: whatever is not a zone raises one kind of error, which names the field."""
    with pytest.raises(UnknownTimeZoneError, match=r"^tz: .* is not a known time zone") as caught:
        find_zone(zone, "tz")
    assert caught.value.reason == "invalid"
    assert "Europe/Berlin" in caught.value.fix
    assert len(str(caught.value)) <= 500


@given(st.text() | st.text(alphabet="UTC/.-+EuropeBerlin\\:\0 ", max_size=20))
@example("Etc/UTC")
def test_any_text_is_a_zone_or_refused(text: str) -> None:
    """C6: text is an IANA name or refused, whatever `zoneinfo` would raise."""
    try:
        assert find_zone(text).key in NAMES
    except UnknownTimeZoneError as error:
        assert error.timezone == text  # noqa: PT017


def from_file(key: str | None, name: str = "Europe/Berlin") -> ZoneInfo:
    data = resources.files("tzdata.zoneinfo").joinpath(name).read_bytes()
    return ZoneInfo.from_file(io.BytesIO(data), key=key)


def test_a_zone_object() -> None:
    """C6: a `ZoneInfo` is taken; one with the key of a known zone becomes that zone."""
    berlin = ZoneInfo("Europe/Berlin")
    assert find_zone(berlin) is berlin
    assert find_zone(ZoneInfo.no_cache("Europe/Berlin")) is berlin
    assert find_zone(from_file("Europe/Berlin")) is berlin


@pytest.mark.parametrize("key", [None, "local"])
def test_a_zone_object_without_a_known_key(key: str | None) -> None:
    """C6: a `ZoneInfo` read from a file is taken as it is."""
    zone = from_file(key)
    assert find_zone(zone) is zone


@pytest.mark.parametrize("key", ["right/Europe/Berlin", "posix/UTC", "localtime"])
def test_a_zone_object_of_a_foreign_name(key: str) -> None:
    """C6: zones beside IANA's are refused as objects too."""
    with pytest.raises(UnknownTimeZoneError, match=key):
        find_zone(from_file(key))


def stand_in(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], object]) -> None:
    monkeypatch.setattr(tzlocal, "get_localzone", answer)


@pytest.mark.parametrize("zone", [ZoneInfo("Asia/Tokyo"), from_file("local")], ids=repr)
def test_the_zone_of_the_process(monkeypatch: pytest.MonkeyPatch, zone: ZoneInfo) -> None:
    """C6: without a zone it is that of the process, also where it has no name."""
    stand_in(monkeypatch, lambda: zone)
    assert find_zone(None) is zone


@pytest.mark.parametrize(
    "error",
    [zoneinfo.ZoneInfoNotFoundError("TZ is odd"), ValueError("TZ is odd"), OSError("TZ is odd")],
    ids=repr,
)
def test_no_zone_of_the_process(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """C6: a process whose zone cannot be found out is told to name one."""

    def broken() -> object:
        raise error

    stand_in(monkeypatch, broken)
    with pytest.raises(InvalidScheduleError, match=r"^timezone: .*TZ is odd") as caught:
        find_zone(None)
    assert "Name the zone" in caught.value.fix
