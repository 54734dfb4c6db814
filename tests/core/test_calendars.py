"""The triggers for what cron cannot say: croniter's dialect and iCalendar's rules."""

from __future__ import annotations

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from weftjobs.calendars import Croniter, Recurrence
from weftjobs.cron import Cron
from weftjobs.errors import InvalidScheduleError, UnknownTimeZoneError
from weftjobs.units import MAX_INSTANT, MIN_INSTANT, to_datetime, to_instant

Calendar = Croniter | Recurrence

BERLIN = "Europe/Berlin"
NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
START = "2026-01-01T00:00:00Z"


def times(trigger: Calendar | Cron, now: str, count: int) -> list[str]:
    """Return the first matches past an instant, as the zone's clock shows them."""
    found: list[str] = []
    instant: int | None = to_instant(now, "now")
    while len(found) < count:
        assert instant is not None
        previous, instant = instant, trigger.after(instant, instant)
        if instant is None:
            break
        assert instant > previous
        found.append(to_datetime(instant, trigger.timezone).strftime("%m-%d %H:%M %z"))
    return found


def dates(trigger: Calendar, now: str, count: int) -> list[str]:
    """Return the days of the first matches past an instant."""
    found: list[str] = []
    instant: int | None = to_instant(now, "now")
    while instant is not None and len(found) < count:
        instant = trigger.first(instant)
        if instant is not None:
            found.append(to_datetime(instant, trigger.timezone).strftime("%Y-%m-%d"))
    return found


def every_second(zone: str, start: str, **options: Any) -> Recurrence:
    return Recurrence("FREQ=SECONDLY", zone, start, **options)


class TestCroniter:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("0 0 L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]),
            ("0 0 l 2 *", ["2026-02-28", "2027-02-28", "2028-02-29"]),
            ("0 9 * * 5#2", ["2026-01-09", "2026-02-13", "2026-03-13"]),
            ("0 9 * * L5", ["2026-01-30", "2026-02-27", "2026-03-27"]),
            ("0 9 15W * *", ["2026-01-15", "2026-02-16", "2026-03-16"]),
            ("0 0 29 2 1#5", ["2044-02-29", "2072-02-29", "2112-02-29"]),
            ("0 0 30 2 1", ["2026-02-02", "2026-02-09", "2026-02-16"]),
            ("0 0 0 1 1 * 2050,2099", ["2050-01-01", "2099-01-01"]),
            ("  @monthly ", ["2026-02-01", "2026-03-01", "2026-04-01"]),
        ],
    )
    def test_it_says_what_cron_cannot(self, expression: str, expected: list[str]) -> None:
        """C9: last days, nth weekdays, nearest weekdays and years are croniter's."""
        assert dates(Croniter(expression, "UTC"), START, 3) == expected

    def test_six_fields_have_the_second_first(self) -> None:
        """C9: as in C1, not as croniter has it by default."""
        assert times(Croniter("30 15 9 * * *", "UTC"), START, 1) == ["01-01 09:15 +0000"]
        first = Croniter("30 15 9 * * *", "UTC").first(to_instant(START, "now"))
        assert first == to_instant("2026-01-01T09:15:30Z", "expected")

    @pytest.mark.parametrize("expression", ["H H * * *", "H H H * * *", "@daily", "@hourly"])
    def test_a_hash_is_the_same_every_time(self, expression: str) -> None:
        """C9: the same hash_id gives the same times, another one others."""
        now = to_instant(START, "now")
        names = ["größer", "größer", "b"]
        made = [Croniter(expression, "UTC", hash_id=name).first(now) for name in names]
        assert made[0] == made[1] != made[2]

    @pytest.mark.parametrize(
        ("macro", "hours"), [("@hourly", 1), ("@daily", 24), ("@weekly", 7 * 24)]
    )
    def test_a_hashed_macro_keeps_its_period(self, macro: str, hours: int) -> None:
        """C9: a macro with a hash comes as often as its name says."""
        trigger = Croniter(macro, "UTC", hash_id="mail")
        first = trigger.first(to_instant(START, "now"))
        assert first is not None
        assert trigger.after(first, 0) == first + hours * 3_600_000

    @pytest.mark.parametrize(
        ("expression", "reason"),
        [
            ("", "is empty"),
            ("0 0 * *", "columns"),
            ("0 0 * * * * * *", "columns"),
            ("@reboot", "columns"),
            ("0 0 x * *", "not acceptable"),
            ("0 0 L-3 * *", "not acceptable"),
            ("60 * * * *", "out of range"),
            ("*/0 * * * *", "not acceptable"),
            ("* * * * 5#9", "not acceptable"),
            ("0 0 30 2 *", "failed to find"),
            ("0 0 31 2,4,6,9,11 *", "failed to find"),
            ("0 0 1 * 1#5", "failed to find"),
            ("0 0 15W * 1#1", "failed to find"),
            ("0 0 0 29 2 * 2025-2027", "failed to find"),
            ("0 0 0 1 1 * 1960", "out of range"),
            ("R * * * *", "random"),
            ("0 r(0-5) * * *", "random"),
            ("0 0 R/3 * *", "random"),
            ("H * * * *", "no hash_id"),
            ("0 h(1-3) * * *", "no hash_id"),
            ("0 \u0661 * * *", "not ASCII"),
            ("0\u00a00 * * *", "not ASCII"),
        ],
    )
    def test_what_it_cannot_read_is_refused(self, expression: str, reason: str) -> None:
        """C9: what croniter refuses, what never matches, and what is random is refused."""
        with pytest.raises(InvalidScheduleError, match=r"^expression: ") as refusal:
            Croniter(expression, "UTC")
        assert reason in str(refusal.value)
        assert refusal.value.fix

    def test_a_hash_id_does_not_make_random_fields_sure(self) -> None:
        """C9: a trigger answers the same when asked twice, so R is refused always."""
        with pytest.raises(InvalidScheduleError, match="random"):
            Croniter("R H * * *", "UTC", hash_id="a")

    @pytest.mark.parametrize("hash_id", [5, b"a", "a" * 1_001, ["a"]])
    def test_a_hash_id_is_short_text(self, hash_id: Any) -> None:
        """C9: an id of another type, or too long is refused."""
        with pytest.raises(InvalidScheduleError, match=r"^hash_id: "):
            Croniter("H * * * *", "UTC", hash_id=hash_id)

    def test_the_calendar_ends(self) -> None:
        """C9: None when no year is left, of the expression's or of the calendar."""
        yearly = Croniter("0 0 0 1 1 * 2050", "UTC")
        assert yearly.first(to_instant("2050-01-01T00:00:00Z", "now")) is None
        assert Croniter("0 0 L * *", "UTC").first(MAX_INSTANT) is None
        assert Croniter("0 0 L * *", NEW_YORK).first(MIN_INSTANT) is not None

    def test_threads_do_not_disturb_each_other(self) -> None:
        """R4: one trigger is asked by several threads, and each gets its own answer."""
        trigger = Croniter("0 0 L * *", "UTC")
        asked = [day * 86_400_000 for day in range(0, 20_000, 100)]
        expected = [trigger.first(now) for now in asked]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(trigger.first, asked * 20))
        finally:
            sys.setswitchinterval(interval)
        assert answers == expected * 20

    @settings(derandomize=True, deadline=None, max_examples=100)
    @given(
        st.sampled_from(
            ["0 0 L * *", "*/7 3 * * 5#2", "5 4 15W 2-11 *", "1 2 * * L5", "0 * 31 * 1"]
        ),
        st.integers(0, 4_000_000_000),
    )
    def test_it_agrees_with_croniter(self, expression: str, second: int) -> None:
        """C9: where no clock changes, the times are those of croniter."""
        expected = croniter(expression, second).get_next(float)
        assert Croniter(expression, "UTC").first(second * 1000) == expected * 1000


class TestRecurrence:
    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            ("FREQ=MONTHLY;BYDAY=-1FR", ["2026-01-30", "2026-02-27", "2026-03-27"]),
            ("RRULE:FREQ=MONTHLY;BYDAY=-1FR", ["2026-01-30", "2026-02-27", "2026-03-27"]),
            (" rrule:freq=weekly;byday=tu ", ["2026-01-06", "2026-01-13", "2026-01-20"]),
            ("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", ["2026-01-13", "2026-01-27", "2026-02-10"]),
            ("FREQ=WEEKLY;INTERVAL=2", ["2026-01-01", "2026-01-15", "2026-01-29"]),
            ("FREQ=WEEKLY;INTERVAL=2;BYDAY=SU;WKST=SU", ["2026-01-11", "2026-01-25"]),
            ("FREQ=WEEKLY;INTERVAL=2;BYDAY=SU;WKST=MO", ["2026-01-04", "2026-01-18"]),
            ("FREQ=MONTHLY;BYMONTHDAY=31", ["2026-01-31", "2026-03-31", "2026-05-31"]),
            ("FREQ=MONTHLY;BYMONTHDAY=-1", ["2026-01-31", "2026-02-28", "2026-03-31"]),
            ("FREQ=MONTHLY;INTERVAL=5", ["2026-01-01", "2026-06-01", "2026-11-01"]),
            ("FREQ=MONTHLY;BYDAY=SA,1TU", ["2026-01-03", "2026-01-06", "2026-01-10"]),
            ("FREQ=YEARLY;BYDAY=20MO", ["2026-05-18", "2027-05-17", "2028-05-15"]),
            ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", ["2026-05-11", "2027-05-17", "2028-05-15"]),
            ("FREQ=YEARLY;BYYEARDAY=-1", ["2026-12-31", "2027-12-31", "2028-12-31"]),
            ("FREQ=YEARLY;INTERVAL=100", ["2026-01-01", "2126-01-01", "2226-01-01"]),
            ("FREQ=DAILY;INTERVAL=100000", ["2026-01-01", "2299-10-17", "2573-08-01"]),
            (
                "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
                ["2044-02-29", "2072-02-29", "2112-02-29"],
            ),
            (
                "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
                ["2026-01-30", "2026-02-27", "2026-03-31"],
            ),
            ("FREQ=WEEKLY;BYDAY=MO,FR;BYSETPOS=-1", ["2026-01-02", "2026-01-09", "2026-01-16"]),
            ("FREQ=DAILY;BYMONTH=1,3;BYDAY=SU", ["2026-01-04", "2026-01-11", "2026-01-18"]),
        ],
    )
    def test_it_says_what_cron_cannot(self, rule: str, expected: list[str]) -> None:
        """C9: the rules of iCalendar, counted from the start."""
        now = "2025-12-31T00:00:00Z"
        assert dates(Recurrence(rule, "UTC", START), now, len(expected)) == expected

    def test_the_start_gives_the_time_that_the_rule_leaves_out(self) -> None:
        """C9: on the wall clock of the zone, whole seconds."""
        trigger = Recurrence("FREQ=DAILY", BERLIN, "2026-01-01T16:30:15.9Z")
        assert trigger.start == to_instant("2026-01-01T16:30:15Z", "expected")
        assert trigger.first(0) == trigger.start
        summer = trigger.first(to_instant("2026-07-01T00:00:00Z", "now"))
        assert summer == to_instant("2026-07-01T15:30:15Z", "expected")

    @pytest.mark.parametrize(
        "start", [START, 1_767_225_600_000, datetime(2026, 1, 1, 1, tzinfo=ZoneInfo(BERLIN))]
    )
    def test_a_start_is_any_instant(self, start: Any) -> None:
        """Z2: milliseconds, an aware datetime and ISO text are the same start."""
        assert Recurrence("FREQ=DAILY", BERLIN, start) == Recurrence("FREQ=DAILY", BERLIN, START)

    def test_every_second_tuesday_stays_on_the_wall_clock(self) -> None:
        """C9: neither the time nor the week moves when the clocks change."""
        trigger = Recurrence("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", BERLIN, "2026-03-03T08:00:00Z")
        assert times(trigger, "2026-03-10T00:00:00Z", 3) == [
            "03-17 09:00 +0100",
            "03-31 09:00 +0200",
            "04-14 09:00 +0200",
        ]

    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            ("FREQ=DAILY;COUNT=3", ["2026-01-01", "2026-01-02", "2026-01-03"]),
            ("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=2", ["2026-01-31", "2026-03-31"]),
            ("FREQ=DAILY;UNTIL=20260102", ["2026-01-01", "2026-01-02"]),
            ("FREQ=DAILY;UNTIL=20260102T010000", ["2026-01-01", "2026-01-02"]),
            ("FREQ=DAILY;UNTIL=20260102T005959", ["2026-01-01"]),
            ("FREQ=DAILY;UNTIL=20260102T000000Z", ["2026-01-01", "2026-01-02"]),
            ("FREQ=DAILY;UNTIL=20260101T235959Z", ["2026-01-01"]),
        ],
    )
    def test_it_ends(self, rule: str, expected: list[str]) -> None:
        """C9: after its COUNT or its UNTIL, on the wall clock or in UTC, comes nothing."""
        assert dates(Recurrence(rule, BERLIN, START), "2025-12-31T00:00:00Z", 9) == expected

    def test_a_count_goes_on_from_the_start(self) -> None:
        """C9: asked late, a rule has used up its count."""
        trigger = Recurrence("FREQ=DAILY;COUNT=1000", "UTC", START)
        assert trigger.first(to_instant("2028-09-25T00:00:00Z", "now")) == to_instant(
            "2028-09-26T00:00:00Z", "expected"
        )
        assert trigger.first(to_instant("2028-09-26T00:00:00Z", "now")) is None

    def test_a_count_goes_on_for_a_hundred_years(self) -> None:
        """C9: so that counting is short (C8), whatever the rule."""
        trigger = Recurrence("FREQ=YEARLY;COUNT=1000", "UTC", START)
        assert dates(trigger, "2125-01-01T00:00:00Z", 3) == ["2126-01-01"]

    def test_a_week_with_positions_may_begin_in_the_year_before(self) -> None:
        """C9: the second of Tuesday and Friday is counted from the week's Monday."""
        trigger = Recurrence("FREQ=WEEKLY;BYDAY=TU,FR;BYSETPOS=2", "UTC", "2025-12-01T00:00:00Z")
        assert dates(trigger, START, 2) == ["2026-01-02", "2026-01-09"]

    def test_an_interval_may_take_long_to_fit(self) -> None:
        """C9: 1,439 minutes go through all the times of day, one a day."""
        trigger = Recurrence("FREQ=MINUTELY;INTERVAL=1439;BYHOUR=3;BYMINUTE=5", "UTC", START)
        assert trigger.first(0) == to_instant("2029-06-08T03:05:00Z", "expected")

    def test_nothing_is_looked_for_beyond_fifty_years(self) -> None:
        """C9: a rule that matches nothing for so long is refused, or has ended."""
        rule = "FREQ=DAILY;INTERVAL=13;BYMONTH=2;BYMONTHDAY=29"
        assert dates(Recurrence(rule, "UTC", START), START, 2) == ["2052-02-29"]
        with pytest.raises(InvalidScheduleError, match="matches nothing"):
            Recurrence(rule, "UTC", "2052-03-13T00:00:00Z")

    @pytest.mark.parametrize("repeated", ["once", "twice"])
    def test_nothing_is_due_before_the_start(self, repeated: Any) -> None:
        """C5: neither is the first occurrence of a time at whose second the rule starts."""
        start = "2026-10-25T02:30:00+01:00"
        trigger = Recurrence("FREQ=DAILY", BERLIN, start, repeated=repeated)
        expected = "2026-10-26T02:30:00+01:00" if repeated == "once" else start
        assert trigger.first(0) == to_instant(expected, "expected")

    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            ("FREQ=SECONDLY", "2500-06-01T00:00:01Z"),
            ("FREQ=SECONDLY;BYMONTH=2;BYDAY=MO", "2501-02-07T00:00:00Z"),
            ("FREQ=MINUTELY;INTERVAL=7", "2500-06-01T00:02:00Z"),
            ("FREQ=DAILY;INTERVAL=3", "2500-06-04T00:00:00Z"),
        ],
    )
    def test_a_start_long_ago_costs_nothing(self, rule: str, expected: str) -> None:
        """C8: no rule is walked from its start, so a start a millennium ago does not hang."""
        trigger = Recurrence(rule, "UTC", "1500-01-01T00:00:00Z")
        now = to_instant("2500-06-01T00:00:00Z", "now")
        assert trigger.first(now) == to_instant(expected, "expected")

    @pytest.mark.parametrize(
        "rule",
        [
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=MONTHLY;BYMONTH=4;BYMONTHDAY=31",
            "FREQ=MONTHLY;BYMONTHDAY=31;BYDAY=1MO",
            "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
            "FREQ=MONTHLY;INTERVAL=2;BYMONTH=2",
            "FREQ=DAILY;INTERVAL=367;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
            "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30",
            "FREQ=SECONDLY;INTERVAL=86400;BYHOUR=3",
            "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
            "FREQ=DAILY;BYSETPOS=2",
            "FREQ=HOURLY;BYMINUTE=5;BYSETPOS=-2",
            "FREQ=DAILY;UNTIL=20251231",
            "FREQ=DAILY;UNTIL=20251231T000000Z",
        ],
    )
    def test_a_rule_that_never_matches_is_refused(self, rule: str) -> None:
        """C9: what no date matches is refused when it is made, and at once (C8)."""
        with pytest.raises(InvalidScheduleError, match=r"^rule: .* matches nothing"):
            Recurrence(rule, "UTC", START)

    @pytest.mark.parametrize(
        ("rule", "wrong"),
        [
            ("", "'' is not a part"),
            ("DAILY", "'DAILY' is not a part"),
            ("FREQ=DAILY;", "'' is not a part"),
            ("FREQ=", "'FREQ=' is not a part"),
            ("FREQ=DAILY;FREQ=DAILY", "comes twice"),
            ("FREQ=DAILY;BYEASTER=0", "'BYEASTER=0' is not a part"),
            ("FREQ=DAILY; BYHOUR=3", "is not a part"),
            ("INTERVAL=2", "FREQ is not one of"),
            ("FREQ=OFTEN", "FREQ is not one of"),
            ("FREQ=DAILY;INTERVAL=0", "INTERVAL has '0'"),
            ("FREQ=DAILY;INTERVAL=-1", "INTERVAL has '-1'"),
            ("FREQ=DAILY;INTERVAL=1,2", "INTERVAL is one number"),
            ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL has '1.5'"),
            ("FREQ=DAILY;INTERVAL=" + "9" * 900, "INTERVAL has '999"),
            ("FREQ=DAILY;COUNT=1001", "COUNT has '1001'"),
            ("FREQ=DAILY;COUNT=2;UNTIL=20270101", "COUNT and UNTIL exclude"),
            ("FREQ=DAILY;UNTIL=2027", "UNTIL is not like"),
            ("FREQ=DAILY;UNTIL=2027-01-01", "UNTIL is not like"),
            ("FREQ=DAILY;UNTIL=20271301", "month must be in 1..12"),
            ("FREQ=DAILY;UNTIL=00000101", "year 0 is out of range"),
            ("FREQ=DAILY;WKST=XX", "WKST is not one of"),
            ("FREQ=DAILY;BYHOUR=24", "BYHOUR has '24', not a number of 0 to 23"),
            ("FREQ=DAILY;BYHOUR=-1", "BYHOUR has '-1'"),
            ("FREQ=DAILY;BYHOUR=1,,2", "BYHOUR has ''"),
            ("FREQ=HOURLY;BYMINUTE=60", "BYMINUTE has '60'"),
            ("FREQ=DAILY;BYSECOND=60", "BYSECOND has '60'"),
            ("FREQ=DAILY;BYMONTH=13", "BYMONTH has '13'"),
            ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY has '0', not a number of -1 to 31"),
            ("FREQ=MONTHLY;BYMONTHDAY=-32", "BYMONTHDAY has '-32'"),
            ("FREQ=YEARLY;BYYEARDAY=367", "BYYEARDAY has '367'"),
            ("FREQ=YEARLY;BYWEEKNO=54", "BYWEEKNO has '54'"),
            ("FREQ=MONTHLY;BYWEEKNO=5", "BYWEEKNO goes with FREQ=YEARLY alone"),
            ("FREQ=MONTHLY;BYSETPOS=0", "BYSETPOS has '0'"),
            ("FREQ=WEEKLY;BYDAY=XX", "BYDAY has 'XX'"),
            ("FREQ=WEEKLY;BYDAY=", "is not a part"),
            ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY has '1MO'"),
            ("FREQ=MONTHLY;BYDAY=6MO", "BYDAY has '6MO'"),
            ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY has '0MO'"),
            ("FREQ=YEARLY;BYMONTH=1;BYDAY=20MO", "BYDAY has '20MO'"),
            ("FREQ=YEARLY;BYDAY=54MO", "BYDAY has '54MO'"),
            ("DTSTART:20260101T000000\nRRULE:FREQ=DAILY", "more than one rule"),
            ("FREQ=DAILY\nFREQ=WEEKLY", "more than one rule"),
            ("FREQ=DAILY;DTSTART=20260101", "more than one rule"),
            ("RRULE:FREQ=DAILY\r\nEXDATE:20260101T000000", "more than one rule"),
            ("FREQ=DAILY;BYHOUR=\u0661", "not ASCII"),
        ],
    )
    def test_what_is_not_a_rule_is_refused(self, rule: str, wrong: str) -> None:
        """C9: the part that is wrong is named, and the fix says what to do."""
        with pytest.raises(InvalidScheduleError, match=r"^rule: ") as refusal:
            Recurrence(rule, "UTC", START)
        assert wrong in str(refusal.value)
        assert refusal.value.fix

    @pytest.mark.parametrize(
        "start", [datetime(2026, 1, 1), "2026-01-01T00:00:00", None, True, "x", float("nan")]
    )
    def test_what_is_not_an_instant_is_no_start(self, start: Any) -> None:
        """Z2: a naive start is refused as any instant is."""
        with pytest.raises(InvalidScheduleError, match=r"^start: "):
            Recurrence("FREQ=DAILY", "UTC", start)

    @pytest.mark.parametrize(
        ("start", "zone"), [(MIN_INSTANT, NEW_YORK), (MAX_INSTANT, "Asia/Tokyo")]
    )
    def test_a_start_that_no_wall_clock_shows_is_refused(self, start: int, zone: str) -> None:
        """Z2: a start outside the calendar of its zone is refused, not overflowed."""
        with pytest.raises(InvalidScheduleError, match=r"^start: .* outside the calendar"):
            Recurrence("FREQ=DAILY", zone, start)

    @pytest.mark.parametrize(
        "rule",
        [
            "FREQ=YEARLY;BYWEEKNO=1,20,53",
            "FREQ=YEARLY;BYWEEKNO=1,-1;WKST=SU",
            "FREQ=YEARLY;BYWEEKNO=20;WKST=WE",
            "FREQ=YEARLY;BYDAY=-1MO",
            "FREQ=WEEKLY;BYDAY=SU,MO;BYSETPOS=1",
        ],
    )
    def test_the_ends_of_the_calendar(self, rule: str) -> None:
        """C9: a rule may start with the first year and comes to its end with the last."""
        first = Recurrence(rule, "UTC", MIN_INSTANT).first(MIN_INSTANT)
        assert first is not None
        assert to_datetime(first).year < 3
        trigger = Recurrence(rule, "UTC", "9990-01-01T00:00:00Z")
        assert trigger.first(to_instant("9999-12-31T00:00:00Z", "now")) is None


@pytest.mark.parametrize("kind", ["croniter", "recurrence"])
class TestClockChanges:
    """The rules for gaps and folds, which both kinds share with Cron."""

    def trigger(self, kind: str, hour: str, minute: str, zone: str, **options: Any) -> Calendar:
        if kind == "croniter":
            return Croniter(f"{minute} {hour} * * *", zone, **options)
        if hour == "*":
            rule = f"FREQ=HOURLY;BYMINUTE={minute};BYSECOND=0"
        else:
            rule = f"FREQ=DAILY;BYHOUR={hour};BYMINUTE={minute};BYSECOND=0"
        return Recurrence(rule, zone, "2020-01-01T00:00:00Z", **options)

    @pytest.mark.parametrize("repeated", ["once", "twice"])
    @pytest.mark.parametrize(
        ("zone", "hour", "minute", "now", "expected"),
        [
            (BERLIN, "2", "30", "2026-03-28T12:00:00Z", ["03-30 02:30 +0200"]),
            (NEW_YORK, "2", "30", "2026-03-07T12:00:00Z", ["03-09 02:30 -0400"]),
            (LORD_HOWE, "2", "15", "2026-10-03T12:00:00Z", ["10-05 02:15 +1100"]),
            ("America/Havana", "0", "0", "2026-03-07T12:00:00Z", ["03-09 00:00 -0400"]),
        ],
    )
    def test_a_skipped_time_does_not_run(
        self,
        kind: str,
        zone: str,
        hour: str,
        minute: str,
        now: str,
        expected: list[str],
        repeated: str,
    ) -> None:
        """C5: a wall time that does not exist does not run that day."""
        trigger = self.trigger(kind, hour, minute, zone, repeated=repeated)
        assert times(trigger, now, 1) == expected

    @pytest.mark.parametrize(
        ("zone", "hour", "minute", "now", "occurrences"),
        [
            (
                BERLIN,
                "2",
                "30",
                "2026-10-24T12:00:00Z",
                ["10-25 02:30 +0200", "10-25 02:30 +0100"],
            ),
            (
                NEW_YORK,
                "1",
                "30",
                "2026-10-31T12:00:00Z",
                ["11-01 01:30 -0400", "11-01 01:30 -0500"],
            ),
            (
                LORD_HOWE,
                "1",
                "45",
                "2026-04-04T04:00:00Z",
                ["04-05 01:45 +1100", "04-05 01:45 +1030"],
            ),
        ],
    )
    def test_a_repeated_time_runs_once_or_twice(
        self, kind: str, zone: str, hour: str, minute: str, now: str, occurrences: list[str]
    ) -> None:
        """C5: a wall time that occurs twice runs as the trigger says."""
        once = self.trigger(kind, hour, minute, zone)
        twice = self.trigger(kind, hour, minute, zone, repeated="twice")
        assert times(twice, now, 2) == occurrences
        first, following = times(once, now, 2)
        assert first == occurrences[0]
        assert following not in occurrences

    def test_what_names_no_hour_keeps_its_beat(self, kind: str) -> None:
        """C5: an hourly trigger runs in both hours of a fold, also with `once`."""
        trigger = self.trigger(kind, "*", "30", BERLIN)
        assert times(trigger, "2026-10-24T23:45:00Z", 3) == [
            "10-25 02:30 +0200",
            "10-25 02:30 +0100",
            "10-25 03:30 +0100",
        ]


@pytest.mark.parametrize(
    ("rule", "beats"),
    [
        ("FREQ=HOURLY", True),
        ("FREQ=MINUTELY;INTERVAL=30", True),
        ("FREQ=SECONDLY;INTERVAL=1800", True),
        ("FREQ=HOURLY;INTERVAL=2", False),
        ("FREQ=MINUTELY;INTERVAL=120", False),
        ("FREQ=HOURLY;BYHOUR=2", False),
        ("FREQ=DAILY;BYHOUR=" + ",".join(map(str, range(24))), True),
        ("FREQ=DAILY;BYHOUR=" + ",".join(map(str, range(23))), False),
    ],
)
def test_which_rules_name_an_hour(rule: str, beats: bool) -> None:
    """C5: a rule that matches in each of the 24 hours repeats in a fold under `once`."""
    trigger = Recurrence(rule, BERLIN, "2026-10-01T00:00:00+02:00")
    second_pass = times(trigger, "2026-10-25T00:45:00Z", 1)[0]
    assert (second_pass == "10-25 02:00 +0100") is beats


@pytest.mark.parametrize("zone", [BERLIN, LORD_HOWE, "Pacific/Apia", "Africa/Cairo", "UTC"])
@pytest.mark.parametrize("repeated", ["once", "twice"])
@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(0, 2_000_000_000_000), st.sampled_from(["17 * * * *", "30 1,2 * * *"]))
def test_all_three_agree(repeated: Any, zone: str, now: int, expression: str) -> None:
    """C9: on what cron can say, both triggers are due when Cron is."""
    minute, hour = expression.split()[:2]
    hours = "" if hour == "*" else f"BYHOUR={hour};"
    rule = f"FREQ={'DAILY' if hours else 'HOURLY'};{hours}BYMINUTE={minute};BYSECOND=0"
    expected = Cron(expression, zone, repeated=repeated).first(now)
    assert Croniter(expression, zone, repeated=repeated).first(now) == expected
    assert Recurrence(rule, zone, -(10**12), repeated=repeated).first(now) == expected


PARTS = st.fixed_dictionaries(
    {},
    optional={
        "INTERVAL": st.integers(1, 3).map(str),
        "BYHOUR": st.sampled_from(["9", "9,17", "0,23"]),
        "BYMINUTE": st.sampled_from(["30", "0,15,45"]),
        "BYSECOND": st.sampled_from(["0", "10,20"]),
        "BYSETPOS": st.sampled_from(["1", "-1", "1,-1"]),
    },
)
DAYS = st.sampled_from(
    [
        {},
        {"BYDAY": "MO,FR"},
        {"BYDAY": "SU,MO,TU,WE,TH,FR,SA"},
        {"BYMONTH": "1,2,3,11"},
        {"BYMONTH": "2,3,4", "BYDAY": "WE"},
        {"BYMONTHDAY": "1,15,-1"},
        {"BYMONTHDAY": "13", "BYDAY": "FR"},
    ]
)
LONG_DAYS = st.sampled_from(
    [
        {"BYDAY": "-1FR"},
        {"BYDAY": "1MO,3TU,-2SU"},
        {"BYMONTH": "4,5,6", "BYDAY": "2TH"},
        {"BYYEARDAY": "1,100,-1"},
    ]
)
LONG = st.sampled_from(["YEARLY", "MONTHLY"])
ALL = st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"])


def seconds_of(rule: str, start: int, count: int) -> list[int]:
    """Return the first times of a rule in UTC as dateutil walks to them, from the start."""
    zero = datetime(1970, 1, 1)
    try:
        walk = rrulestr(rule, dtstart=zero + timedelta(seconds=start))
        return [(time - zero) // timedelta(seconds=1) for time in islice(walk, count)]
    except ValueError:
        return []


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.tuples(ALL, DAYS)
    | st.tuples(LONG, LONG_DAYS)
    | st.just(("YEARLY", {"BYWEEKNO": "1,20,53"})),
    PARTS,
    st.integers(0, 1_500),
    st.integers(0, 86_399),
)
def test_rules_agree_with_dateutil(
    long_part: tuple[str, dict[str, str]], parts: dict[str, str], weeks: int, second: int
) -> None:
    """C9: in UTC the times are those of dateutil, where that finds them in a walk.

    All starts are Mondays: dateutil counts BYSETPOS in the week of a start from the start on.
    """
    frequency, days = long_part
    rule = ";".join(
        f"{name}={value}" for name, value in {"FREQ": frequency, **days, **parts}.items()
    )
    start = (4 + 7 * weeks) * 86_400 + second
    expected = seconds_of(rule, start, 12)
    if not expected:
        with pytest.raises(InvalidScheduleError):
            Recurrence(rule, "UTC", start * 1000)
        return
    trigger = Recurrence(rule, "UTC", start * 1000)
    found: list[int] = []
    instant = trigger.first(0)
    while instant is not None and len(found) < len(expected):
        found.append(instant // 1000)
        instant = trigger.after(instant, 0)
    assert found == expected


def make_croniter(**options: Any) -> Croniter:
    return Croniter("0 9 * * 5#2", BERLIN, **options)


def make_recurrence(**options: Any) -> Recurrence:
    return Recurrence("FREQ=MONTHLY;BYDAY=-1FR", BERLIN, "2026-01-01T17:00:00Z", **options)


@pytest.mark.parametrize("make", [make_croniter, make_recurrence])
class TestValues:
    def test_they_are_values(self, make: Any) -> None:
        """R4: a trigger is frozen, equal to its like, and can be hashed."""
        assert make() == make()
        assert hash(make()) == hash(make())
        assert make() != make(repeated="twice")
        with pytest.raises(AttributeError):
            make().repeated = "twice"
        assert not hasattr(make(), "__dict__")

    @pytest.mark.parametrize("repeated", ["once", "twice"])
    def test_their_repr_makes_them_again(self, make: Any, repeated: str) -> None:
        """R4: what is shown evaluates to an equal trigger."""
        trigger = make(repeated=repeated)
        assert eval(repr(trigger)) == trigger

    def test_they_can_be_pickled_and_copied(self, make: Any) -> None:
        """R4: a copy is equal, and answers the same."""
        trigger = make(repeated="twice")
        for again in (pickle.loads(pickle.dumps(trigger)), copy.deepcopy(trigger)):
            assert again == trigger
            assert again.first(0) == trigger.first(0)

    def test_asked_twice_they_answer_the_same(self, make: Any) -> None:
        """R4: no question changes the answer to another."""
        trigger = make()
        first = trigger.first(1_800_000_000_000)
        assert first is not None
        assert trigger.after(first, 0) == trigger.first(first)
        assert trigger.after(0, first) == trigger.first(first)
        assert trigger.first(first - 1) == first
        assert trigger.first(1_800_000_000_000) == first

    @pytest.mark.parametrize("repeated", ["thrice", None, 1, ["once"], True])
    def test_another_word_for_repeated_is_refused(self, make: Any, repeated: Any) -> None:
        """C4: `once` or `twice`."""
        with pytest.raises(InvalidScheduleError, match=r"^repeated: "):
            make(repeated=repeated)


@pytest.mark.parametrize("text", [None, 5, b"0 0 L * *", ["x"], True])
def test_what_is_no_text_is_refused(text: Any) -> None:
    """C8: another type is refused with the one error."""
    with pytest.raises(InvalidScheduleError, match=r"^expression: .* is of type"):
        Croniter(text, "UTC")
    with pytest.raises(InvalidScheduleError, match=r"^rule: .* is of type"):
        Recurrence(text, "UTC", START)


@pytest.mark.parametrize("unit", ["*", "0 ", "0,", "*/", "FREQ=DAILY;", "BYDAY=MO,", "\u0661"])
def test_long_text_is_refused(unit: str) -> None:
    """C8: more than 1,000 characters are refused before they are read; fewer are read fast."""
    for text in (unit * 1_000_000, unit * (1_000 // len(unit))):
        with pytest.raises(InvalidScheduleError):
            Croniter(text, "UTC")
        with pytest.raises(InvalidScheduleError):
            Recurrence(text, "UTC", START)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "America", "../etc/passwd", "zone.tab", 5])
def test_an_unknown_zone_is_refused(zone: Any) -> None:
    """C6: as Cron refuses it."""
    with pytest.raises(UnknownTimeZoneError):
        Croniter("0 0 L * *", zone)
    with pytest.raises(UnknownTimeZoneError):
        Recurrence("FREQ=DAILY", zone, START)


def test_a_zone_may_be_a_zoneinfo() -> None:
    """C6: an IANA name and its ZoneInfo make equal triggers."""
    zone = ZoneInfo(BERLIN)
    assert Croniter("0 0 L * *", zone) == Croniter("0 0 L * *", BERLIN)
    assert Recurrence("FREQ=DAILY", zone, START).timezone is zone
    assert to_datetime(0, zone).astimezone(UTC) == to_datetime(0)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            [
                "*",
                "0",
                "7",
                "31",
                "H",
                "R",
                "L",
                "5#2",
                "15W",
                "W15",
                "L5",
                "1-5",
                "5-1",
                "*/2",
                "9-9",
                "60",
                "-1",
                "1/0",
                "?",
                "#",
                "l#l",
                "sun",
                "fri-mon",
                "h(1-3)/2",
                "1,2,L",
                "2099",
                "@",
            ]
        ),
        max_size=8,
    )
)
def test_any_fields_are_read_or_refused(fields: list[str]) -> None:
    """C8: whatever croniter trips over comes out as the one error."""
    for hash_id in (None, "a"):
        try:
            trigger = Croniter(" ".join(fields), "UTC", hash_id=hash_id)
        except InvalidScheduleError:
            continue
        assert trigger.first(0) is not None
