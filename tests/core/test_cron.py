from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
import tzlocal

from weftjobs.cron import Cron
from weftjobs.errors import InvalidScheduleError, UnknownTimeZoneError

Repeated = Literal["once", "twice"]

CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parent / "cron_sample.jsonl").read_text("utf-8").splitlines()
]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def milliseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def iso(moments: list[datetime]) -> list[str]:
    return [moment.isoformat(" ") for moment in moments]


@pytest.mark.parametrize("shard", range(6))
def test_the_corpus(shard: int) -> None:
    """C1 to C5: the next five times of expressions in many zones; none where no date matches."""
    for case in CORPUS[shard::6]:
        after = datetime.fromisoformat(case["after"])
        try:
            cron = Cron(case["expr"], case["tz"], repeated=case["policy"])
        except InvalidScheduleError:
            found = []
        else:
            found = cron.upcoming(after, 5)
        utc = [moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for moment in found]
        assert utc == case["next5"], case


def test_the_whole_corpus_is_there() -> None:
    """C4: the corpus has both ways to treat a repeated time, and expressions without a date."""
    assert len(CORPUS) == 1500
    assert {case["policy"] for case in CORPUS} == {"once", "twice"}
    assert sum(not case["next5"] for case in CORPUS) == 7


def test_next_is_in_the_zone_of_the_cron() -> None:
    """C4: the next match is an aware datetime in the cron's zone."""
    found = Cron("30 9 * * mon-fri", "Asia/Shanghai").next(datetime(2026, 10, 16, 12, tzinfo=UTC))
    assert found is not None
    assert found.isoformat() == "2026-10-19T09:30:00+08:00"
    assert found.tzinfo is ZoneInfo("Asia/Shanghai")


@pytest.mark.parametrize(
    ("at", "later", "earlier"),
    [
        ("2026-01-01T11:59:59Z", "2026-01-01T12:00Z", "2026-01-01T11:59:30Z"),
        ("2026-01-01T11:59:59.999999Z", "2026-01-01T12:00Z", "2026-01-01T11:59:30Z"),
        ("2026-01-01T12:00:00Z", "2026-01-01T12:00:30Z", "2026-01-01T11:59:30Z"),
        ("2026-01-01T12:00:00.000001Z", "2026-01-01T12:00:30Z", "2026-01-01T12:00Z"),
        ("1969-12-31T23:59:59.5Z", "1970-01-01T00:00Z", "1969-12-31T23:59:30Z"),
        ("1970-01-01T00:00:00.5Z", "1970-01-01T00:00:30Z", "1970-01-01T00:00Z"),
        ("1969-12-31T23:59:30.5Z", "1970-01-01T00:00Z", "1969-12-31T23:59:30Z"),
        ("2026-01-01T17:29:30+05:30", "2026-01-01T12:00Z", "2026-01-01T11:59Z"),
    ],
)
def test_next_and_previous_are_strict(at: str, later: str, earlier: str) -> None:
    """C4: matches are strictly after and before an instant, which may have a fraction."""
    cron = Cron("*/30 * * * * *", "UTC")
    moment = datetime.fromisoformat(at)
    assert cron.next(moment) == instant(later)
    assert cron.previous(moment) == instant(earlier)


@pytest.mark.parametrize(
    ("now", "expected"),
    [(-1, 0), (0, 1000), (1, 1000), (999, 1000), (1000, 2000), (-1000, 0), (-1001, -1000)],
)
def test_the_trigger_counts_milliseconds(now: int, expected: int) -> None:
    """R4: as a trigger a cron answers the first match strictly after now, in milliseconds."""
    assert Cron("* * * * * *", "UTC").first(now) == expected


def test_the_trigger_is_past_both_instants() -> None:
    """S4: the slot after a previous one is past it and past now, whichever is later."""
    cron = Cron("0 * * * *", "UTC")
    hour = 3_600_000
    assert cron.after(hour, 0) == 2 * hour
    assert cron.after(hour, 5 * hour) == 6 * hour
    assert cron.after(hour, 5 * hour - 1) == 5 * hour


def test_the_trigger_answers_none_at_the_end_of_the_calendar() -> None:
    """R4: a trigger has no slot when the calendar ends first."""
    cron = Cron("* * * * *", "UTC")
    end = milliseconds(datetime(9999, 12, 31, 23, 59, tzinfo=UTC))
    assert cron.first(end - 1) == end
    assert cron.first(end) is cron.first(10**40) is cron.after(end, 0) is None


@pytest.mark.parametrize(
    ("expression", "day"),
    [
        ("0 12 * * *", "2026-10-17"),
        ("0 12 13 * *", "2026-11-13"),
        ("0 12 * * fri", "2026-10-23"),
        ("0 12 20 * fri", "2026-10-20"),
        ("0 12 24 * fri", "2026-10-23"),
        ("0 12 31 * *", "2026-10-31"),
        ("0 12 31 11,12 *", "2026-12-31"),
        ("0 12 */31 * mon", "2026-10-19"),
        ("0 12 1 1 *", "2027-01-01"),
    ],
)
def test_days(expression: str, day: str) -> None:
    """C2: a day that matches either of two restricted day fields matches."""
    found = Cron(expression, "UTC").next(datetime(2026, 10, 16, 12, tzinfo=UTC))
    assert found == datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("after", "expected"),
    [(2026, 2028), (2096, 2104), (2100, 2104), (1896, 1904), (1, 4), (2396, 2400), (9990, 9992)],
)
def test_february_29(after: int, expected: int) -> None:
    """C3: February 29 is found from any year, across 2100 too, in both directions."""
    cron = Cron("0 0 29 2 *", "UTC")
    assert cron.next(datetime(after, 3, 1, tzinfo=UTC)) == datetime(expected, 2, 29, tzinfo=UTC)
    assert cron.next(datetime(9996, 2, 29, tzinfo=UTC)) is None
    leap = datetime(expected, 2, 29, tzinfo=UTC)
    later = cron.next(leap)
    assert later is None or cron.previous(later) == leap


def test_every_february_29() -> None:
    """C3: every leap day of eight centuries is found, forwards and backwards."""
    cron = Cron("0 0 29 2 *", "UTC")
    leap_days = [
        datetime(year, 2, 29, tzinfo=UTC)
        for year in range(1600, 2400)
        if year % 4 == 0 and (year % 100 or year % 400 == 0)
    ]
    assert cron.upcoming(datetime(1600, 1, 1, tzinfo=UTC), len(leap_days)) == leap_days
    assert [cron.previous(day) for day in leap_days[1:]] == leap_days[:-1]


# Zone, expression, after, then the times until something is past the change.
CHANGES: list[tuple[str, str, str, Repeated, list[str]]] = [
    (
        "America/Toronto",
        "30 2 * * *",
        "2026-03-07T12:00Z",
        "twice",
        ["2026-03-09 02:30:00-04:00", "2026-03-10 02:30:00-04:00"],
    ),
    (
        "America/Toronto",
        "30 1 * * *",
        "2026-10-31T12:00Z",
        "once",
        ["2026-11-01 01:30:00-04:00", "2026-11-02 01:30:00-05:00"],
    ),
    (
        "America/Toronto",
        "30 1 * * *",
        "2026-10-31T12:00Z",
        "twice",
        [
            "2026-11-01 01:30:00-04:00",
            "2026-11-01 01:30:00-05:00",
            "2026-11-02 01:30:00-05:00",
        ],
    ),
    (
        "America/Toronto",
        "0,30 0-22 * * *",
        "2026-11-01T04:45Z",
        "once",
        ["2026-11-01 01:00:00-04:00", "2026-11-01 01:30:00-04:00", "2026-11-01 02:00:00-05:00"],
    ),
    (
        "America/Toronto",
        "0,30 0-23 * * *",
        "2026-11-01T04:45Z",
        "once",
        [
            "2026-11-01 01:00:00-04:00",
            "2026-11-01 01:30:00-04:00",
            "2026-11-01 01:00:00-05:00",
            "2026-11-01 01:30:00-05:00",
            "2026-11-01 02:00:00-05:00",
        ],
    ),
    (
        "Australia/Lord_Howe",
        "*/20 */1 * * *",
        "2026-04-04T14:30Z",
        "once",
        [
            "2026-04-05 01:40:00+11:00",
            "2026-04-05 01:40:00+10:30",
            "2026-04-05 02:00:00+10:30",
        ],
    ),
    (
        "Australia/Lord_Howe",
        "15,45 1-2 * * *",
        "2026-10-03T14:00Z",
        "once",
        ["2026-10-04 01:15:00+10:30", "2026-10-04 01:45:00+10:30", "2026-10-04 02:45:00+11:00"],
    ),
    (
        "Antarctica/Troll",
        "0 2 * * *",
        "2026-10-24T12:00Z",
        "once",
        ["2026-10-25 02:00:00+02:00", "2026-10-26 02:00:00+00:00"],
    ),
    (
        "Antarctica/Troll",
        "0 2 * * *",
        "2026-03-28T12:00Z",
        "once",
        ["2026-03-30 02:00:00+02:00"],
    ),
    (
        "Africa/Cairo",
        "0 0 * * *",
        "2026-04-22T12:00Z",
        "once",
        ["2026-04-23 00:00:00+02:00", "2026-04-25 00:00:00+03:00"],
    ),
    (
        "America/Havana",
        "@daily",
        "2026-03-07T12:00Z",
        "twice",
        ["2026-03-09 00:00:00-04:00"],
    ),
    (
        "America/Havana",
        "@daily",
        "2026-10-31T12:00Z",
        "once",
        ["2026-11-01 00:00:00-04:00", "2026-11-02 00:00:00-05:00"],
    ),
    (
        "Pacific/Apia",
        "0 9 * * *",
        "2011-12-28T20:00Z",
        "once",
        ["2011-12-29 09:00:00-10:00", "2011-12-31 09:00:00+14:00"],
    ),
    (
        "Pacific/Apia",
        "0 9 30 12 *",
        "2010-12-31T20:00Z",
        "once",
        ["2012-12-30 09:00:00+14:00"],
    ),
    (
        "Pacific/Kwajalein",
        "0 12 * * *",
        "1969-09-29T13:00Z",
        "once",
        ["1969-09-30 12:00:00+11:00", "1969-10-01 12:00:00-12:00"],
    ),
    (
        "Pacific/Kwajalein",
        "0 12 * * *",
        "1969-09-29T13:00Z",
        "twice",
        [
            "1969-09-30 12:00:00+11:00",
            "1969-09-30 12:00:00-12:00",
            "1969-10-01 12:00:00-12:00",
        ],
    ),
    (
        "Pacific/Kwajalein",
        "0 12 20-22 * *",
        "1993-08-20T12:00Z",
        "once",
        ["1993-08-20 12:00:00-12:00", "1993-08-22 12:00:00+12:00"],
    ),
    (
        "Europe/Amsterdam",
        "0 12 * * *",
        "1937-06-29T12:00Z",
        "once",
        ["1937-06-30 12:00:00+01:19:32", "1937-07-01 12:00:00+01:20"],
    ),
    (
        "Africa/Monrovia",
        "0 * * * *",
        "1972-01-06T23:30Z",
        "once",
        ["1972-01-06 23:00:00-00:44:30", "1972-01-07 01:00:00+00:00"],
    ),
]


@pytest.mark.parametrize(("zone", "expression", "after", "repeated", "expected"), CHANGES)
def test_clock_changes(
    zone: str, expression: str, after: str, repeated: Repeated, expected: list[str]
) -> None:
    """C5: a time in a gap does not run, one in a fold once or twice, in any kind of zone."""
    cron = Cron(expression, zone, repeated=repeated)
    found = cron.upcoming(datetime.fromisoformat(after), len(expected))
    assert iso(found) == expected
    # Compared as text: Python finds a datetime in a fold equal to none of another zone.
    earlier = [cron.previous(moment.astimezone(UTC)) for moment in found[1:]]
    assert iso([moment for moment in earlier if moment]) == expected[:-1]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo", "Pacific/Apia"])
def test_the_ends_of_the_calendar(zone: str) -> None:
    """C4: next and previous are None where the calendar ends, in zones east and west of UTC."""
    cron = Cron("* * * * * *", zone)
    east, west = timezone(timedelta(hours=23)), timezone(timedelta(hours=-23))
    last = cron.previous(datetime.max.replace(tzinfo=west))
    first = cron.next(datetime.min.replace(tzinfo=east))
    assert last is not None
    assert first is not None
    assert last.year == 9999
    assert first.year == 1
    assert cron.next(last) is cron.next(datetime.max.replace(tzinfo=west)) is None
    assert cron.previous(first) is cron.previous(datetime.min.replace(tzinfo=east)) is None
    assert cron.upcoming(last - timedelta(seconds=2), 5)[-1] == last
    assert Cron("0 0 1 1 *", zone).next(datetime(9999, 6, 1, tzinfo=UTC)) is None
    assert Cron("0 0 31 12 *", zone).previous(datetime(1, 6, 1, tzinfo=UTC)) is None


def test_upcoming() -> None:
    """C4: upcoming lists the next times, fewer where the calendar ends."""
    cron = Cron("0 0 1 1 *", "UTC")
    assert cron.upcoming(datetime(2025, 6, 1, tzinfo=UTC), 2) == [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC),
    ]
    assert cron.upcoming(datetime(2025, 6, 1, tzinfo=UTC), 0) == []
    assert cron.upcoming(datetime(9998, 6, 1, tzinfo=UTC), 7) == [datetime(9999, 1, 1, tzinfo=UTC)]


NO_INSTANT: list[tuple[Any, str]] = [
    (datetime(2026, 1, 1), "without a time zone"),
    (date(2026, 1, 1), "is not a datetime"),
    ("2026-01-01T00:00:00Z", "is not a datetime"),
    (1_700_000_000_000, "is not a datetime"),
    (None, "is not a datetime"),
    (float("nan"), "is not a datetime"),
]


@pytest.mark.parametrize(("moment", "why"), NO_INSTANT)
def test_only_aware_datetimes(moment: Any, why: str) -> None:
    """C4, Z2: a naive datetime, or what is no datetime, is refused with the field named."""
    cron = Cron("* * * * *", "UTC")
    with pytest.raises(InvalidScheduleError, match=f"^after: .*{why}") as caught:
        cron.next(moment)
    assert "tzinfo=UTC" in caught.value.fix
    with pytest.raises(InvalidScheduleError, match=f"^after: .*{why}"):
        cron.upcoming(moment, 1)
    with pytest.raises(InvalidScheduleError, match=f"^before: .*{why}"):
        cron.previous(moment)


@pytest.mark.parametrize("n", [-1, True, 1.0, "1", None])
def test_only_a_count_of_times(n: Any) -> None:
    """C4, Z2: the number of times to list is a whole number, and a bool is none."""
    with pytest.raises(InvalidScheduleError, match=r"^n: ") as caught:
        Cron("* * * * *", "UTC").upcoming(datetime(2026, 1, 1, tzinfo=UTC), n)
    assert caught.value.fix == "Give a whole number, 0 or more."


@pytest.mark.parametrize("expression", ["x", "* * * *", "", None, 5, ["*"], {}, "* " * 10**6])
def test_a_bad_expression(expression: Any) -> None:
    """C1, Z3: a bad expression is an invalid schedule, whatever its type."""
    with pytest.raises(InvalidScheduleError, match=r"^cron: "):
        Cron(expression, "UTC")


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "America", "../etc/passwd", "zone.tab", 5, []]
)
def test_a_bad_zone(zone: Any) -> None:
    """C6: an unknown zone is refused, whatever its type."""
    with pytest.raises(UnknownTimeZoneError, match=r"^timezone: ") as caught:
        Cron("* * * * *", zone)
    assert caught.value.timezone == zone


@pytest.mark.parametrize("repeated", ["thrice", "Once", "", None, True, 1, ["once"], {}])
def test_a_bad_repeated(repeated: Any) -> None:
    """C4: a repeated time runs once or twice; anything else is refused."""
    with pytest.raises(InvalidScheduleError, match=r"^repeated: ") as caught:
        Cron("* * * * *", "UTC", repeated=repeated)
    assert "'once' or 'twice'" in caught.value.fix


def test_the_attributes() -> None:
    """C4: a cron shows what it was made of, and `repeated` is once by default."""
    cron = Cron("@Daily", ZoneInfo("Asia/Tokyo"))
    assert cron.expression == "@Daily"
    assert cron.timezone is ZoneInfo("Asia/Tokyo")
    assert cron.repeated == "once"
    assert Cron("@daily", "Asia/Tokyo", repeated="twice").repeated == "twice"


def test_the_zone_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: the default zone is that of the process."""
    monkeypatch.setattr(tzlocal, "get_localzone", lambda: ZoneInfo("Asia/Tokyo"))
    assert Cron("@daily") == Cron("@daily", "Asia/Tokyo")


def test_a_cron_does_not_change() -> None:
    """C4: a cron is immutable and small."""
    cron: Any = Cron("@daily", "UTC")
    for name in ("expression", "timezone", "repeated", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(cron, name, "x")
    assert not hasattr(cron, "__dict__")


@pytest.mark.parametrize(
    "other",
    [
        Cron("0 0 * * *", "UTC"),
        Cron("0 0 0 ? * ?", "UTC"),
        Cron("00 00 1-31 jan-dec *", "UTC"),
        Cron("0 0 * 1-12 0-7", ZoneInfo("UTC")),
    ],
    ids=repr,
)
def test_equal_crons(other: Cron) -> None:
    """C4: crons that match the same are equal and hash equal, however they are written."""
    cron = Cron("@daily", "UTC")
    assert cron == other
    assert hash(cron) == hash(other)
    assert {cron: "found"}[other] == "found"


@pytest.mark.parametrize(
    "other",
    [
        Cron("@daily", "Etc/UTC"),
        Cron("@daily", "UTC", repeated="twice"),
        Cron("0 1 * * *", "UTC"),
        Cron("1 0 0 * * *", "UTC"),
        "@daily",
        None,
    ],
    ids=repr,
)
def test_crons_that_differ(other: object) -> None:
    """C4: crons that differ in what they match, in the zone or in `repeated` are not equal."""
    assert Cron("@daily", "UTC") != other


def test_either_day_is_part_of_equality() -> None:
    """C2: the same two masks match other days when both fields are restricted."""
    assert Cron("0 0 1-31 * mon", "UTC") != Cron("0 0 * * mon", "UTC")


SOME = [
    Cron("30 9 * * mon-fri", "Asia/Shanghai"),
    Cron("*/10 * * * * *", "UTC", repeated="twice"),
    Cron(" @daily\t", "America/Toronto"),
]


@pytest.mark.parametrize("cron", SOME, ids=repr)
def test_repr_evaluates(cron: Cron) -> None:
    """C4: the repr of a cron is how to write it."""
    again = eval(repr(cron))
    assert again == cron
    assert again.expression == cron.expression


def test_repr() -> None:
    """C4: the repr names `repeated` only where it is not the default."""
    assert repr(SOME[0]) == "Cron('30 9 * * mon-fri', 'Asia/Shanghai')"
    assert repr(SOME[1]) == "Cron('*/10 * * * * *', 'UTC', repeated='twice')"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("cron", SOME, ids=repr)
def test_pickles_and_copies(cron: Cron, protocol: int) -> None:
    """C4: pickles and copies of a cron are equal to it and work like it."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for again in (
        pickle.loads(pickle.dumps(cron, protocol)),
        copy.copy(cron),
        copy.deepcopy(cron),
    ):
        assert again == cron
        assert again.expression == cron.expression
        assert again.next(now) == cron.next(now)
