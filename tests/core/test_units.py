"""Durations and instants: every way to write them, to milliseconds and back."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weftjobs.errors import InvalidScheduleError
from weftjobs.units import (
    MAX_INSTANT,
    MIN_INSTANT,
    format_duration,
    parse_duration,
    to_datetime,
    to_duration,
    to_instant,
)

quick = settings(derandomize=True, deadline=None, max_examples=200)
BERLIN = ZoneInfo("Europe/Berlin")


class Clockless(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> None:
        return None


class Broken(Clockless):
    """A time zone that fails when it is asked."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        raise RuntimeError("no network")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1ms", 1),
        ("30s", 30_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("1h 30m", 5_400_000),
        ("  1h   30m ", 5_400_000),
        ("2d", 172_800_000),
        ("30m1h", 5_400_000),
        ("1m1m", 120_000),
        ("1m1ms1s", 61_001),
        ("007s", 7_000),
        ("0s1ms", 1),
        ("0.1s", 100),
        ("0.0005s", 1),
        ("0.5ms", 1),
        ("1.4999ms", 1),
        ("1.5ms", 2),
        ("2.5ms", 3),
        ("0.25ms0.25ms", 1),
        ("0.000000011574074074074074074074d", 1),
        ("2932896d", 253_402_214_400_000),
        ("253402300799999ms", MAX_INSTANT),
    ],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    """C7: numbers with units add up to whole milliseconds, halves rounded up."""
    assert parse_duration(text) == milliseconds
    assert to_duration(text, "every") == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "h",
        "s1",
        "-1h",
        "+1h",
        "1H",
        "1 h",
        ".5h",
        "1.h",
        "1..5h",
        "1.5.5h",
        "1,5h",
        "1h,30m",
        "1e3s",
        "1_000s",
        "1h30",
        "30 1h",
        "1hour",
        "1w",
        "1us",
        "inf",
        "nan",
        "0x1s",
        "1h\n",
        "\t1h",
        "1h\x00",
        "1\u00a0h",
        "\uff11h",
        "\u0661s",
        "* * * * *",
    ],
)
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    """C7: anything else is refused, naming the field and the value."""
    with pytest.raises(InvalidScheduleError, match=r"^every: ") as refusal:
        to_duration(text, "every")
    assert refusal.value.reason == "invalid"
    assert refusal.value.fix
    with pytest.raises(InvalidScheduleError, match=r"^duration: "):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("0s", "'0s' is less than 1 millisecond"),
        ("0.4ms", "'0.4ms' is less than 1 millisecond"),
        (0, "0 is less than 1 millisecond"),
        (-1, "-1 is less than 1 millisecond"),
        (0.49999999999999994, "0.49999999999999994 is less than 1 millisecond"),
        (timedelta(microseconds=499), "is less than 1 millisecond"),
        (timedelta.min, "is less than 1 millisecond"),
        (timedelta.max, "is more than the calendar holds"),
        (MAX_INSTANT + 1, "is more than the calendar holds"),
        pytest.param(10**5000, "is more than the calendar holds", id="5001 digits"),
        (1e300, "is more than the calendar holds"),
        ("253402300800s", "is more than the calendar holds"),
        ("9" * 999 + "d", "is more than the calendar holds"),
        (float("nan"), "nan is not a finite number"),
        (float("inf"), "inf is not a finite number"),
        (True, "True is of type bool"),
        (None, "None is of type NoneType"),
        (Decimal(5), "is of type Decimal"),
        (Fraction(5), "is of type Fraction"),
        (b"1h", "is of type bytes"),
        (["1h"], "is of type list"),
        (datetime(2026, 1, 1, tzinfo=UTC), "is of type datetime"),
    ],
)
def test_what_no_interval_can_be_is_refused(value: Any, wrong: str) -> None:
    """Z2: a duration is at least 1 ms, fits the calendar, and is a number, timedelta or text."""
    with pytest.raises(InvalidScheduleError, match=r"^every: ") as refusal:
        to_duration(value, "every")
    assert wrong in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (5, 5),
        (5.0, 5),
        (0.5, 1),
        (1.5, 2),
        (2.5, 3),
        (2.4, 2),
        (timedelta(hours=1), 3_600_000),
        (timedelta(microseconds=500), 1),
        (timedelta(microseconds=1_499), 1),
        (MAX_INSTANT, MAX_INSTANT),
    ],
)
def test_numbers_are_milliseconds(value: float | timedelta, milliseconds: int) -> None:
    """Z2: a bare number is milliseconds, and a timedelta works as well; halves round up."""
    result = to_duration(value, "every")
    assert (result, type(result)) == (milliseconds, int)


@pytest.mark.parametrize("text", ["30", " 30 ", "1.5"])
def test_a_number_without_a_unit_is_told_its_fix(text: str) -> None:
    """C7: a text of a bare number is no duration, and the fix says both that it may mean."""
    with pytest.raises(InvalidScheduleError, match="a number without a unit") as refusal:
        to_duration(text, "every")
    number = text.strip()
    assert refusal.value.fix == (
        f"Write '{number}s' for seconds, or the number {number} for milliseconds."
    )


@pytest.mark.parametrize("unit", ["1", "1h", " ", "\u0661"])
def test_long_text_is_refused_by_its_length(unit: str) -> None:
    """C8: what has more than 1,000 characters is refused before it is read."""
    for read in (to_duration, to_instant):
        with pytest.raises(InvalidScheduleError, match="more than 1000") as refusal:
            read(unit * 1_000_000, "every")
        assert len(str(refusal.value)) < 200


@pytest.mark.parametrize("value", [None, 5, b"1h", timedelta(1), True])
def test_parse_duration_takes_text_alone(value: Any) -> None:
    """C7: parse_duration reads text; anything else is refused, not a TypeError."""
    with pytest.raises(InvalidScheduleError, match=r"^duration: .* is not text"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1, "1ms"),
        (5_400_000, "1h30m"),
        (90_061_001, "1d1h1m1s1ms"),
        (86_400_000, "1d"),
        (timedelta(minutes=90), "1h30m"),
        ("90m", "1h30m"),
    ],
)
def test_durations_are_written(milliseconds: int | timedelta | str, text: str) -> None:
    """C7: format_duration writes the largest units first and leaves out what is zero."""
    assert format_duration(milliseconds) == text


@quick
@given(st.integers(1, MAX_INSTANT))
def test_a_written_duration_reads_back(milliseconds: int) -> None:
    """C7: parse_duration reads what format_duration writes to the same number."""
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@quick
@given(
    st.lists(
        st.tuples(st.decimals(0, 9_999, places=4), st.sampled_from(["d", "h", "m", "s", "ms"])),
        min_size=1,
        max_size=4,
    )
)
def test_decimals_are_exact(parts: list[tuple[Decimal, str]]) -> None:
    """C7: decimals add up exactly, and only the sum is rounded, halves up."""
    sizes = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
    exact = sum(Fraction(number) * sizes[unit] for number, unit in parts)
    expected = (exact + Fraction(1, 2)) // 1
    text = " ".join(f"{number:f}{unit}" for number, unit in parts)
    if expected < 1:
        with pytest.raises(InvalidScheduleError):
            parse_duration(text)
    else:
        assert parse_duration(text) == expected


@quick
@given(st.text(max_size=20) | st.text("0123456789.hmsd ", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    """C8: no text raises anything but the one error."""
    for read in (to_duration, to_instant):
        with suppress(InvalidScheduleError):
            assert isinstance(read(text, "at"), int)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (0, 0),
        (-1, -1),
        (1_788_620_400_000, 1_788_620_400_000),
        (1.9, 1),
        (-0.5, -1),
        ("2026-09-05T15:00:00Z", 1_788_620_400_000),
        ("2026-09-05T17:00:00+02:00", 1_788_620_400_000),
        ("2026-09-05T15:00:00-00:00", 1_788_620_400_000),
        ("2026-09-05 15:00Z", 1_788_620_400_000),
        ("20260905T150000Z", 1_788_620_400_000),
        ("2026-W36-6T15:00Z", 1_788_620_400_000),
        ("2026-09-05T15:00:00.1239999Z", 1_788_620_400_123),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("0001-01-01T00:00:00Z", MIN_INSTANT),
        ("9999-12-31T23:59:59.999Z", MAX_INSTANT),
        (datetime(2026, 9, 5, 15, tzinfo=UTC), 1_788_620_400_000),
        (datetime(2026, 9, 5, 17, tzinfo=BERLIN), 1_788_620_400_000),
        (datetime(2026, 9, 5, 15, 0, 0, 999, tzinfo=UTC), 1_788_620_400_000),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), 1_792_888_200_000),
        (datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN), 1_792_891_800_000),
        (datetime(1, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), MIN_INSTANT),
    ],
)
def test_instants_are_read(value: int | str | datetime, milliseconds: int) -> None:
    """Z2: an instant is milliseconds, an aware datetime, or ISO text with an offset."""
    result = to_instant(value, "at")
    assert (result, type(result)) == (milliseconds, int)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 9, 5, 15),
        datetime(2026, 9, 5, 15, tzinfo=Clockless()),
        "2026-09-05T15:00:00",
        "2026-09-05",
        "20260905",
        "2026",
    ],
)
def test_an_instant_without_an_offset_is_refused(value: datetime | str) -> None:
    """Z2: a naive datetime, or text without an offset, is refused with words that say so."""
    with pytest.raises(InvalidScheduleError, match=r"^at: .* has no offset") as refusal:
        to_instant(value, "at")
    assert "Say which zone" in refusal.value.fix


@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        float("nan"),
        float("-inf"),
        MAX_INSTANT + 1,
        MIN_INSTANT - 1,
        pytest.param(10**5000, id="5001 digits"),
        -1e300,
        Decimal(5),
        date(2026, 9, 5),
        timedelta(1),
        b"2026-09-05T15:00:00Z",
        "",
        "soon",
        "15:00Z",
        "1788620400000",
        "2026-02-30T00:00:00Z",
        "2026-09-05T15:00:60Z",
        "2026-09-05T25:00:00Z",
        "2026-09-05T15:00:00+25:00",
        " 2026-09-05T15:00:00Z",
        "2026-09-05T15:00:00Z ",
        "2026-09-05\x0015:00:00Z",
        "2026-09-05T15:00:00Z[UTC]",
        "2026-09-05T1\u0665:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T24:00:00Z",
        "10000-01-01T00:00:00Z",
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))),
        datetime(2026, 9, 5, tzinfo=Broken()),
    ],
)
def test_what_is_not_an_instant_is_refused(value: Any) -> None:
    """Z2: whatever is not an instant of the calendar is refused, not overflowed."""
    with pytest.raises(InvalidScheduleError, match=r"^at: ") as refusal:
        to_instant(value, "at")
    assert refusal.value.fix


@quick
@given(st.integers(MIN_INSTANT, MAX_INSTANT))
def test_a_datetime_reads_back(milliseconds: int) -> None:
    """Z2: the datetime of an instant, and its ISO text, are read to the same instant."""
    moment = to_datetime(milliseconds)
    assert moment.utcoffset() == timedelta(0)
    assert to_instant(moment, "at") == milliseconds
    assert to_instant(moment.isoformat(), "at") == milliseconds


@quick
@given(st.integers(0, 4_102_444_800_000))
def test_a_datetime_of_a_zone_reads_back(milliseconds: int) -> None:
    """Z2: so is one in a zone that repeats an hour: the fold counts."""
    moment = to_datetime(milliseconds, BERLIN)
    assert moment.tzinfo is BERLIN
    assert to_instant(moment, "at") == milliseconds


@pytest.mark.parametrize(
    ("milliseconds", "hours"),
    [(MAX_INSTANT + 1, 0), (MAX_INSTANT, 1), (MIN_INSTANT, -1), (10**400, 0)],
)
def test_a_datetime_past_the_calendar_is_refused(milliseconds: int, hours: int) -> None:
    """Z2: an instant that no datetime can hold is refused, not overflowed."""
    with pytest.raises(InvalidScheduleError, match="outside the calendar"):
        to_datetime(milliseconds, timezone(timedelta(hours=hours)))
