from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from weftjobs import (
    At,
    Cron,
    Every,
    InvalidScheduleError,
    JobsError,
    ObservableArray,
    Row,
    Trigger,
    UnknownTimeZoneError,
    pausable,
    plan_row,
)

FOREVER = 10**400

PLANS: list[tuple[Row, Trigger]] = [
    (Row(at=5), At(5)),
    (Row(at=0), At(0)),
    (Row(at=-5.5), At(-6)),
    (Row(at="2026-09-05T15:00:00Z"), At(1_788_620_400_000)),
    (Row(at=datetime(2026, 9, 5, 15, tzinfo=UTC)), At(1_788_620_400_000)),
    (Row(at=5, every=None, cron=None, tz=None), At(5)),
    (Row(at=5, tz="Mars/Olympus"), At(5)),
    (Row(every=5), Every(5)),
    (Row(every=4.5), Every(5)),
    (Row(every="1h30m"), Every(5_400_000)),
    (Row(every=timedelta(minutes=1)), Every(60_000)),
    (Row(every="1h", at=None, paused=True, interval=3, last={"started": 5}), Every("1h")),
    (Row(cron="0 7 * * *", tz="UTC"), Cron("0 7 * * *", "UTC", repeated="twice")),
    (Row(cron="@daily", tz=ZoneInfo("UTC")), Cron("0 0 * * *", "UTC", repeated="twice")),
]


@pytest.mark.parametrize(("row", "trigger"), PLANS, ids=[repr(row) for row, _ in PLANS])
def test_plans(row: Row, trigger: Trigger) -> None:
    """R1, R2, R4: a row becomes the trigger of its one field, in an array or not."""
    plan = plan_row(row)
    assert (type(plan), plan) == (type(trigger), trigger)
    ObservableArray([row])
    before = dict(row)
    assert plan_row(row) == trigger
    assert dict(row) == before


def test_cron_comes_twice_in_a_fold() -> None:
    """C5: rows use `twice`, whatever `Cron` does by default."""
    assert plan_row(Row(cron="0 7 * * *", tz="UTC")) != Cron("0 7 * * *", "UTC")


@pytest.mark.parametrize("origin", [0, "1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)])
def test_origin(origin: Any) -> None:
    """R4: `origin` puts the intervals on a grid, and means nothing to the others."""
    assert plan_row(Row(every="1h"), origin=origin) == Every("1h", 0)
    assert plan_row(Row(every=3_600_000), origin=origin) == Every("1h", 0)
    assert plan_row(Row(at=5), origin=origin) == At(5)
    assert plan_row(Row(cron="0 7 * * *", tz="UTC"), origin=origin) == plan_row(
        Row(cron="0 7 * * *", tz="UTC")
    )


NUMBER_FIX = "Use a number of milliseconds, a timedelta, or text such as '30s' or '1h30m'."
LENGTH_FIX = "Use a duration of at least 1 millisecond that ends before the year 10000."
ONE_FIX = "Give it exactly one of at, every and cron (with tz)."
INSTANT_FIX = (
    "Use ISO 8601 text with an offset such as '2026-09-05T15:00:00Z', an aware datetime, "
    "or a number of milliseconds since the epoch."
)
OFFSET_FIX = (
    "Say which zone it is in: end the text in 'Z' or '+02:00', or give the datetime a tzinfo."
)
CALENDAR_FIX = "Use an instant in the years 1 to 9999, in milliseconds since the epoch."
TZ_FIX = "Name the zone whose wall clock it reads, such as tz='Europe/Berlin' or 'UTC'."
ZONE_FIX = "Use an IANA name such as 'Europe/Berlin', or a zoneinfo.ZoneInfo."

ERRORS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "row: has none of at, every and cron", ONE_FIX),
    ({"tz": "UTC"}, "row: has none of at, every and cron", ONE_FIX),
    ({"at": None, "every": None}, "row: has none of at, every and cron", ONE_FIX),
    ({"at": 5, "every": 0}, "row: has at=5 and every=0", ONE_FIX),
    ({"at": 5, "cron": ""}, "row: has at=5 and cron=''", ONE_FIX),
    ({"cron": "@daily", "every": "1h"}, "row: has every='1h' and cron='@daily'", ONE_FIX),
    ({"at": 0, "every": False, "cron": []}, "row: has at=0 and every=False and cron=[]", ONE_FIX),
    ({"every": 0}, "every: 0 is less than 1 millisecond", LENGTH_FIX),
    ({"every": -5}, "every: -5 is less than 1 millisecond", LENGTH_FIX),
    ({"every": 0.4}, "every: 0.4 is less than 1 millisecond", LENGTH_FIX),
    ({"every": "0s"}, "every: '0s' is less than 1 millisecond", LENGTH_FIX),
    (
        {"every": timedelta(0)},
        "every: datetime.timedelta(0) is less than 1 millisecond",
        LENGTH_FIX,
    ),
    ({"every": 10**15}, "every: 1000000000000000 is more than the calendar holds", LENGTH_FIX),
    ({"every": "9999999d"}, "every: '9999999d' is more than the calendar holds", LENGTH_FIX),
    ({"every": True}, "every: True is of type bool", NUMBER_FIX),
    ({"every": [5]}, "every: [5] is of type list", NUMBER_FIX),
    ({"every": math.nan}, "every: nan is not a finite number", NUMBER_FIX),
    ({"every": math.inf}, "every: inf is not a finite number", NUMBER_FIX),
    ({"every": "soon"}, "every: 'soon' is not a duration", NUMBER_FIX),
    ({"every": ""}, "every: '' is not a duration", NUMBER_FIX),
    (
        {"every": "30"},
        "every: '30' is a number without a unit",
        "Write '30s' for seconds, or the number 30 for milliseconds.",
    ),
    ({"at": True}, "at: True is of type bool", INSTANT_FIX),
    ({"at": {}}, "at: {} is of type dict", INSTANT_FIX),
    ({"at": -math.inf}, "at: -inf is not a finite number", INSTANT_FIX),
    ({"at": "tomorrow"}, "at: 'tomorrow' is not an ISO 8601 time", INSTANT_FIX),
    ({"at": "2026-02-30T00:00Z"}, "at: '2026-02-30T00:00Z' is not an ISO 8601 time", INSTANT_FIX),
    ({"at": "2026-09-05T15:00"}, "at: '2026-09-05T15:00' has no offset", OFFSET_FIX),
    (
        {"at": datetime(2026, 9, 5)},
        "at: datetime.datetime(2026, 9, 5, 0, 0) has no offset",
        OFFSET_FIX,
    ),
    ({"at": 10**15}, "at: 1000000000000000 lies outside the calendar", CALENDAR_FIX),
    ({"cron": "0 7 * * *"}, "tz: missing beside cron '0 7 * * *'", TZ_FIX),
    ({"cron": "not cron"}, "tz: missing beside cron 'not cron'", TZ_FIX),
    ({"cron": 5, "tz": None}, "tz: missing beside cron 5", TZ_FIX),
    (
        {"cron": "0 7 * * *", "tz": "Mars/Olympus"},
        "tz: 'Mars/Olympus' is not a known time zone",
        ZONE_FIX,
    ),
    ({"cron": "0 7 * * *", "tz": ""}, "tz: '' is not a known time zone", ZONE_FIX),
    ({"cron": "0 7 * * *", "tz": 5}, "tz: 5 is not a known time zone", ZONE_FIX),
    ({"cron": "0 7 * * *", "tz": ["UTC"]}, "tz: ['UTC'] is not a known time zone", ZONE_FIX),
]


@pytest.mark.parametrize(("fields", "message", "fix"), ERRORS, ids=[repr(f) for f, _, _ in ERRORS])
def test_whole_sentences(fields: dict[str, Any], message: str, fix: str) -> None:
    """R3, Z3: what cannot be scheduled is said in one sentence, and what to do in another."""
    with pytest.raises(InvalidScheduleError) as caught:
        plan_row(Row(fields))
    error = caught.value
    assert (str(error), error.reason, error.fix) == (message, "invalid", fix)
    assert isinstance(error, UnknownTimeZoneError) == message.endswith("is not a known time zone")


@pytest.mark.parametrize("expression", ["", "* * * *", "0 0 30 2 *", "61 * * * *", 5, [], b"*"])
def test_cron_that_is_none(expression: Any) -> None:
    """R3: an expression that does not parse, or that no date matches, names the field."""
    with pytest.raises(InvalidScheduleError) as caught:
        plan_row(Row(cron=expression, tz="UTC"))
    assert str(caught.value).startswith("cron: ")
    assert caught.value.reason == "invalid"


@pytest.mark.parametrize(
    "value", ["x" * 10**6, "9" * 10**6, FOREVER, -FOREVER, 1e308, object(), [[]] * 10**5, b"1h"],
    ids=["text", "digits", "number", "negative", "float", "object", "list", "bytes"],
)  # fmt: skip
@pytest.mark.parametrize("field", ["at", "every", "cron", "tz"])
def test_odd_values(field: str, value: Any) -> None:
    """R3, C8: whatever a field holds, the row is refused with a short message of ours."""
    fields = {"cron": "0 7 * * *", "tz": value} if field == "tz" else {field: value, "tz": "UTC"}
    with pytest.raises(InvalidScheduleError) as caught:
        plan_row(Row(fields))
    assert str(caught.value).startswith(f"{field}: ")
    assert len(str(caught.value)) <= 500
    assert len(caught.value.fix) <= 500


def test_bad_origin() -> None:
    """R4: an origin that is no instant is refused."""
    with pytest.raises(InvalidScheduleError, match="origin: 'noon' is not an ISO 8601 time"):
        plan_row(Row(every="1h"), origin="noon")
    assert plan_row(Row(every=5), origin=0) == Every(5, 0)
    with pytest.raises(InvalidScheduleError, match="origin: False is of type bool"):
        plan_row(Row(every=5), origin=False)


@pytest.mark.parametrize("row", [None, {"every": 5}, "row"], ids=repr)
def test_what_is_no_row(row: Any) -> None:
    """R4, Z3: only rows are planned."""
    with pytest.raises(JobsError) as caught:
        plan_row(row)
    assert str(caught.value) == f"row: {row!r} is not a Row"
    assert (caught.value.reason, caught.value.fix) == ("invalid", "Wrap it: Row(mapping).")


@pytest.mark.parametrize("paused", [True, 1, "yes", datetime(2026, 1, 1)], ids=repr)
def test_paused_is_not_scheduled(paused: object) -> None:
    """R4: `pausable` leaves out a row with a true `paused`, and says nothing if it is wrong."""
    plan = pausable(plan_row)
    assert plan(Row(every="1h", paused=paused)) is None
    assert plan(Row(every=0, paused=paused)) is None
    assert plan_row(Row(every="1h", paused=paused)) == Every("1h")


@pytest.mark.parametrize(
    "fields", [{}, *({"paused": value} for value in (False, None, 0, ""))], ids=repr
)
def test_not_paused_is_scheduled(fields: dict[str, object]) -> None:
    """R4: otherwise `pausable` does what the planner in it does, which may be any."""
    plan = pausable(plan_row)
    assert plan(Row(every="1h", **fields)) == Every("1h")
    with pytest.raises(InvalidScheduleError):
        plan(Row(every=0, **fields))
    assert pausable(lambda row: At(row["when"]))(Row(when=7, **fields)) == At(7)
    assert pausable(lambda row: None)(Row(fields)) is None
