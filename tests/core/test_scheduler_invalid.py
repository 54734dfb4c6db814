"""Rows that cannot be scheduled: reported once, and scheduled as soon as they are fixed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import anyio.to_thread
import pytest

from tests.core.scheduling import HOUR, START, Journal
from weftjobs import InvalidScheduleError, JobsError, ObservableArray, Row, Scheduler, atomic

WRONG: dict[str, dict[str, Any]] = {
    "none of the three": {},
    "only tz": {"tz": "UTC"},
    "at and every": {"at": START, "every": "1h"},
    "every and cron": {"every": "1h", "cron": "0 * * * *", "tz": "UTC"},
    "all three": {"at": START, "every": "1h", "cron": "0 * * * *", "tz": "UTC"},
    "cron without tz": {"cron": "0 * * * *"},
    "unknown zone": {"cron": "0 * * * *", "tz": "Mars/Olympus"},
    "empty zone": {"cron": "0 * * * *", "tz": ""},
    "zone out of the tree": {"cron": "0 * * * *", "tz": "../etc/passwd"},
    "zone of another type": {"cron": "0 * * * *", "tz": 5},
    "cron that does not parse": {"cron": "every day", "tz": "UTC"},
    "cron that never comes": {"cron": "0 0 30 2 *", "tz": "UTC"},
    "cron of another type": {"cron": ["0", "*"], "tz": "UTC"},
    "long cron": {"cron": "* " * 500_000, "tz": "UTC"},
    "every of 0": {"every": 0},
    "negative every": {"every": -5},
    "every below 1 ms": {"every": 0.2},
    "every is a bool": {"every": True},
    "every is NaN": {"every": float("nan")},
    "every is infinite": {"every": float("inf")},
    "every past the calendar": {"every": 10**400},
    "every that is no duration": {"every": "soon"},
    "every without a unit": {"every": "30"},
    "every of another type": {"every": object()},
    "every in a list": {"every": [5]},
    "at is naive": {"at": datetime(2026, 1, 1)},
    "at without an offset": {"at": "2026-01-01T00:00:00"},
    "at is a bool": {"at": False},
    "at is NaN": {"at": float("nan")},
    "at past the calendar": {"at": 10**400},
    "at that is no time": {"at": "tomorrow"},
    "long at": {"at": "9" * 1_000_000},
    "at of another type": {"at": {"year": 2026}},
}


@pytest.mark.parametrize("fields", WRONG.values(), ids=WRONG)
async def test_wrong_row_is_reported_once_and_not_scheduled(fields: dict[str, Any]) -> None:
    """R3: it is reported once with reason invalid; other rows run as usual."""
    journal = Journal()
    wrong, right = Row(fields, name="wrong"), Row(name="right", every="1h")
    async with journal.scheduler(ObservableArray([wrong, right])) as scheduler:
        await journal.clock.advance("2h")
        assert scheduler.next_due(wrong) is None
    assert journal.reasons == [("wrong", "invalid")]
    assert isinstance(journal.failures[0][1], InvalidScheduleError)
    assert journal.ran == [("right", HOUR), ("right", 2 * HOUR)]
    assert "last" not in wrong


async def test_message_names_the_field_and_the_value() -> None:
    """R3: the report says which field is wrong and shows what it holds."""
    journal = Journal()
    async with journal.scheduler(ObservableArray([Row(every="soon"), Row(cron="* *", tz="UTC")])):
        await journal.clock.advance(0)
    every, cron = (str(error) for _, error in journal.failures)
    assert "every" in every
    assert "'soon'" in every
    assert "cron" in cron
    assert "'* *'" in cron


async def test_edit_of_another_field_does_not_report_again() -> None:
    """R3: only an edit into another kind of wrong is reported again."""
    journal = Journal()
    row = Row(name="a", every="soon")
    async with journal.scheduler(ObservableArray([row])):
        await journal.clock.advance(0)
        row["owner"] = "me"
        row["last"] = {"status": "ok"}
        del row["owner"]
        await journal.clock.advance("1h")
        assert len(journal.failures) == 1
        row["every"] = -1
        await journal.clock.advance("1h")
        assert len(journal.failures) == 2
        del row["every"]
        await journal.clock.advance("1h")
    assert len(journal.failures) == 3
    assert len({str(error) for _, error in journal.failures}) == 3


async def test_fixed_row_is_scheduled_from_now() -> None:
    """R3: fix the row and it is scheduled; break it again and it is reported again."""
    journal = Journal()
    row = Row(name="a", every="soon")
    async with journal.scheduler(ObservableArray([row])) as scheduler:
        await journal.clock.advance("30m")
        row["every"] = "1h"
        assert scheduler.next_due(row) == journal.clock.now() + HOUR
        await journal.clock.advance("1h")
        row["every"] = "soon"
        assert scheduler.next_due(row) is None
        await journal.clock.advance("3h")
    assert journal.ran == [("a", HOUR + HOUR // 2)]
    assert journal.reasons == [("a", "invalid")] * 2


async def test_row_that_breaks_in_a_commit_and_is_whole_in_the_end_is_not_reported() -> None:
    """R3: a commit is taken in as a whole, so a state in between is no row that is wrong."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h")])
    async with journal.scheduler(jobs):
        with atomic(jobs):
            del jobs[0]["every"]
            jobs[0]["at"] = START + HOUR
        await journal.clock.advance("3h")
    assert journal.failures == []
    assert journal.ran == [("a", HOUR)]


async def test_rows_present_at_the_start_are_reported_after_it() -> None:
    """R3: nothing is reported before `__aenter__` has returned, so a handler may stop."""
    jobs = ObservableArray([Row(), Row(), Row(every="1h")])
    told: list[Row] = []
    entered = False

    async def failed(row: Row, error: Exception) -> None:
        assert entered
        told.append(row)
        await scheduler.stop()

    journal = Journal()
    scheduler = journal.scheduler(jobs, failed=failed)
    async with scheduler:
        entered = True
        await journal.clock.advance("2h")
    assert told[:1] == [jobs[0]]
    assert journal.ran == []


async def test_handler_may_edit_the_array() -> None:
    """R3: the report comes after the commit was walked, so a handler edits the array freely."""
    jobs = ObservableArray()

    def failed(row: Row, error: Exception) -> None:
        assert [row.get("name") for row in jobs] == ["wrong", "right"]
        with atomic(jobs):
            jobs.remove(row)
            jobs.append(Row(name="new", every="1h"))

    journal = Journal()
    async with journal.scheduler(jobs, failed=failed):
        jobs.extend([Row(name="wrong"), Row(name="right", every="1h")])
        assert len(jobs) == 2
        await journal.clock.advance("1h")
    assert journal.ran == [("right", HOUR), ("new", HOUR)]


async def test_handler_may_fix_the_row() -> None:
    """R3: a handler that repairs the row has it scheduled."""

    def failed(row: Row, error: Exception) -> None:
        row["every"] = "1h"

    journal = Journal()
    jobs = ObservableArray([Row(name="a")])
    async with journal.scheduler(jobs, failed=failed):
        await journal.clock.advance("1h")
    assert journal.ran == [("a", HOUR)]


async def test_handler_that_breaks_the_row_anew_each_time_hears_each_wrong() -> None:
    """R3: an edit into another kind of wrong, made by the handler, is reported in turn."""
    wrongs: list[object] = ["soon", -1, None]
    told: list[str] = []

    def failed(row: Row, error: Exception) -> None:
        told.append(str(error))
        if wrongs:
            row["every"] = wrongs.pop()

    journal = Journal()
    async with journal.scheduler(ObservableArray([Row(every=[])]), failed=failed):
        await journal.clock.advance("1h")
    assert len(told) == 4


async def test_row_that_is_wrong_in_a_thread_is_reported_on_the_event_loop() -> None:
    """R3: an edit made in another thread is reported like any other."""
    journal = Journal()
    jobs = ObservableArray()
    told = anyio.Event()

    def failed(row: Row, error: Exception) -> None:
        told.set()

    async with journal.scheduler(jobs, failed=failed):
        await anyio.to_thread.run_sync(jobs.append, Row())
        with anyio.fail_after(10):
            await told.wait()


async def test_wrong_row_without_a_handler_ends_the_scheduler() -> None:
    """S7: without a handler the report is raised where nothing catches it."""
    journal = Journal()
    with pytest.raises(ExceptionGroup) as raised:
        async with Scheduler(ObservableArray([Row()]), journal.run, clock=journal.clock):
            await anyio.sleep_forever()
    (error,) = raised.value.exceptions
    assert isinstance(error, JobsError)
    assert error.reason == "invalid"


async def test_row_removed_and_put_back_right() -> None:
    """R3: a wrong row that leaves the array and comes back right is scheduled."""
    journal = Journal()
    row = Row(name="a")
    jobs = ObservableArray([row])
    async with journal.scheduler(jobs):
        await journal.clock.advance(0)
        jobs.clear()
        row["every"] = "1h"
        jobs.append(row)
        await journal.clock.advance("1h")
    assert journal.reasons == [("a", "invalid")]
    assert journal.ran == [("a", HOUR)]
