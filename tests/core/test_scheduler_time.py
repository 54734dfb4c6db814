"""When rows are due: grids, wall clocks, machines that slept and clocks that were set."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.core.scheduling import DAY, HOUR, MINUTE, SECOND, START, Journal
from weftjobs import ObservableArray, Row, RunContext, Scheduler
from weftjobs.testing import VirtualClock


def one(**fields: Any) -> ObservableArray:
    return ObservableArray([Row(fields, name="a")])


async def test_first_fire_is_one_interval_after_the_row_is_seen() -> None:
    """R2: an interval begins when the row is seen, and fires on its grid from then on."""
    journal = Journal()
    jobs = one(every="1h")
    await journal.clock.advance("17m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("3h")
    assert journal.slots == [17 * MINUTE + n * HOUR for n in (1, 2, 3)]
    assert journal.times == journal.slots


async def test_grid_does_not_move_with_what_a_run_takes() -> None:
    """R2: runs shorter and longer than the interval leave the grid where it is."""
    journal = Journal()
    jobs = one(every="1m", takes="90s")
    async with journal.scheduler(jobs):
        await journal.clock.advance("2m")
        jobs[0]["takes"] = "59s"
        await journal.clock.advance("2m59s")
    assert journal.slots == [1 * MINUTE, 3 * MINUTE, 4 * MINUTE]
    assert journal.times == journal.slots
    assert journal.skips == [("a", 2 * MINUTE)]


async def test_shortest_interval() -> None:
    """R2: an interval of 1 ms fires every millisecond."""
    journal = Journal()
    async with journal.scheduler(one(every=1)):
        await journal.clock.advance(50)
    assert journal.slots == list(range(1, 51))


async def test_one_off_fires_at_its_instant() -> None:
    """R2: `at` fires once, at that instant."""
    journal = Journal()
    async with journal.scheduler(one(at="2026-01-02T03:04:05.678Z")):
        await journal.clock.advance("30d")
    assert journal.slots == [DAY + 3 * HOUR + 4 * MINUTE + 5_678]
    assert journal.times == journal.slots


async def test_cron_reads_the_wall_clock_of_its_zone() -> None:
    """R2: `cron` with `tz` fires when the clocks on the walls of that zone say so."""
    journal = Journal()
    async with journal.scheduler(one(cron="30 9 * * mon-fri", tz="Asia/Kolkata")):
        await journal.clock.advance("5d")
    # 2026-01-01 is a Thursday; 09:30 in India is 04:00 UTC.
    assert journal.slots == [4 * HOUR, DAY + 4 * HOUR, 4 * DAY + 4 * HOUR]


async def run_hours_of_a_day(start: str, cron: str) -> list[float]:
    """Return the hours past `start`, within 24, at which a cron fires in Toronto."""
    clock = VirtualClock(start)
    begin = clock.now()
    hours: list[float] = []

    async def run(job: Row, context: RunContext) -> None:
        hours.append((context.due - begin) / HOUR)

    async with Scheduler(one(cron=cron, tz="America/Toronto"), run, clock=clock):
        await clock.advance("24h")
    return hours


async def test_wall_time_that_does_not_exist_is_not_run() -> None:
    """C5: on the day the clocks go forward, what lies in the gap does not run."""
    assert await run_hours_of_a_day("2026-03-08T05:00:00Z", "30 2 * * *") == []
    assert await run_hours_of_a_day("2026-03-09T05:00:00Z", "30 2 * * *") == [1.5]


async def test_wall_time_that_occurs_twice_runs_twice() -> None:
    """C5: on the day the clocks go back, a row runs at both occurrences of a wall time."""
    assert await run_hours_of_a_day("2026-11-01T04:00:00Z", "30 1 * * *") == [1.5, 2.5]


@pytest.mark.parametrize(
    ("fields", "due", "following"),
    [
        ({"every": "1h"}, HOUR, 7 * DAY + HOUR),
        ({"every": "1h", "cron": None}, HOUR, 7 * DAY + HOUR),
        ({"cron": "0 * * * *", "tz": "UTC"}, HOUR, 7 * DAY + HOUR),
        ({"cron": "0 12 * * *", "tz": "UTC"}, 12 * HOUR, 7 * DAY + 12 * HOUR),
    ],
)
async def test_week_asleep_is_one_run(fields: dict[str, Any], due: int, following: int) -> None:
    """S4: after a week asleep a row runs once, due when it was armed for; nothing is made up."""
    journal = Journal()
    jobs = one(**fields)
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("30m")
        journal.clock.jump("7d")
        await journal.clock.advance(0)
        assert journal.slots == [due]
        assert journal.times == [7 * DAY + HOUR // 2]
        assert scheduler.next_due(jobs[0]) == START + following
        await journal.clock.advance(following - 7 * DAY - HOUR // 2)
    assert journal.slots == [due, following]
    assert journal.skips == []


async def test_grid_outlives_a_long_sleep() -> None:
    """S4: what fires late does not move the grid of the row."""
    journal = Journal()
    async with journal.scheduler(one(every="1h")):
        journal.clock.jump("7d 23m")
        await journal.clock.advance("2h")
    assert journal.slots == [HOUR, 7 * DAY + HOUR, 7 * DAY + 2 * HOUR]


async def test_rows_missed_asleep_run_in_the_order_in_which_they_were_due() -> None:
    """S4: of what came due asleep, the oldest runs first."""
    journal = Journal()
    jobs = ObservableArray([Row(name=f"{n}h", every=n * HOUR) for n in (5, 3, 4, 1)])
    async with journal.scheduler(jobs):
        journal.clock.jump("1d")
        await journal.clock.advance(0)
    assert [name for name, _ in journal.ran] == ["1h", "3h", "4h", "5h"]


async def test_sleep_during_a_run_is_one_skipped_slot() -> None:
    """S4: slots that pass while a run is asleep count as the one that was armed."""
    journal = Journal()
    async with journal.scheduler(one(every="1h", takes="10m")):
        await journal.clock.advance("65m")
        journal.clock.jump("1d")
        await journal.clock.advance("130m")
    assert journal.skips == [("a", 2 * HOUR)]
    assert journal.slots == [HOUR, DAY + 2 * HOUR, DAY + 3 * HOUR]


@pytest.mark.parametrize("fields", [{"every": "1h"}, {"cron": "0 * * * *", "tz": "UTC"}])
@pytest.mark.parametrize("step", [1, 90 * SECOND, HOUR, 3 * HOUR])
async def test_small_step_back_names_no_slot_twice(
    fields: dict[str, Any], step: int, caplog: pytest.LogCaptureFixture
) -> None:
    """S4: set back by up to three hours, no slot comes twice, and none before its time."""
    journal = Journal()
    async with journal.scheduler(one(**fields)):
        await journal.clock.advance("5h")
        journal.clock.jump(-step)
        await journal.clock.advance(step)
        assert journal.slots == [n * HOUR for n in range(1, 6)]
        await journal.clock.advance("2h")
    assert journal.slots == [n * HOUR for n in range(1, 8)]
    assert journal.times == journal.slots
    assert caplog.records == []


async def test_steps_back_one_after_another() -> None:
    """S4: several small steps are each a step, not one large one."""
    journal = Journal()
    async with journal.scheduler(one(every="1h")):
        await journal.clock.advance("10h")
        for _ in range(3):
            journal.clock.jump(-2 * HOUR)
            await journal.clock.advance(0)
        await journal.clock.advance("8h")
    assert journal.slots == [n * HOUR for n in range(1, 13)]


@pytest.mark.parametrize(
    ("fields", "slots"),
    [
        ({"every": "1h"}, [HOUR, -DAY + HOUR * 5 // 2, -DAY + HOUR * 7 // 2]),
        ({"cron": "0 * * * *", "tz": "UTC"}, [HOUR, -DAY + 2 * HOUR, -DAY + 3 * HOUR]),
        ({"at": START + 2 * HOUR}, []),
    ],
    ids=["every", "cron", "at"],
)
async def test_large_step_back_is_a_correction(
    fields: dict[str, Any], slots: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """S4: a larger step back finds the slots from the new now, and is logged."""
    journal = Journal()
    async with journal.scheduler(one(**fields)):
        await journal.clock.advance("90m")
        journal.clock.jump(-DAY)
        await journal.clock.advance("2h")
    assert journal.slots == slots
    (record,) = caplog.records
    assert record.name == "weftjobs"
    assert record.levelno == logging.WARNING
    assert "set back" in record.getMessage()


async def test_one_off_keeps_its_instant_through_a_correction() -> None:
    """S4: an instant stays one; a one-off that ran does not run again."""
    journal = Journal()
    jobs = ObservableArray([Row(name="ran", at=START), Row(name="waits", at=START + 2 * HOUR)])
    async with journal.scheduler(jobs):
        await journal.clock.advance("1h")
        journal.clock.jump(-DAY)
        await journal.clock.advance("30h")
    assert journal.ran == [("ran", 0), ("waits", 2 * HOUR)]


async def test_correction_after_a_long_sleep(caplog: pytest.LogCaptureFixture) -> None:
    """S4: how far a step goes back does not depend on when the scheduler last looked."""
    journal = Journal()
    jobs = one(every="1d")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("6h")
        journal.clock.jump(-5 * HOUR)
        await journal.clock.advance(0)
        assert scheduler.next_due(jobs[0]) == START + HOUR + DAY
    assert len(caplog.records) == 1


async def test_small_step_after_a_long_sleep(caplog: pytest.LogCaptureFixture) -> None:
    """S4: a small step after many hours without a slot is a small step."""
    journal = Journal()
    jobs = one(every="1d")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("20h")
        journal.clock.jump(-2 * HOUR)
        await journal.clock.advance(0)
        assert scheduler.next_due(jobs[0]) == START + DAY
    assert caplog.records == []


async def test_step_back_while_the_row_runs() -> None:
    """S4: the grid is corrected under a run that goes on."""
    journal = Journal()
    async with journal.scheduler(one(every="1h", takes="10m")):
        await journal.clock.advance("65m")
        journal.clock.jump(-DAY)
        await journal.clock.advance("80m")
    assert journal.slots == [HOUR, -DAY + 65 * MINUTE + HOUR]
    assert journal.skips == []


class HastyClock(VirtualClock):
    """A clock whose timers fire when half the time is over."""

    async def sleep_until(self, milliseconds: int, /) -> None:
        await super().sleep_until(milliseconds - (milliseconds - self.now()) // 2)


@pytest.mark.parametrize("fields", [{"every": "1h"}, {"cron": "0 * * * *", "tz": "UTC"}])
async def test_timer_that_fires_early(fields: dict[str, Any]) -> None:
    """S4: nothing fires before its slot however early the timer is, and no slot twice."""
    journal = Journal()
    journal.clock = HastyClock(START)
    async with journal.scheduler(one(**fields)):
        await journal.clock.advance("3h")
    assert journal.slots == [HOUR, 2 * HOUR, 3 * HOUR]
    assert journal.times == journal.slots


@pytest.mark.parametrize("days", [24, 25, 40, 49, 50, 400, 1_000])
async def test_long_wait_is_exact(days: int) -> None:
    """S11: a wait longer than any timer holds ends at its time."""
    journal = Journal()
    jobs = ObservableArray(
        [Row(name="at", at=START + days * DAY + 1), Row(name="every", every=days * DAY)]
    )
    async with journal.scheduler(jobs):
        await journal.clock.advance(days * DAY - 1)
        assert journal.ran == []
        await journal.clock.advance(2)
    assert journal.ran == [("every", days * DAY), ("at", days * DAY + 1)]
    assert journal.times == [days * DAY, days * DAY + 1]


async def test_interval_that_leads_past_the_calendar_never_comes() -> None:
    """Z2: where the calendar ends a row is over; it is no error."""
    journal = Journal()
    jobs = one(every="2920000d")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("1h")
        assert scheduler.next_due(jobs[0]) is None
