from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from weftjobs import (
    InvalidScheduleError,
    JobsError,
    ObservableArray,
    Row,
    Scheduler,
    UnknownTimeZoneError,
    atomic,
)
from weftjobs.errors import cut, shown

LIST_FIX = "Pass {}=ObservableArray([Row(...), ...])."

SENTENCES: dict[str, tuple[Callable[[], object], str, str, str]] = {
    "not a row": (
        lambda: ObservableArray([{"every": 5}]),  # type: ignore[list-item]
        "invalid",
        "row: {'every': 5} is not a Row",
        "Wrap it: Row(mapping).",
    ),
    "row twice": (
        lambda: ObservableArray([row := Row(every=5), row]),
        "invalid",
        "row: Row({'every': 5}) already sits in an array",
        "Remove it there first, or add a copy: Row(row).",
    ),
    "row of an array": (
        lambda: ObservableArray().append(ObservableArray([Row()])[0]),
        "invalid",
        "row: Row({}) already sits in an array",
        "Remove it there first, or add a copy: Row(row).",
    ),
    "no rows": (
        lambda: ObservableArray(5),  # type: ignore[arg-type]
        "invalid",
        "rows: 5 is not a list of rows",
        "Pass [Row(...), ...].",
    ),
    "no fields": (
        lambda: Row("every"),  # type: ignore[arg-type]
        "invalid",
        "row: 'every' is not a mapping of fields",
        "Give fields by name, Row(every='1h'), or in a dict.",
    ),
    "no name": (
        lambda: Row().update({5: 1}),
        "invalid",
        "row: 5 is not the name of a field",
        "Name a field with a string.",
    ),
    "no observer": (
        lambda: ObservableArray().observe("print"),  # type: ignore[arg-type]
        "invalid",
        "callback: 'print' cannot be called",
        "Pass a function that takes the tuple of changes.",
    ),
    "no array": (
        lambda: atomic([]),  # type: ignore[arg-type]
        "not-a-list",
        "array: [] is not an ObservableArray",
        LIST_FIX.format("array"),
    ),
    "no jobs": (
        lambda: Scheduler([], print),  # type: ignore[arg-type]
        "not-a-list",
        "jobs: [] is not an ObservableArray",
        LIST_FIX.format("jobs"),
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_sentences(name: str) -> None:
    """Z3: an error says what is wrong with which value, has a reason, and says what to do."""
    make, reason, message, fix = SENTENCES[name]
    with pytest.raises(JobsError) as caught:
        make()
    error = caught.value
    assert (str(error), error.reason, error.fix) == (message, reason, fix)


def test_traceback_shows_the_fix() -> None:
    """Z3: whoever reads the traceback is told what to do."""
    error = JobsError("jobs: missing", reason="missing", fix="Pass an ObservableArray.")
    assert traceback.format_exception(error) == [
        "weftjobs.errors.JobsError: jobs: missing\n",
        "Fix: Pass an ObservableArray.\n",
    ]


def test_invalid_schedule() -> None:
    """Z3: a planner makes one from a message and a fix; it is a `ValueError` as well."""
    error = InvalidScheduleError("plan: no tariff 'night'", fix="Name a tariff of the table.")
    assert isinstance(error, JobsError)
    assert isinstance(error, ValueError)
    assert (str(error), error.reason) == ("plan: no tariff 'night'", "invalid")
    assert error.fix == "Name a tariff of the table."


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            UnknownTimeZoneError("Mars/Olympus"),
            "timezone: 'Mars/Olympus' is not a known time zone",
        ),
        (UnknownTimeZoneError(5, "tz"), "tz: 5 is not a known time zone"),
    ],
    ids=["text", "number"],
)
def test_unknown_time_zone(error: UnknownTimeZoneError, message: str) -> None:
    """Z3: the special case for zones keeps the value that was given."""
    assert isinstance(error, InvalidScheduleError)
    assert (str(error), error.reason) == (message, "invalid")
    assert error.fix == "Use an IANA name such as 'Europe/Berlin', or a zoneinfo.ZoneInfo."
    assert error.timezone in ("Mars/Olympus", 5)


class TariffError(InvalidScheduleError):
    """As somebody's planner may have it: made from facts, with an attribute."""

    def __init__(self, tariff: str, hours: int) -> None:
        super().__init__(f"tariff: {tariff} for {hours} hours", fix="Name a tariff.")
        self.tariff = tariff


@pytest.mark.parametrize(
    "error",
    [
        JobsError("jobs: missing", reason="missing", fix="Pass an ObservableArray."),
        InvalidScheduleError("every: 0 is less than 1 millisecond", fix="Use more."),
        UnknownTimeZoneError("Mars/Olympus", "tz"),
        TariffError("night", 5),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_errors_travel(copied: Callable[[JobsError], JobsError], error: JobsError) -> None:
    """Z3: an error comes through a pickle whole, into another process for one."""
    other = copied(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)
    assert traceback.format_exception(other) == traceback.format_exception(error)


@pytest.mark.parametrize(("length", "kept"), [(499, 499), (500, 500), (501, 499)])
def test_messages_are_cut(length: int, kept: int) -> None:
    """Z3: a message has 500 characters at most, and shows that it was cut."""
    message = str(JobsError("é" * length, reason="invalid", fix="Say less."))
    assert message == "é" * kept + "…" * (length > 500)
    assert cut("é" * length) == message


class Long:
    def __repr__(self) -> str:
        return "x" * 10_000


DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\n'b'", repr("a\n'b'")),
        (5, "5"),
        (None, "None"),
        (Row(every=5), "Row({'every': 5})"),
        (DEEP, "[[[[[[[...]]]]]]]"),
    ],
    ids=["text", "number", "None", "row", "deep"],
)
def test_values_are_shown_as_written(value: object, text: str) -> None:
    """Z3: a value is shown as its `repr`."""
    assert shown(value) == text


class Rude:
    """Raises when it is asked what it is."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


def test_values_that_cannot_be_shown() -> None:
    """Z3: a value whose `repr` raises is shown by its type, and the error is made."""
    assert "Rude" in str(UnknownTimeZoneError(Rude()))
    assert "Rude" in str(UnknownTimeZoneError([Rude()]))


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        b"x" * 10**6,
        "\n\0" * 10**6,
        10**5_000,
        list(range(10**5)),
        Long(),
        Row(x="x" * 10**6),
    ],
    ids=["text", "bytes", "controls", "number", "list", "object", "row"],
)
def test_long_values_are_shown_short(value: object) -> None:
    """Z3: whatever the value, the message is short, and the error is made."""
    assert len(shown(value)) <= 100
    error = UnknownTimeZoneError(value, "tz")
    assert len(str(error)) < 200
    assert str(error).endswith(" is not a known time zone")
